"""JOB-NODE, as `hpcosim_schedulers.heuristics.job_node`: jobs by rank, nodes by key."""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.cluster import begin
from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.orders import pop_by_rank
from hpcosim_compiled.policies import NODE_ORDERS
from hpcosim_compiled.state import RUNNING, WHOLE_NODES, Processors, State

HIGH_CORES, HIGH_MEM, HIGH_MEM_USED, HIGH_MEM_BW = map(
    NODE_ORDERS.index, ("high-cores", "high-mem", "high-mem-used", "high-mem-bw")
)


@compiled
def job_node(state: State, processors: Processors | None, order: int, one_per_event: bool) -> None:
    """Start jobs by rank, each on the first nodes by a key, until one does not fit."""
    if processors is None:
        return
    g, started = state.g[0], 0
    while g.keyed > 0 and not (one_per_event and started):
        entries = _place(state, processors, state.keyed[0], order)
        if entries == 0:
            return
        begin(state, state.keyed[0], entries)
        pop_by_rank(state)
        started += 1


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
    if order == HIGH_MEM_BW:
        _count_bandwidth(state, own)
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
