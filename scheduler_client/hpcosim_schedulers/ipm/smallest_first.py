"""Smallest need first with the planner IPM."""

from __future__ import annotations

from hpcosim_client.job import Job
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.heuristics.orders import snf
from hpcosim_schedulers.ipm.plan import Plan, Planner, plan_in_order, requested_s, start_in_order


def in_order(view: View) -> list[Job]:
    """Return the waiting jobs in the order `snf`."""
    return sorted(view.queue.values(), key=lambda job: (snf(job), job.order))


def snf_ipm() -> Policy:
    """Return SNF + IPM: smallest need first, with a plan of the whole queue at each call.

    1. Jobs start in the order of `orders.snf` while the first fits the idle nodes.
    2. The others are planned in that order: each on the nodes of `Releases.choose`, for its
       requested time, and none before the job ahead of it.
    3. A sleeping node of the plan is switched on one boot time before its first planned start.

    A node of the plan that could not be switched off and on again before its start stays on
    (`PowerExchange.planned`); a power manager beside the policy switches other nodes off.
    """
    planner = Planner()

    def decide(view: View) -> None:
        planner.transitions.update(view)
        smallest_first(view, planner)

    return decide


def smallest_first(view: View, planner: Planner) -> None:
    """Do one call of `snf_ipm`, after the update of the planner's transitions."""
    plan: Plan = []
    if view.queue:
        releases = planner.releases(view)
        waiting = start_in_order(view, releases, in_order(view))
        plan = plan_in_order(view, releases, waiting, view.now_s, requested_s)
    planner.follow(view, plan)
    planner.plan_again_before_ends(view)
