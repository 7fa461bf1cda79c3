"""Energy-aware shortest job first, the baseline of Esmaili, Pedram 2019 (Deep-EAS).

At each step, the pair of a waiting job and a machine with the least expected normalised
energy-delay product is bound, repeatedly, while a job fits within the horizon. `StepPlan` has the
bound jobs: each starts at the first step at which it fits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Job
from hpcosim_client.view import Policy, PolicyAlarm, View
from hpcosim_schedulers.heuristics.job_node import check_one_node_jobs, run_time_scale

HORIZON = 30
QUEUE = 10
STEP_S = 1.0


INSTANT_S = 1e-6  # tolerance of the end of a step


def esjf(*, horizon: int = HORIZON, queue: int = QUEUE, now_only: bool = False) -> Policy:
    """Return the policy of energy-aware shortest job first.

    The paper does not define the delay; here it is the time from submission to the planned end.

    Args:
        horizon: number of steps in which a job must end.
        queue: number of eligible jobs: the first waiting jobs that are not bound.
        now_only: whether only jobs that start immediately are bound. The paper binds ahead.
    """
    plan: StepPlan | None = None

    def decide(view: View) -> None:
        nonlocal plan
        if plan is None:
            plan = StepPlan(view, horizon, STEP_S)
        check_jobs_fit(view, plan)
        plan.follow(view)
        while (pair := least(view, plan, eligible(view, plan, queue), now_only)) is not None:
            plan.bind(view, *pair)
        plan.wake_at_next_step(view)

    return decide


def eligible(view: View, plan: StepPlan, queue: int) -> list[Job]:
    """Return the first `queue` waiting jobs that are not bound to a machine."""
    free = (job for job in view.queue.values() if job.job_id not in plan.bound)
    return list(islice(free, queue))


def least(
    view: View, plan: StepPlan, jobs: Sequence[Job], now_only: bool = False
) -> MachineBinding | None:
    """Return the pair with the least expected normalised energy-delay product; None: no job fits.

    Ties: the earlier job, the lower node. With `now_only`, among pairs that start immediately.
    """
    best, least_value = None, math.inf
    watts: list[float] = view.nodes.dynamic_w.tolist()
    for job in jobs:
        waited = (view.now_s - job.submit_s) / plan.step_s
        steps = [plan.steps(job, node) for node in range(len(watts))]
        for node, core_w in enumerate(watts):
            row = plan.first_step(job, node)
            if row is None or (now_only and row > 0):
                continue
            # Energy and time, each divided by the least expected run time (paper, section II-A).
            energy = job.cores * core_w * steps[node] / min(steps)
            value = energy * (waited + row + steps[node]) / min(steps)
            if value < least_value:
                best, least_value = MachineBinding(job, node), value
    return best


def check_jobs_fit(view: View, plan: StepPlan) -> None:
    """Raise PolicyError for a job that fits on no machine of an idle cluster."""
    check_one_node_jobs(view, "a plan of machines places")
    for job in view.arrived:
        wide = view.nodes.suits(job).nonzero()[0].tolist()
        steps = min(plan.steps(job, node) for node in wide)
        if steps > plan.horizon:
            raise PolicyError(
                f"job {job.job_id} needs at least {steps} steps, more than the horizon of "
                f"{plan.horizon}"
            )


class MachineBinding(NamedTuple):
    """A waiting job that is bound to a machine."""

    job: Job
    node: int


class StepPlan:
    """The occupied cores of each machine in each step, and the bound jobs.

    Attributes:
        bound: the bound jobs by number, in the order of binding.
        used: for each node, the occupied cores in each step from now on, at least `horizon` steps.
    """

    used: list[list[int]]

    def __init__(self, view: View, horizon: int = 30, step_s: float = 1.0) -> None:
        self.horizon = horizon
        self.step_s = step_s
        self.bound: dict[int, MachineBinding] = {}
        self._alarm = PolicyAlarm()
        self._cores: list[int] = view.nodes.capacity.tolist()
        self._scale: list[float] = run_time_scale(view).tolist()
        self._nodes = view.nodes
        self.used = [[0] * horizon for _ in self._cores]

    def steps(self, job: Job, node: int) -> int:
        """Return the expected run time of a job on a node, in steps."""
        expected_s = job.requested_s * self._scale[node]
        return max(math.ceil((expected_s - INSTANT_S) / self.step_s), 1)

    def follow(self, view: View) -> None:
        """Rebuild the plan, and start the bound jobs that it places at row 0."""
        for job_id in [job_id for job_id in self.bound if job_id not in view.queue]:
            del self.bound[job_id]
        rows = self.horizon + sum(self.steps(*bound) for bound in self.bound.values())
        self.used = [[0] * rows for _ in self._cores]
        for job in view.running.values():
            self._hold(view, job)
        for bound in list(self.bound.values()):
            self._lay(view, *bound)

    def first_step(self, job: Job, node: int) -> int | None:
        """Return the row at which a job would start on a node; None: it does not fit."""
        if job.demand is not None and not self._nodes.suits(job)[node]:
            return None
        row, steps = self._first_row(job, node), self.steps(job, node)
        return row if row is not None and row + steps <= self.horizon else None

    def bind(self, view: View, job: Job, node: int) -> None:
        """Bind a waiting job to a node on which it fits; it starts if its row is 0."""
        self.bound[job.job_id] = MachineBinding(job, node)
        self._lay(view, job, node)

    def wake_at_next_step(self, view: View) -> None:
        """Set an alarm for the next step if any job waits."""
        if view.queue:
            next_s = (math.floor(view.now_s / self.step_s) + 1) * self.step_s
            self._alarm.set(view, next_s)

    def _lay(self, view: View, job: Job, node: int) -> None:
        row, steps = self._first_row(job, node), self.steps(job, node)
        assert row is not None, "the plan has rows for all bound jobs"
        self._take(node, row, steps, job.cores)
        if row == 0 and view.start(job, [node]):
            del self.bound[job.job_id]

    def _first_row(self, job: Job, node: int) -> int | None:
        """Return the first row from which the job's cores are free for all its steps."""
        steps, most, free = self.steps(job, node), self._cores[node] - job.cores, 0
        for row, used in enumerate(self.used[node]):
            free = free + 1 if used <= most else 0
            if free == steps:
                return row - steps + 1
        return None

    def _hold(self, view: View, job: Job) -> None:
        assert job.allocation is not None
        for node, held in job.allocation.by_node():
            end_s = job.start_s + job.suspended_s + job.requested_s * self._scale[node]
            left_s = end_s - view.now_s
            rows = max(math.ceil((left_s - INSTANT_S) / self.step_s), 1)
            self._take(node, 0, min(rows, len(self.used[node])), held)

    def _take(self, node: int, first: int, steps: int, cores: int) -> None:
        used = self.used[node]
        for row in range(first, first + steps):
            used[row] += cores
