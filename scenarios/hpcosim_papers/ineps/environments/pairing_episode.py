"""The course of a pairing episode: its decisions, and the costs from which rewards follow."""

from __future__ import annotations

from typing import NamedTuple

from hpcosim_client import View
from hpcosim_gym.environments.batch_costs import energy_j
from hpcosim_papers.ineps.agent.choices import Choices
from hpcosim_papers.ineps.agent.rounds import PairingRounds
from hpcosim_papers.ineps.environments.pairing_task import PairingTask
from hpcosim_sim.engine.simulation import Simulation


class Spent(NamedTuple):
    """The cost of an episode up to a time.

    Attributes:
        cost: energy spent, or predicted objective; at the end the actual objective, J or J s.
        now_s: simulated time, s.
    """

    cost: float
    now_s: float


def next_choices(simulation: Simulation, view: View, rounds: PairingRounds) -> Choices | None:
    """Simulate until the next decision and return its choices; None: all jobs have finished."""
    while True:
        choices = rounds.look(view)
        if choices is not None:
            return choices
        batch = simulation.advance(view.decisions, wake_on=view.wake_on, elapsed_s=view.elapsed_s)
        view.apply(batch.now_s, batch.events)
        if batch.ended or (view.no_more_jobs and not view.queue and not view.running):
            return None
        rounds.begin(view)


def objective_of(task: PairingTask, simulation: Simulation) -> float:
    """Return the objective so far: energy, J, or energy x time, J s."""
    spent_j = energy_j(simulation)
    if task.settings.objective == "energy":
        return spent_j
    return spent_j * (simulation.now_s - simulation.start_s)


def spent_so_far(
    task: PairingTask, simulation: Simulation, view: View, rounds: PairingRounds, *, done: bool
) -> Spent:
    """Return the cost of an episode so far.

    Args:
        task: the task.
        simulation: the simulation.
        view: the view of the agent.
        rounds: the rounds of the agent, with the forecast.
        done: all jobs have finished.
    """
    now_s = simulation.now_s
    if task.reward == "spent":
        return Spent(energy_j(simulation), now_s)
    if done:
        return Spent(objective_of(task, simulation), now_s)
    forecast = rounds.forecast
    span_s = forecast.horizon_s(view.now_s) - simulation.start_s
    foreseen_j = forecast.committed_j + forecast.idle_w * span_s
    time_s = span_s if task.settings.objective == "edp" else 1.0
    return Spent(foreseen_j * time_s, now_s)


def reward_between(task: PairingTask, before: Spent, after: Spent, baseline: float) -> float:
    """Return the reward of a decision, without `reward_scale`.

    Args:
        task: the task.
        before: cost at the decision.
        after: cost at the next one.
        baseline: baseline cost of the job that was placed; 0: none was.
    """
    if task.reward == "foreseen":
        return before.cost - after.cost + baseline
    time_s = after.now_s - before.now_s if task.settings.objective == "edp" else 1.0
    return baseline - (after.cost - before.cost) * time_s
