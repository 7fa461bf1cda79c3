"""A simulation turned inside out: it stops where a pairing agent decides, and waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hpcosim_client import PolicyError, View
from hpcosim_client.agents.pairing.choices import Choices
from hpcosim_client.agents.pairing.forecast import Kind, kind_of
from hpcosim_client.agents.pairing.rounds import Rounds
from hpcosim_client.agents.pairing.settings import Pairing, Sees
from hpcosim_protocol import Platform
from hpcosim_scenarios.running.library import switching_chance
from hpcosim_server.engine.simulation import Rules, Simulation
from hpcosim_workloads.table import JobTable

Reward = Literal["spent", "foreseen"]


def usual_reward(sees: Sees) -> Reward:
    """Return the reward that suits what an agent sees."""
    return "foreseen" if sees == "foreseen" else "spent"


@dataclass(frozen=True, slots=True)
class Task:
    """What a pairing agent is trained for, whatever the jobs.

    Attributes:
        platform: the cluster.
        settings: what is decided, and what is to be small.
        reward: what a decision is worth. `spent`: minus the energy spent until the next, in J,
            under the objective `edp` times the time until the next, in J s, as in Lopez,
            Stafford, Bosque 2025, section 3.3.3; these do not add up to the product. `foreseen`:
            minus what the decision adds to the objective as foreseen of all jobs placed so far;
            the last makes up for what was foreseen wrongly, so rewards add up to minus the
            objective itself. Only for an agent that foresees.
        rules: what holds in the simulation.
        seed: of switching times that vary.
    """

    platform: Platform
    settings: Pairing = field(default_factory=Pairing)
    reward: Reward = "foreseen"
    rules: Rules = field(default_factory=Rules)
    seed: int = 0


class PairingEnvironment:
    """One workload, to be run again and again.

    It is to the letter the run of the policy `pairing`, with the choices coming from outside.

    Args:
        task: what it is about.
        jobs: the workload.
        scale: rewards are divided by this.
        usual: what placing a job of a kind usually costs, J or J s. It is added to the reward of
            placing one, so that what is left tells better from worse. As every job is placed
            once, whatever is decided, the sum of rewards is moved by the same in every run.

    Attributes:
        simulation: that of this run.
        choices: what there is to choose from.
        done: every job is over; there is nothing more to decide.
    """

    simulation: Simulation
    choices: Choices

    def __init__(
        self,
        task: Task,
        jobs: JobTable,
        scale: float = 1.0,
        usual: Mapping[Kind, float] | None = None,
    ) -> None:
        self.task = task
        self.jobs = jobs
        self.scale = scale
        self.usual = usual or {}
        self.done = True

    @property
    def objective(self) -> float:
        """What is to be small, of this run so far: J, or J s."""
        return objective_of(self.task.settings, self.simulation)

    def reset(self) -> Choices:
        """Begin anew, up to the first decision, and return what there is to choose from.

        Raises:
            PolicyError: the jobs can't be placed by a pairing agent, or nothing is to decide.
        """
        task = self.task
        rng = switching_chance(task.seed)
        self.simulation = Simulation(task.platform, self.jobs, task.rules, rng)
        self._view = View(
            task.platform, task.seed, wake_on_allocation=task.rules.wake_on_allocation
        )
        self._rounds = Rounds(task.settings, self._view)
        self.done = False
        self._seen = (0.0, self.simulation.start_s)
        self._go_on()
        if self.done:
            raise PolicyError("there is nothing to decide: no job of the workload can be placed")
        return self.choices

    def step(self, choice: int) -> float:
        """Choose, let time pass until the next decision, and return the reward."""
        assert not self.done, "the run is over: reset"
        pair = self.choices.pair(choice)
        usual = 0.0 if pair is None else self.usual.get(kind_of(pair[0]), 0.0)
        self._rounds.take(self._view, self.choices, choice)
        self._go_on()
        before, self._seen = self._seen, self._state()
        if self.task.reward == "foreseen":
            return (before[0] - self._seen[0] + usual) / self.scale
        spent_j, span_s = self._seen[0] - before[0], self._seen[1] - before[1]
        time_s = span_s if self.task.settings.objective == "edp" else 1.0
        return (usual - spent_j * time_s) / self.scale

    def _go_on(self) -> None:
        view, simulation, rounds = self._view, self.simulation, self._rounds
        while not self.done:
            choices = rounds.look(view)
            if choices is not None:
                self.choices = choices
                return
            batch = simulation.advance(
                view.decisions, wake_on=view.wake_on, elapsed_s=view.elapsed_s
            )
            view.apply(batch.now_s, batch.events)
            self.done = batch.ended or (view.no_more_jobs and not view.queue and not view.running)
            if not self.done:
                rounds.begin(view)

    def _state(self) -> tuple[float, float]:
        """Return what rewards are differences of: the objective, or the energy, and the time."""
        if self.task.reward == "spent":
            return energy_j(self.simulation), self.simulation.now_s
        if self.done:
            return self.objective, self.simulation.now_s
        forecast = self._rounds.forecast
        span_s = forecast.horizon_s(self._view.now_s) - self.simulation.start_s
        foreseen_j = forecast.committed_j + forecast.idle_w * span_s
        time_s = span_s if self.task.settings.objective == "edp" else 1.0
        return foreseen_j * time_s, self.simulation.now_s


def energy_j(simulation: Simulation) -> float:
    """Return the energy spent so far, J."""
    cluster = simulation.cluster
    cluster.settle(simulation.now_s)
    return sum(meter.energy_j for meter in cluster.meters)


def objective_of(settings: Pairing, simulation: Simulation) -> float:
    """Return what is to be small, of a run so far: J, or J s since the first submission."""
    time_s = simulation.now_s - simulation.start_s if settings.objective == "edp" else 1.0
    return energy_j(simulation) * time_s
