"""EASY backfilling with the planner IPM."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints, Job
from hpcosim_client.view import Policy, View
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

# The gaps between planned jobs on each node.


class Gaps:
    """The times at which each node is free, beside planned jobs.

    A node is occupied until its release, and during planned jobs. The state of the nodes is
    constant from each of `_times_s` to the next.

    Args:
        releases: expected releases, and the cost of nodes.
        now_s: present time, simulated seconds.
    """

    def __init__(self, releases: Releases, now_s: float) -> None:
        self._releases = releases
        release_s = np.maximum(releases.release_s, now_s)
        times_s = np.unique(np.append(release_s, now_s))
        self._times_s: Floats = times_s[times_s < math.inf]
        self._occupied: Bools = release_s > self._times_s[:, np.newaxis]
        # Since when each node that is free is free, simulated seconds.
        self._since_s: Floats = np.broadcast_to(release_s, self._occupied.shape).copy()

    def choose(
        self, count: int, lasts_s: float, after_s: float, before_s: float = math.inf
    ) -> tuple[float, Ints] | None:
        """Return the earliest start in gaps, and the cheapest nodes for it; None: there is none.

        Args:
            count: number of nodes.
            lasts_s: duration, in seconds.
            after_s: lower bound of the start, simulated seconds, not before now.
            before_s: upper bound of the start, exclusive.
        """
        first, last = self._step(after_s), int(self._times_s.searchsorted(before_s))
        free = self._occupied.shape[1] - np.count_nonzero(self._occupied[first:last], axis=1)
        for step in (first + np.flatnonzero(free >= count)).tolist():
            start_s = max(after_s, float(self._times_s[step]))
            nodes = np.flatnonzero(self._free(start_s, start_s + lasts_s))
            if len(nodes) >= count:
                since_s = self._since_s[step]
                return start_s, self._releases.cheapest(nodes, start_s, count, since_s)
        return None

    def fits(self, nodes: Ints, start_s: float, lasts_s: float) -> bool:
        """Return whether nodes are free from `start_s` on for `lasts_s`."""
        return bool(self._free(start_s, start_s + lasts_s)[nodes].all())

    def occupy(self, nodes: Ints, start_s: float, end_s: float) -> None:
        """Occupy nodes that are free from `start_s` to `end_s`."""
        first, last = self._split(start_s), self._split(end_s)
        self._occupied[first:last, nodes] = True
        self._since_s[last:, nodes] = np.maximum(self._since_s[last:, nodes], end_s)

    def _free(self, start_s: float, end_s: float) -> Bools:
        """Return bool[nodes]: the nodes that are free from `start_s` to `end_s`."""
        first = self._step(start_s)
        last = max(int(self._times_s.searchsorted(end_s)), first + 1)
        free: Bools = ~np.logical_or.reduce(self._occupied[first:last])
        return free

    def _step(self, at_s: float) -> int:
        return int(self._times_s.searchsorted(at_s, "right")) - 1

    def _split(self, at_s: float) -> int:
        """Make a step begin at a time, and return its index."""
        step = self._step(at_s)
        if self._times_s[step] == at_s:
            return step
        self._times_s = np.insert(self._times_s, step + 1, at_s)
        self._occupied = np.insert(self._occupied, step + 1, self._occupied[step], axis=0)
        self._since_s = np.insert(self._since_s, step + 1, self._since_s[step], axis=0)
        return step + 1


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
