"""Energy-aware shortest job first, what Esmaili, Pedram 2019 (Deep-EAS) compare their agent with.

At each step, the pair of a waiting job and a machine of least expected normalised energy-delay
product is bound, and again, while anything fits within the horizon; then time goes on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

from hpcosim_client.errors import PolicyError
from hpcosim_client.heuristics.step_plan import Bound, StepPlan
from hpcosim_client.job import Job
from hpcosim_client.view import Policy, View

HORIZON = 30
QUEUE = 10
STEP_S = 1.0


def esjf(*, horizon: int = HORIZON, queue: int = QUEUE, now_only: bool = False) -> Policy:
    """Return the policy.

    The paper leaves open what of the delay counts: here all of it, from the submission to the end
    that is planned, waiting included.

    Args:
        horizon: how many steps ahead jobs may be planned.
        queue: how many of the waiting jobs that are not bound are eligible, the first ones.
        now_only: bind only what starts at once. The paper's binds ahead, which it need not.
    """
    plan: StepPlan | None = None

    def decide(view: View) -> None:
        nonlocal plan
        if plan is None:
            plan = StepPlan(view, horizon, STEP_S)
        refuse_what_never_fits(view, plan)
        plan.follow(view)
        while (pair := least(view, plan, eligible(view, plan, queue), now_only)) is not None:
            plan.bind(view, *pair)
        wake_at_next_step(view, plan.step_s)

    return decide


def eligible(view: View, plan: StepPlan, queue: int) -> list[Job]:
    """Return the first so many waiting jobs that are bound to no machine yet."""
    free = (job for job in view.queue.values() if job.job_id not in plan.bound)
    return list(islice(free, queue))


def normalised_edp(view: View, plan: StepPlan, job: Job, node: int, row: int) -> float:
    """Return what a job is expected to come to on a node from a row on (paper, section II-A).

    Both its energy and the time from its submission to its end are over its least expected run
    time.
    """
    steps = plan.steps(job, node)
    least = min(plan.steps(job, other) for other in range(len(view.nodes.capacity)))
    energy = job.cores * float(view.nodes.dynamic_w[node]) * steps / least
    waited = (view.now_s - job.submit_s) / plan.step_s
    return energy * (waited + row + steps) / least


def least(view: View, plan: StepPlan, jobs: Sequence[Job], now_only: bool = False) -> Bound | None:
    """Return the pair of least expected normalised energy-delay product; None: nothing fits.

    Of equal ones that of the job that came first, on the node of the least number.

    Args:
        view: for the time, and what nodes draw.
        plan: for what fits where.
        jobs: those to choose from.
        now_only: pairs that start at once alone.
    """
    best, least_value = None, math.inf
    for job in jobs:
        for node in range(len(view.nodes.capacity)):
            row = plan.first_step(job, node)
            if row is None or (now_only and row > 0):
                continue
            value = normalised_edp(view, plan, job, node, row)
            if value < least_value:
                best, least_value = Bound(job, node), value
    return best


def wake_at_next_step(view: View, step_s: float) -> None:
    """Have it decide again one step on, if anything waits."""
    if view.queue:
        view.set_alarm((math.floor(view.now_s / step_s) + 1) * step_s)


def refuse_what_never_fits(view: View, plan: StepPlan) -> None:
    """Raise PolicyError for a job that fits on no machine even if all is free."""
    for job in view.arrived:
        wide = [node for node, cores in enumerate(view.nodes.capacity) if cores >= job.cores]
        if job.placement == "whole_nodes" or not wide:
            raise PolicyError(
                f"job {job.job_id} asks for {job.cores} cores, placement {job.placement}; a job "
                f"goes to cores of one node here, of at most {view.nodes.largest}"
            )
        steps = min(plan.steps(job, node) for node in wide)
        if steps > plan.horizon:
            raise PolicyError(
                f"job {job.job_id} takes {steps} steps at the least; a horizon of {plan.horizon} "
                "is too short for it"
            )
