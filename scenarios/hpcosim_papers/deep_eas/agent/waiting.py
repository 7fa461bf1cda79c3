"""The waiting jobs that an agent sees: those in slots, and figures of the whole queue."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_papers.deep_eas.agent.scene import WINDOWS, Counts
from hpcosim_papers.deep_eas.agent.settings import DeepEas
from hpcosim_schedulers.heuristics.esjf import eligible
from hpcosim_schedulers.heuristics.step_plan import StepPlan

Figures = tuple[NDArray[np.int32], NDArray[np.int32], Counts]


class WaitingJobs:
    """The waiting jobs that are not bound to a machine.

    Args:
        settings: number and kind of the slots.
        plan: the plan of the machines.

    Attributes:
        recent: jobs submitted within the longest of `WINDOWS`.
    """

    def __init__(self, settings: DeepEas, plan: StepPlan) -> None:
        self._settings, self._plan = settings, plan
        self.recent: list[Job] = []
        self._steps: dict[int, int] = {}

    def follow(self, view: View) -> None:
        """Apply the events since the last call."""
        since_s = view.now_s - WINDOWS[-1] * self._settings.step_s
        self.recent += view.arrived
        self.recent = [job for job in self.recent if job.submit_s > since_s]
        nodes = range(len(view.nodes.capacity))
        for job in view.arrived:
            self._steps[job.job_id] = min(self._plan.steps(job, node) for node in nodes)
        if len(self._steps) > 2 * len(view.queue) + 100:
            self._steps = {one: steps for one, steps in self._steps.items() if one in view.queue}

    def slots(self, view: View) -> list[Job]:
        """Return the jobs in slots, see `DeepEas.sees`."""
        settings = self._settings
        if not settings.newest:
            return eligible(view, self._plan, settings.queue)
        shortest = self._by_length(view)[: settings.queue - settings.newest]
        taken = {job.job_id for job in shortest}
        rest = [job for job in self._all(view) if job.job_id not in taken]
        return shortest + rest[::-1][: settings.newest]

    def figures(self, view: View, slots: Sequence[Job]) -> Figures:
        """Return `ahead`, `work` and `recent` of a `Scene`; zeros where an agent does not see them.

        Args:
            view: the view.
            slots: the jobs in slots.
        """
        settings = self._settings
        ahead = np.zeros((1, settings.queue), dtype=np.int32)
        recent = np.zeros((1, len(WINDOWS)), dtype=np.int16)
        if settings.sees != "queue":
            return ahead, np.zeros(1, dtype=np.int32), recent
        jobs = self._by_length(view)
        sums = list(accumulate((self._steps[job.job_id] * job.cores for job in jobs), initial=0))
        before = {job.job_id: total for job, total in zip(jobs, sums, strict=False)}
        ahead[0, : len(slots)] = [before[job.job_id] for job in slots]
        ago = (view.now_s - np.array([job.submit_s for job in self.recent])) / settings.step_s
        recent[0] = [(ago < window).sum() for window in WINDOWS]
        return ahead, np.array(sums[-1:], dtype=np.int32), recent

    def _all(self, view: View) -> list[Job]:
        return eligible(view, self._plan, len(view.queue))

    def _by_length(self, view: View) -> list[Job]:
        return sorted(self._all(view), key=lambda job: self._steps[job.job_id])
