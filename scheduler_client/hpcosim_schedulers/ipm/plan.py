"""The planner IPM: starts of jobs in an order, and the plan of those that wait; EASY with it.

Nodes are chosen by their expected releases, so that the least energy is wasted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.free_resources import fill
from hpcosim_client.job import Allocation, Bools, Floats, Ints, Job
from hpcosim_client.profiles import Reservation
from hpcosim_client.view import Policy, PolicyAlarm, View
from hpcosim_schedulers.heuristics.list_scheduling import explain_queue
from hpcosim_schedulers.heuristics.power_aware import WakeAhead
from hpcosim_schedulers.power.account import ON, SWITCHING_OFF, SWITCHING_ON, Watts, codes_of

Duration = Callable[[Job], float]
"""Returns the expected run time of a waiting job, in seconds."""


class PlannedJob(NamedTuple):
    """A waiting job with its planned start, simulated seconds, and int64[n], its nodes."""

    job: Job
    start_s: float
    nodes: Ints


Plan = Sequence[PlannedJob]


def requested_s(job: Job) -> float:
    """Return the requested run time of a job, in seconds."""
    return job.requested_s


def start_in_order(view: View, releases: NodeReleases, jobs: Sequence[Job]) -> Sequence[Job]:
    """Start jobs while the first of them fits the idle nodes, and return the others.

    Args:
        releases: the releases; the nodes of started jobs are occupied for the requested time.
    """
    idle = usable_idle(view)
    for at, job in enumerate(jobs):
        found = releases.choose(nodes_needed(view, job), view.now_s, idle)
        if found is None:
            return jobs[at:]
        start_on(view, releases, job, found[1])
        idle[found[1]] = False
    return []


def usable_idle(view: View) -> Bools:
    """Return bool[nodes]: the nodes on which a job can start now."""
    idle = view.nodes.idle()
    idle[view.nodes.unavailable()] = False
    return idle


def start_on(view: View, releases: NodeReleases, job: Job, nodes: Ints) -> None:
    """Start a job on idle nodes."""
    view.start_at(job, allocation_on(view, job, nodes))
    releases.occupy(nodes, view.now_s + job.requested_s)


def plan_in_order(
    view: View, releases: NodeReleases, jobs: Iterable[Job], after_s: float, lasts_s: Duration
) -> list[PlannedJob]:
    """Plan jobs in an order, none before the one ahead of it; stop at one that never fits.

    Args:
        releases: the releases; the nodes of planned jobs are occupied.
    """
    plan = []
    for job in jobs:
        found = releases.choose(nodes_needed(view, job), after_s)
        if found is None:
            break
        after_s, nodes = found
        releases.occupy(nodes, after_s + lasts_s(job))
        plan.append(PlannedJob(job, after_s, nodes))
    return plan


class Planner:
    """What the planning policies share: expected releases, and the switching for a plan."""

    def __init__(self) -> None:
        self.transitions = Transitions()
        self._wake_ahead = WakeAhead("planned")
        self._alarm = PolicyAlarm()
        self._watts: Watts | None = None

    def watts(self, view: View) -> Watts:
        """Return the powers of the nodes."""
        if self._watts is None:
            self._watts = Watts(view.platform)
        return self._watts

    def releases(self, view: View) -> NodeReleases:
        """Return the expected releases at the begin of a call."""
        return NodeReleases(view, self.transitions, self.watts(view))

    def follow(self, view: View, plan: Plan) -> None:
        """Switch sleeping nodes on in time for a plan, and mark nodes that are to stay on."""
        reservations = [
            Reservation(start_s, allocation_on(view, job, nodes)) for job, start_s, nodes in plan
        ]
        self._wake_ahead.follow(view, reservations)
        head, start_s = (plan[0].job, plan[0].start_s) if plan else (None, math.inf)
        explain_queue(view, head, start_s)

    def plan_again_before_ends(self, view: View) -> None:
        """Be called when a running job is to end in the time that a sleeping node takes to boot."""
        asleep = [node for node, power in enumerate(view.nodes.power) if power == "sleeping"]
        boots_s = np.unique(view.nodes.switch_on_s[asleep]).tolist()
        now_s = view.now_s
        ends_s = [requested_end_s(job, now_s) for job in view.running.values()]
        times_s = [end_s - boot_s for end_s in ends_s for boot_s in boots_s if end_s < math.inf]
        self._alarm.set_or_cancel(view, min((at for at in times_s if at > now_s), default=math.inf))


class Transitions:
    """The time for which each node is expected to go on switching on or off.

    A transition is expected to take its mean time. One that is late is expected to take the mean
    time once more from the call that first finds it late.

    Attributes:
        left_s: float64[nodes], at the last update, in seconds; 0: the node does not switch.
    """

    def __init__(self) -> None:
        self.left_s: Floats = np.zeros(0)
        self._since_s: Floats = np.zeros(0)

    def update(self, view: View) -> None:
        """Update `left_s` at a call, before its decisions."""
        nodes = view.nodes
        if not len(self._since_s):
            self._since_s = np.full(len(nodes.free), -np.inf)
        state = codes_of(nodes)
        switching = (state == SWITCHING_ON) | (state == SWITCHING_OFF)
        mean_s = np.where(state == SWITCHING_ON, nodes.switch_on_s, nodes.switch_off_s)
        self._since_s = np.maximum(self._since_s, nodes.power_since_s)
        late = switching & (view.now_s >= self._since_s + mean_s)
        self._since_s[late] = view.now_s
        self.left_s = np.where(switching, self._since_s + mean_s - view.now_s, 0.0)


COMPUTING = 1
"""Place of computing nodes in `_RANK_OF_STATE`."""

_RANK_OF_STATE = np.array([3, 3, 2, 0])  # by `POWER_CODES`; on: idle, or `COMPUTING`


class NodeReleases:
    """When each node can be used, and the energy wasted until then.

    A node is released

    - now, if it is idle;
    - at the requested end of its job; it is unknown if the job has overrun its request;
    - when it is on, if it is switched on as soon as possible: it is counted in full for a sleeping
      node, and after the rest of the transition for one that switches.

    A node that failed or is drained is never released, nor is one whose job has an unknown end.

    The cost of a node for a start at t is the energy of the transitions until its release and, if
    the node is idle, computing or switched on at the begin of the call, its idle power times
    (t - release). Ties: idle nodes, then computing ones, then those that are switched on, then
    others; idle nodes in the order of the shortest idle time; then by number.

    Attributes:
        release_s: float64[nodes], simulated seconds; infinity: never.
        cost_j: float64[nodes], energy of the transitions until the release, in J.
        waiting_w: float64[nodes], power that counts from the release on, in W.
        rank: int64[nodes], place of each node among nodes of equal cost.
    """

    def __init__(self, view: View, transitions: Transitions, watts: Watts) -> None:
        nodes, now_s = view.nodes, view.now_s
        state, left_s = codes_of(nodes), transitions.left_s
        off = state <= SWITCHING_OFF
        boot_s = np.where(off, nodes.switch_on_s, 0.0)
        self.release_s: Floats = now_s + left_s + boot_s
        self.cost_j: Floats = (
            left_s * watts.in_state(state) + boot_s * watts.by_state[:, SWITCHING_ON]
        )
        self.waiting_w: Floats = np.where(off, 0.0, watts.by_state[:, ON])
        place = _RANK_OF_STATE[state]
        for job in view.running.values():
            assert job.allocation is not None
            self.release_s[job.allocation.nodes] = requested_end_s(job, now_s)
            place[job.allocation.nodes] = COMPUTING
        self.exclude_unavailable(view)
        self.rank: Ints = np.empty(len(place), dtype=np.int64)
        self.rank[np.lexsort((-_idle_since_s(view, place), place))] = np.arange(len(place))

    def choose(
        self, count: int, after_s: float, among: Bools | None = None
    ) -> tuple[float, Ints] | None:
        """Return the earliest start on some nodes, and the nodes that cost the least for it.

        Args:
            after_s: lower bound of the start, simulated seconds.
            among: bool[nodes], the nodes to choose from; None: all.

        Returns:
            The start, simulated seconds, and int64[count], node numbers. None: too few nodes are
            ever released.
        """
        release_s = self.release_s
        if among is not None:
            release_s = np.where(among, release_s, math.inf)
        if count > len(release_s):
            return None
        start_s = max(after_s, float(np.partition(release_s, count - 1)[count - 1]))
        if start_s == math.inf:
            return None
        return start_s, self.cheapest(np.flatnonzero(release_s <= start_s), start_s, count)

    def cheapest(
        self, nodes: Ints, start_s: float, count: int, since_s: Floats | None = None
    ) -> Ints:
        """Return the nodes that cost the least for a start.

        Args:
            since_s: float64[nodes], when each node was released; None: `release_s`.
        """
        since_s = self.release_s if since_s is None else since_s
        cost_j = self.cost_j[nodes] + self.waiting_w[nodes] * (start_s - since_s[nodes])
        return nodes[np.lexsort((self.rank[nodes], cost_j))[:count]]

    def exclude_unavailable(self, view: View) -> None:
        """Note that nodes that failed or are drained are never released."""
        self.release_s[view.nodes.unavailable()] = math.inf

    def occupy(self, nodes: Ints, until_s: float) -> None:
        """Note that a job is planned or started on nodes, which releases them at `until_s`."""
        self.release_s[nodes] = until_s


def _idle_since_s(view: View, place: Ints) -> Floats:
    """Return since when each idle node is idle; 0: it is not idle, infinity: since this call."""
    since_s = np.where(
        np.isnan(view.power_exchange.idle_since_s), math.inf, view.power_exchange.idle_since_s
    )
    return np.where(place == 0, since_s, 0.0)


def requested_end_s(job: Job, now_s: float) -> float:
    """Return the end of a running job by its request, simulated seconds; infinity: it overran."""
    end_s = job.start_s + job.suspended_s + job.requested_s
    return end_s if end_s > now_s else math.inf


def nodes_needed(view: View, job: Job) -> int:
    """Return the number of whole nodes that a job needs.

    Raises:
        PolicyError: nodes have different numbers of cores, or the job does not hold whole nodes or
            needs more than cores.
    """
    node_cores = view.nodes.largest
    if int(view.nodes.capacity.min()) < node_cores:
        raise PolicyError("power_awareness: ipm needs nodes with equal numbers of cores")
    if job.demand is not None or (node_cores > 1 and job.placement != "whole_nodes"):
        raise PolicyError(
            f"power_awareness: ipm plans whole nodes: job {job.job_id} must hold whole nodes "
            "(workload.placement: whole_nodes) and need no more than cores"
        )
    return -(-job.cores // node_cores)


def allocation_on(view: View, job: Job, nodes: Ints) -> Allocation:
    """Return the allocation of a job on whole nodes."""
    allocation = fill(job, nodes, view.nodes.capacity)
    assert allocation is not None
    return allocation


class Gaps:
    """The times at which each node is free, beside planned jobs.

    A node is occupied until its release, and during planned jobs. The state of the nodes is
    constant from each of `_times_s` to the next.
    """

    def __init__(self, releases: NodeReleases, now_s: float) -> None:
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
    2. The first other job, the head, is planned on the nodes of `NodeReleases.choose`.
    3. A later job starts if it fits idle nodes that are not the head's, or if the idle nodes that
       cost the least for it are not the head's, or if it ends by the head's start. If jobs that
       overran their requests leave too few nodes for the head, no later job starts.
    4. The others are planned in submission order, none before the job ahead of it. Then each in
       that order is moved to the earliest gap before its planned start; if there is none and its
       nodes are not free then, to the earliest gap after it.
    5. Nodes are switched on for the plan, and stay on, as in `icon.snf_ipm`.
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


def _backfill_and_plan(view: View, releases: NodeReleases, waiting: Sequence[Job]) -> Plan:
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


def _started(view: View, releases: NodeReleases, job: Job, head: PlannedJob) -> bool:
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
