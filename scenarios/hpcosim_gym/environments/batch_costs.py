"""Costs of an episode of `hpcosim/BatchScheduling-v1`; a reward is the decrease of a cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np

from hpcosim_client import View
from hpcosim_client.job import Floats
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.metrics import BOUND_S, jobs_that_ran, slowdowns, waits
from hpcosim_workloads.table import JobTable

Objective = Literal["wait", "bounded_slowdown", "energy"]


class BatchEpisode(NamedTuple):
    """An episode: the arguments of a cost.

    Attributes:
        simulation: the simulation, with everything that the scheduler does not know.
        view: the scheduler's view.
        jobs: the jobs of the episode.
    """

    simulation: Simulation
    view: View
    jobs: JobTable


Cost = Callable[[BatchEpisode], float]
"""Returns the cost of an episode so far; lower is better."""


class JobCost:
    """The mean over the jobs of an episode of a cost that grows while they wait.

    Args:
        of: returns the cost of jobs for the waits float64[n], s, of jobs with the run times
            float64[n], s.
        final: name of the metric that the cost equals at the end of an episode.
    """

    def __init__(self, of: Callable[[Floats, Floats], Floats], final: str) -> None:
        self._of, self._final = of, final
        self._first = 0  # jobs before this row do not wait any more
        self._settled = 0.0  # sum of their costs
        self._requests, self._last = -1, 0.0  # of the last call

    def __call__(self, episode: BatchEpisode) -> float:
        """Return the cost so far; jobs that are not submitted yet have none."""
        simulation, recording = episode.simulation, episode.simulation.recording
        if simulation.requests == self._requests:  # no time has passed
            return self._last
        self._requests = simulation.requests
        if recording.over == len(episode.jobs):
            ran = jobs_that_ran(simulation.record())
            self._last = float({**waits(ran), **slowdowns(ran)}[self._final])
        else:
            self._last = self._so_far(episode) / len(episode.jobs)
        return self._last

    def _so_far(self, episode: BatchEpisode) -> float:
        """Return the sum of the costs of the jobs that were submitted."""
        recording, first = episode.simulation.recording, self._first
        if recording.requeues:  # a job that had started may wait again
            first, self._settled = 0, 0.0
        # Copies, because a column does not grow while NumPy reads it.
        submit_s = np.frombuffer(recording.submit_s[first:])
        left_s = np.array(recording.start_s[first:])  # when they stopped waiting
        if recording.ended_idle:  # cancelled jobs
            ended_s = np.frombuffer(recording.end_s[first:])
            left_s = np.where(np.isnan(left_s), ended_s, left_s)
        waiting = np.isnan(left_s)
        left_s[waiting] = episode.simulation.now_s
        costs = self._of(left_s - submit_s, episode.jobs.run_s[first : first + len(left_s)])
        total = self._settled + float(costs.sum())
        settled = int(waiting.argmax()) if waiting.any() else len(costs)
        self._first = first + settled
        self._settled += float(costs[:settled].sum())
        return total


def _bounded_slowdown(wait_s: Floats, run_s: Floats) -> Floats:
    slowdown: Floats = np.maximum(1.0, (wait_s + run_s) / np.maximum(run_s, BOUND_S))
    return slowdown


def _wait(wait_s: Floats, _: Floats) -> Floats:
    return wait_s


def energy_j(simulation: Simulation) -> float:
    """Return the energy that all nodes have drawn, J."""
    cluster = simulation.cluster
    cluster.settle(simulation.now_s)
    return sum(meter.energy_j for meter in cluster.meters)


def _energy(episode: BatchEpisode) -> float:
    return energy_j(episode.simulation)


OBJECTIVES: Mapping[Objective, Callable[[], Cost]] = {
    "wait": lambda: JobCost(_wait, "mean_wait_s"),
    "bounded_slowdown": lambda: JobCost(_bounded_slowdown, "mean_bounded_slowdown"),
    "energy": lambda: _energy,
}
"""New costs of an episode by name."""


def new_cost(reward: Objective | Cost) -> Cost:
    """Return a new cost for an episode.

    Raises:
        ValueError: the reward is unknown.
    """
    if callable(reward):
        return reward
    if reward not in OBJECTIVES:
        known = ", ".join(get_args(Objective))
        raise ValueError(f"reward: expected one of {known} or a function, got {reward!r}")
    return OBJECTIVES[reward]()
