"""Jobs bound to machines ahead of time: each starts at the first step at which it fits.

The cluster of Esmaili, Pedram 2019 (Deep-EAS), section II: time goes in steps, a machine is a node,
and what will be free is known by expected run times. What the paper leaves open is decided here:

- A job takes as many steps as its expected run time has, begun ones included. The row of a plan
  that is 0 is the step that begins now.
- A job that runs holds its cores until its expected end, and if it is past that, for this step.
- Bound jobs are laid out anew at every step, in the order in which they were bound, each at the
  first row from which on its cores are free for all its steps. So they come forward as others end
  early, and stand back as others end late.
- A job fits on a machine if it would be over within the horizon.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hpcosim_client.alarm import PolicyAlarm
from hpcosim_client.heuristics.node_keys import run_time_scale
from hpcosim_client.job import Job
from hpcosim_client.view import View

INSTANT_S = 1e-6  # an end this close to a step's is at it


class Bound(NamedTuple):
    """A job that is to start on a node.

    Attributes:
        job: a waiting job.
        node: number of the node.
    """

    job: Job
    node: int


class StepPlan:
    """What each machine will compute, step by step.

    Args:
        view: of the run.
        horizon: how many steps ahead a job may be planned.
        step_s: the length of a step.

    Attributes:
        bound: jobs that are to start, by number, in the order in which they were bound.
        used: for each node the cores taken in each step from now on, at least `horizon` of them.
    """

    used: list[list[int]]

    def __init__(self, view: View, horizon: int = 30, step_s: float = 1.0) -> None:
        self.horizon = horizon
        self.step_s = step_s
        self.bound: dict[int, Bound] = {}
        self._alarm = PolicyAlarm()
        self._cores: list[int] = view.nodes.capacity.tolist()
        self._scale: list[float] = run_time_scale(view).tolist()
        self.used = [[0] * horizon for _ in self._cores]

    def steps(self, job: Job, node: int) -> int:
        """Return how many steps a job is expected to take on a node."""
        expected_s = job.requested_s * self._scale[node]
        return max(math.ceil((expected_s - INSTANT_S) / self.step_s), 1)

    def follow(self, view: View) -> None:
        """Lay all out anew, and start the bound jobs whose turn it is."""
        for job_id in [job_id for job_id in self.bound if job_id not in view.queue]:
            del self.bound[job_id]
        rows = self.horizon + sum(self.steps(*bound) for bound in self.bound.values())
        self.used = [[0] * rows for _ in self._cores]
        for job in view.running.values():
            self._hold(view, job)
        for bound in list(self.bound.values()):
            self._lay(view, *bound)

    def first_step(self, job: Job, node: int) -> int | None:
        """Return the row at which a job would start on a node; None: it does not fit there."""
        row, steps = self._first_row(job, node), self.steps(job, node)
        return row if row is not None and row + steps <= self.horizon else None

    def bind(self, view: View, job: Job, node: int) -> None:
        """Bind a waiting job to a node it fits on; it starts at once if its turn is now."""
        self.bound[job.job_id] = Bound(job, node)
        self._lay(view, job, node)

    def wake_at_next_step(self, view: View) -> None:
        """Ask to be woken when the next step begins, if any job waits."""
        if view.queue:
            next_s = (math.floor(view.now_s / self.step_s) + 1) * self.step_s
            self._alarm.set(view, next_s)

    def _lay(self, view: View, job: Job, node: int) -> None:
        row, steps = self._first_row(job, node), self.steps(job, node)
        assert row is not None, "there are rows enough for all that is bound"
        self._take(node, row, steps, job.cores)
        if row == 0 and view.start(job, [node]):
            del self.bound[job.job_id]

    def _first_row(self, job: Job, node: int) -> int | None:
        """Return the first row from which on the job's cores are free for all its steps."""
        steps, most, free = self.steps(job, node), self._cores[node] - job.cores, 0
        for row, used in enumerate(self.used[node]):
            free = free + 1 if used <= most else 0
            if free == steps:
                return row - steps + 1
        return None

    def _hold(self, view: View, job: Job) -> None:
        assert job.place is not None
        for node, held in zip(job.place.nodes.tolist(), job.place.held.tolist(), strict=True):
            left_s = job.start_s + job.requested_s * self._scale[node] - view.now_s
            rows = max(math.ceil((left_s - INSTANT_S) / self.step_s), 1)
            self._take(node, 0, min(rows, len(self.used[node])), held)

    def _take(self, node: int, first: int, steps: int, cores: int) -> None:
        used = self.used[node]
        for row in range(first, first + steps):
            used[row] += cores
