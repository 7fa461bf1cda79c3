"""The heuristics `<job>-<node>`: the head of an ordered queue goes to the first of ordered nodes.

At every event the queue is ordered by the job key and its head is put, whole, on the first by
the node key of the nodes with enough idle cores; then the next, until one fits nowhere (Lopez,
Stafford, Bosque 2025, section 4; Lopez Rauhut 2023, section 4.1).

`<job>-<node>-one` starts one job at most at each event, even if more would fit. In the program
that these papers were made with, the agent does so, but the heuristics do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from hpcosim_client.heuristics import orders
from hpcosim_client.heuristics.list_scheduling import Start, by_fixed_key, by_random_order
from hpcosim_client.heuristics.node_keys import NODE_KEYS, NodeKey, energy_estimates_j
from hpcosim_client.job import Job, Place
from hpcosim_client.nodes import fill, usable_nodes
from hpcosim_client.view import Policy, View

JOB_KEYS: Mapping[str, orders.Key] = {
    "first": lambda job: job.submit_s,
    "shortest": orders.sjf,
    "smallest": orders.smallest,
    "low-mem": lambda job: job.memory_mb,
    "low-mem-ops": lambda job: job.memory_volume_mb,
    "none": lambda _: 0.0,
}
"""Keys of the queue; `none` keeps the order of submission."""

JOB_ORDERS = (*JOB_KEYS, "random")
"""Orders of the queue; `random` is sampled anew at every event."""


ONE = "-one"
"""The end of the name of a heuristic that starts one job at most at each event."""


class JobNode(NamedTuple):
    """The parts of a name `<job>-<node>` or `<job>-<node>-one`; see `job_node`."""

    job_order: str
    node_order: str
    one_per_event: bool


_BY_NAME = {
    f"{job_order}-{node_order}{end}": JobNode(job_order, node_order, bool(end))
    for end in ("", ONE)
    for job_order in JOB_ORDERS
    for node_order in NODE_KEYS
}


def parse_job_node(name: str) -> JobNode | None:
    """Return the parts of a name; None: it is not the name of one of these heuristics."""
    return _BY_NAME.get(name)


def job_node_names() -> Iterator[str]:
    """Yield the names of all these heuristics."""
    yield from _BY_NAME


def job_node(
    job_order: str, node_order: str, one_per_event: bool = False, *, soonest_on: bool = False
) -> Policy:
    """Return a policy by the names of its two orders.

    Args:
        job_order: a name of `JOB_ORDERS`.
        node_order: a name of `NODE_KEYS`.
        one_per_event: it starts one job at most each time it is called; all that happens at one
            instant is one event.
        soonest_on: nodes that are on go first, then booting ones, then sleeping ones, each in
            their order.
    """
    ordered = by_random_order
    if job_order != "random":
        ordered = partial(by_fixed_key, JOB_KEYS[job_order])
    start = start_by(NODE_KEYS[node_order](), soonest_on=soonest_on)
    return _one_at_a_time(ordered, start) if one_per_event else ordered(start)


def _one_at_a_time(ordered: Callable[[Start], Policy], start: Start) -> Policy:
    """Return the policy that finds no room for a second job.

    It is woken as the policy it is made of: not at submissions while no core is free, when none
    could start, and else at submissions and completions. Whatever it leaves waiting, something
    runs then, so an event comes.
    """
    has_started = False

    def start_first(view: View, job: Job) -> bool:
        nonlocal has_started
        if has_started:
            return False
        has_started = start(view, job)
        return has_started

    policy = ordered(start_first)

    def decide(view: View) -> None:
        nonlocal has_started
        has_started = False
        policy(view)

    return decide


def start_by(node_key: NodeKey, *, soonest_on: bool = False) -> Start:
    """Return what starts a job on the first, by a node key, of the nodes it may have.

    A job wider than every node takes several in that order, unless it asks for one node. A node
    on which the job is estimated to cost more than its `max_energy_j` is none it may have; the
    estimate is of one node, so it does not bind a job over several.
    """

    def start(view: View, job: Job) -> bool:
        place = _place(view, job, node_key, soonest_on=soonest_on)
        return place is not None and view.start_at(job, place)

    return start


def _place(view: View, job: Job, node_key: NodeKey, *, soonest_on: bool) -> Place | None:
    nodes = view.nodes
    if job.cores > nodes.free_cores:
        return None
    candidates = usable_nodes(job, nodes.free, nodes.capacity)
    fits_a_node = job.cores <= nodes.largest
    if fits_a_node:
        candidates = candidates[nodes.free[candidates] >= job.cores]
    if job.max_energy_j < math.inf and fits_a_node:
        estimates_j = energy_estimates_j(view, job.requested_s, job.cores, nodes.jobs)
        candidates = candidates[estimates_j[candidates] <= job.max_energy_j]
    if not len(candidates):
        return None
    keys = node_key(view)[candidates]
    if soonest_on:
        return fill(job, nodes.soonest_first(candidates[keys.argsort(kind="stable")]), nodes.free)
    if job.cores <= nodes.free[first := candidates[keys.argmin()]]:
        return fill(job, first.reshape(1), nodes.free)
    return fill(job, candidates[keys.argsort(kind="stable")], nodes.free)
