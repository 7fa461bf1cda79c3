"""A sequence of jobs that stops where Deep-EAS decides, and what its run came to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client import View
from hpcosim_client.agents.deep_eas.picture import Picture
from hpcosim_client.agents.deep_eas.rounds import Rounds
from hpcosim_client.agents.deep_eas.settings import DeepEas
from hpcosim_client.heuristics.node_keys import run_time_scale
from hpcosim_client.job import Floats
from hpcosim_protocol import Platform
from hpcosim_server.simulation import Rules, Simulation
from hpcosim_server.workload.table import JobTable


class Machines(NamedTuple):
    """What is learned on, whatever the jobs.

    Attributes:
        platform: the cluster.
        rules: what holds in the simulation.
        settings: what is decided.
    """

    platform: Platform
    rules: Rules
    settings: DeepEas


class SequenceEnvironment:
    """One sequence of jobs, to be run again and again.

    It is to the letter the run of the policy `deep-eas`, with the actions coming from outside.

    Args:
        machines: where it runs.
        jobs: the sequence.

    Attributes:
        simulation: that of this run.
        seen: what there is to be decided on.
        mask: which actions are possible; None: none is masked.
        done: every job is over; there is nothing more to decide.
    """

    simulation: Simulation
    seen: Picture
    mask: NDArray[np.bool_] | None

    def __init__(self, machines: Machines, jobs: JobTable) -> None:
        self.machines = machines
        self.jobs = jobs
        self.done = True

    @property
    def now_s(self) -> float:
        """The time, s."""
        return self._view.now_s

    def reset(self) -> None:
        """Begin anew, up to the first decision."""
        platform, rules, settings = self.machines
        self.simulation = Simulation(platform, self.jobs, rules)
        self._view = View(platform)
        self._rounds = Rounds(settings, self._view)
        self._bound_s: dict[int, float] = {}
        self.done = False
        self._go_on()

    def step(self, action: int) -> None:
        """Choose, and let time pass until the next decision."""
        job = self._rounds.take(self._view, action)
        if job is not None:
            self._bound_s[job.job_id] = self.now_s
        self._go_on()

    def teach(self) -> int:
        """Return the action of energy-aware shortest job first."""
        return self._rounds.teach(self._view)

    def normalised_edps(self) -> Floats:
        """Return what each job came to, float64[jobs] (paper, section II-A)."""
        return self._costs().normalised_edps

    def worths(self, times_s: Floats) -> Floats:
        """Return what is still to come from some times on, float64[times] (paper, equation 2).

        The sum of the rewards from there: minus the sum of all normalised energy-delay products,
        but for what is counted before, where a job that is bound only at that time or later is
        counted as if on the machine that takes least energy.
        """
        costs = self._costs()
        spans_s = np.minimum(costs.end_s, times_s[:, None]) - costs.submit_s
        is_bound = costs.bound_s < times_s[:, None]
        weights = np.where(is_bound, costs.weight, costs.least_weight)
        counted = (weights * np.maximum(spans_s, 0.0)).sum(axis=1)
        worths: Floats = counted - costs.normalised_edps.sum()
        return worths

    def _costs(self) -> _Costs:
        assert self.done, "what is not over has come to nothing yet"
        recording, watts = self.simulation.recording, self._view.nodes.dynamic_w
        scale = run_time_scale(self._view)
        node = np.array([recording.nodes_of(row)[0] for row in range(len(recording))])
        end_s = np.array(recording.end_s)
        run_s = (end_s - np.array(recording.start_s)) / scale[node]  # on the slowest machine
        energy_j = self.jobs.cores * run_s * (watts * scale)[:, None]  # on each, of each job
        weights = energy_j / (self.jobs.requested_s * scale.min()) ** 2
        return _Costs(
            np.array(recording.submit_s),
            np.array([self._bound_s[job_id] for job_id in recording.job_id]),
            end_s,
            weights[node, np.arange(len(node))],
            weights.min(axis=0),
        )

    def _go_on(self) -> None:
        view, simulation, rounds = self._view, self.simulation, self._rounds
        while not self.done:
            seen = rounds.look(view)
            if seen is not None:
                self.seen = seen
                self.mask = rounds.possible() if self.machines.settings.masked else None
                return
            batch = simulation.advance(view.decisions, wake_on=view.wake_on)
            view.apply(batch.now_s, batch.events)
            self.done = batch.ended or (view.no_more_jobs and not view.queue and not view.running)
            if not self.done:
                rounds.begin(view)


class _Costs(NamedTuple):
    """Of each job, float64[jobs].

    Attributes:
        submit_s, bound_s, end_s: when it came, was bound and ended.
        weight: what each second that it is there costs.
        least_weight: that on the machine where it takes least energy.
    """

    submit_s: Floats
    bound_s: Floats
    end_s: Floats
    weight: Floats
    least_weight: Floats

    @property
    def normalised_edps(self) -> Floats:
        """What each job came to."""
        return self.weight * (self.end_s - self.submit_s)
