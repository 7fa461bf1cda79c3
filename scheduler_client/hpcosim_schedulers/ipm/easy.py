"""EASY backfilling with the planner IPM."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hpcosim_client.job import Job
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.ipm.gaps import Gaps
from hpcosim_schedulers.ipm.plan import (
    Plan,
    PlannedJob,
    Planner,
    plan_in_order,
    requested_s,
    start_in_order,
    start_on,
    usable_idle,
)
from hpcosim_schedulers.ipm.releases import Releases, nodes_needed


def easy_ipm() -> Policy:
    """Return FCFS/B + IPM: EASY backfilling with a plan of the whole queue at each call.

    1. Jobs start in submission order while the first fits the idle nodes.
    2. The first other job, the head, is planned on the nodes of `Releases.choose`.
    3. A later job starts if it fits idle nodes that are not the head's, or if the idle nodes that
       cost the least for it are not the head's, or if it ends by the head's start. If jobs that
       overran their requests leave too few nodes for the head, no later job starts.
    4. The others are planned in submission order, none before the job ahead of it. Then each in
       that order is moved to the earliest gap before its planned start; if there is none and its
       nodes are not free then, to the earliest gap after it.
    5. Nodes are switched on for the plan, and stay on, as in `smallest_first.snf_ipm`.
    """
    planner = Planner()

    def decide(view: View) -> None:
        planner.transitions.update(view)
        plan: Plan = []
        if view.queue:
            releases = planner.releases(view)
            waiting = start_in_order(view, releases, view.queue.values())
            plan = _backfill_and_plan(view, releases, waiting)
        planner.follow(view, plan)
        planner.plan_again_before_ends(view)

    return decide


def _backfill_and_plan(view: View, releases: Releases, waiting: Sequence[Job]) -> Plan:
    """Start jobs that do not delay the head, and return the plan of the others."""
    if not waiting:
        return []
    head = waiting[0]
    found = releases.choose(nodes_needed(view, head), view.now_s)
    if found is None:
        return []
    planned = PlannedJob(head, *found)
    later = [job for job in waiting[1:] if not _started(view, releases, job, planned)]
    unplanned = Gaps(releases, view.now_s)
    releases.occupy(planned.nodes, planned.start_s + head.requested_s)
    in_order = plan_in_order(view, releases, later, planned.start_s, requested_s)
    return _moved_into_gaps(unplanned, view.now_s, [planned, *in_order])


def _started(view: View, releases: Releases, job: Job, head: PlannedJob) -> bool:
    """Start a job behind the head if it fits now and does not delay the head."""
    count, idle = nodes_needed(view, job), usable_idle(view)
    others = idle.copy()
    others[head.nodes] = False
    found = releases.choose(count, view.now_s, others)
    if found is None:
        found = releases.choose(count, view.now_s, idle)
        if found is None:
            return False
        takes_heads = bool(np.isin(found[1], head.nodes).any())
        if takes_heads and view.now_s + job.requested_s > head.start_s:
            return False
    start_on(view, releases, job, found[1])
    return True


def _moved_into_gaps(gaps: Gaps, now_s: float, plan: Plan) -> Plan:
    """Return a plan whose jobs, in this order, start in earlier gaps where possible."""
    moved: list[PlannedJob] = []
    for job, start_s, nodes in plan:
        lasts_s, place = job.requested_s, None
        if moved and now_s < start_s:
            place = gaps.choose(len(nodes), lasts_s, now_s, start_s)
        if place is None and gaps.fits(nodes, start_s, lasts_s):
            place = (start_s, nodes)
        if place is None:
            place = gaps.choose(len(nodes), lasts_s, start_s, math.inf)
        if place is None:
            break
        gaps.occupy(place[1], place[0], place[0] + lasts_s)
        moved.append(PlannedJob(job, *place))
    return sorted(moved, key=lambda each: each.start_s)
