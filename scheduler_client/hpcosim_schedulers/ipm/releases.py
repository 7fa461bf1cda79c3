"""The expected release of each node, and the choice of nodes that wastes the least energy."""

from __future__ import annotations

import math

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.free_resources import fill
from hpcosim_client.job import Allocation, Bools, Floats, Ints, Job
from hpcosim_client.view import View
from hpcosim_schedulers.power.watts import ON, SWITCHING_OFF, SWITCHING_ON, Watts, codes_of

# The expected rest of the transitions of nodes.


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


class Releases:
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

    Args:
        view: the view at the begin of a call.
        transitions: the expected rest of transitions.
        watts: powers of nodes without a job.

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
            count: number of nodes, > 0.
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
            nodes: int64[n], the nodes to choose from.
            start_s: the start, simulated seconds.
            count: number of nodes, at most n.
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
