"""Energy-aware shortest job first, what Esmaili, Pedram 2019 (Deep-EAS) compare their agent with.

At each step, the pair of a waiting job and a machine of least expected normalised energy-delay
product is bound, and again, while anything fits within the horizon; then time goes on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

from hpcosim_client.errors import PolicyError
from hpcosim_client.heuristics.one_node import check_one_node_jobs
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
        check_jobs_fit(view, plan)
        plan.follow(view)
        while (pair := least(view, plan, eligible(view, plan, queue), now_only)) is not None:
            plan.bind(view, *pair)
        plan.wake_at_next_step(view)

    return decide


def eligible(view: View, plan: StepPlan, queue: int) -> list[Job]:
    """Return the first `queue` waiting jobs that are not bound to a machine yet."""
    free = (job for job in view.queue.values() if job.job_id not in plan.bound)
    return list(islice(free, queue))


def least(view: View, plan: StepPlan, jobs: Sequence[Job], now_only: bool = False) -> Bound | None:
    """Return the pair of least expected normalised energy-delay product; None: nothing fits.

    Of equal ones that of the job that came first, on the node of the least number. If `now_only`,
    of the pairs that start at once.
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
            # Energy and time, each over the least expected run time (paper, section II-A).
            energy = job.cores * core_w * steps[node] / min(steps)
            value = energy * (waited + row + steps[node]) / min(steps)
            if value < least_value:
                best, least_value = Bound(job, node), value
    return best


def check_jobs_fit(view: View, plan: StepPlan) -> None:
    """Raise PolicyError for a job that fits on no machine even if all is free."""
    check_one_node_jobs(view, "a plan of machines places")
    for job in view.arrived:
        wide = [node for node, cores in enumerate(view.nodes.capacity) if cores >= job.cores]
        steps = min(plan.steps(job, node) for node in wide)
        if steps > plan.horizon:
            raise PolicyError(
                f"job {job.job_id} takes {steps} steps at the least; a horizon of {plan.horizon} "
                "is too short for it"
            )
