"""Energy-aware shortest job first, the baseline of Esmaili, Pedram 2019 (Deep-EAS).

At each step, the pair of a waiting job and a machine with the least expected normalised
energy-delay product is bound, repeatedly, while a job fits within the horizon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Job
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.heuristics.one_node import check_one_node_jobs
from hpcosim_schedulers.heuristics.step_plan import MachineBinding, StepPlan

HORIZON = 30
QUEUE = 10
STEP_S = 1.0


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
