"""JOB-NODE, as `hpcosim_schedulers.heuristics.job_node`: jobs by rank or chance, nodes by key."""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.chance import below, uniform
from hpcosim_compiled.cluster import begin
from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.orders import pop_by_rank
from hpcosim_compiled.policies import NODE_ORDERS, PolicyCode
from hpcosim_compiled.state import RUNNING, WHOLE_NODES, Processors, State
from hpcosim_compiled.waiting import ANY, next_place

HIGH_CORES, HIGH_MEM, HIGH_MEM_USED, HIGH_MEM_BW, RANDOM = map(
    NODE_ORDERS.index, ("high-cores", "high-mem", "high-mem-used", "high-mem-bw", "random")
)


@compiled
def job_node(state: State, processors: Processors | None, policy: PolicyCode) -> None:
    """Start jobs in an order, each on the first nodes by a key, until one does not fit."""
    if processors is None:
        return
    if policy.shuffles:
        _by_chance(state, processors, policy.key, policy.one_per_event)
    else:
        _by_rank(state, processors, policy.key, policy.one_per_event)


@compiled
def _by_rank(state: State, processors: Processors, order: int, one_per_event: bool) -> None:
    g, started = state.g[0], 0
    while g.keyed > 0 and not (one_per_event and started):
        entries = _place(state, processors, state.keyed[0], order)
        if entries == 0:
            return
        begin(state, state.keyed[0], entries)
        pop_by_rank(state)
        started += 1


@compiled
def _by_chance(state: State, processors: Processors, order: int, one_per_event: bool) -> None:
    g, rows, size, started = state.g[0], state.rows, 0, 0
    if g.free_cores == 0:
        return
    place = next_place(state, g.first, ANY)
    while place < g.last:
        rows[size] = state.queue[place]
        size, place = size + 1, next_place(state, place + 1, ANY)
    while size > 0:
        chosen = below(state, processors, size)
        if one_per_event and started:
            return
        entries = _place(state, processors, rows[chosen], order)
        if entries == 0:
            return
        begin(state, rows[chosen], entries)
        started += 1
        size -= 1
        rows[chosen] = rows[size]


@compiled_apart
def _place(state: State, own: Processors, row: int, order: int) -> int:
    """Write where the tasks of a job go behind the last place.

    A job larger than every node takes several nodes in the order of the key.

    Returns:
        Number of places; 0: there are too few free cores.
    """
    g, job, nodes = state.g[0], state.jobs[row], state.nodes
    if job.cores > g.free_cores:
        return 0
    least = job.cores if job.cores <= g.largest_node else 1
    if not _set_keys(state, own, order, least, job.placement == WHOLE_NODES):
        return 0
    needed, place, last, last_key = job.cores, g.places, -1, -np.inf
    while needed > 0:
        found, found_key = -1, np.inf
        for node in range(len(state.free)):
            cores = state.free[node]
            if cores < least or (job.placement == WHOLE_NODES and cores < nodes[node].capacity):
                continue
            key = _key(state, own, order, node)
            if found >= 0 and key >= found_key:
                continue
            if last < 0 or key > last_key or (key == last_key and node > last):
                found, found_key = node, key
        if found < 0:
            return 0
        state.places[place].node = found
        state.places[place].tasks = min(state.free[found], needed)
        needed -= state.free[found]
        place, last, last_key = place + 1, found, found_key
    return place - g.places


@compiled
def _set_keys(state: State, own: Processors, order: int, least: int, whole: bool) -> bool:
    """Set keys that depend on the calls; return whether there is a node for a job.

    Args:
        least: least free cores of such a node.
        whole: whether all its cores must be free.
    """
    if order != HIGH_MEM_BW and order != RANDOM:
        return True
    for node in range(len(state.free)):
        cores = state.free[node]
        if cores >= least and (not whole or cores == state.nodes[node].capacity):
            break
    else:
        return False
    if order == HIGH_MEM_BW:
        _count_bandwidth(state, own)
    else:
        for node in range(len(state.free)):
            own.nodes[node].key = uniform(state, own)
    return True


@compiled_apart
def _count_bandwidth(state: State, own: Processors) -> None:
    """Count the bandwidth that jobs require on each node, in the order of `NodeTotals`."""
    g, needs, kept = state.g[0], own.needs, 0
    for place in range(g.counted):
        row = needs[place].counted
        if state.jobs[row].state == RUNNING:
            needs[kept].counted = row
            kept += 1
            continue
        period = state.periods[state.jobs[row].period]
        for at in range(period.first_place, period.first_place + period.places):
            node = state.places[at].node
            own.nodes[node].mbps -= state.places[at].tasks * needs[row].mbps
            if state.free[node] == state.nodes[node].capacity:
                own.nodes[node].mbps = 0.0  # removes rounding errors
    for number in range(g.noted, g.periods):
        row, period = state.periods[number].row, state.periods[number]
        if state.jobs[row].state == RUNNING:
            needs[kept].counted = row
            kept += 1
            for at in range(period.first_place, period.first_place + period.places):
                mbps = state.places[at].tasks * needs[row].mbps
                own.nodes[state.places[at].node].mbps += mbps
    g.counted, g.noted = kept, g.periods


@compiled
def _key(state: State, own: Processors, order: int, node: int) -> float:
    if order == HIGH_CORES:
        return -float(state.free[node])
    if order == HIGH_MEM:
        return own.nodes[node].memory_mb - own.nodes[node].key
    if order == HIGH_MEM_USED:
        return -own.nodes[node].memory_mb
    if order == HIGH_MEM_BW:
        return own.nodes[node].mbps / own.nodes[node].key
    return own.nodes[node].key
