"""The power states of nodes, and the jobs that wait for their nodes to boot.

As `hpcosim_sim.physics.node_power` and `hpcosim_sim.engine.engine.Switching`, with the estimates of
`hpcosim_client.nodes.NodePool`. A node that is being switched off has no free cores; other nodes
can be allocated whatever their state is.
"""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.energy import note_peak, settle, sum_power
from hpcosim_compiled.placements import held_cores, may_use
from hpcosim_compiled.state import (
    ALLOCATED,
    CHANGES_PER_NODE,
    ON,
    PER_KIND,
    PLACES_PER_CORE,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    WAITING,
    Power,
    Processors,
    State,
)
from hpcosim_compiled.timers import set_timer


@compiled
def next_power_s(state: State, power: Power | None) -> float:
    """Return the next time at which a node or the power manager does something; infinity: never."""
    if power is None:
        return np.inf
    own = power.g[0]
    if own.has_changed:
        return state.g[0].now_s
    if own.timers == 0:
        return own.alarm_s
    return min(own.alarm_s, power.timers[power.timers[0].subject].at_s)


@compiled
def is_short(state: State, power: Power | None) -> bool:
    """Return whether an array may have too little room for the next instant; see `with_room`."""
    if power is None:
        return len(state.places) - state.g[0].places < state.g[0].cores
    own, nodes = power.g[0], len(power.nodes)
    return (
        len(state.places) - state.g[0].places < PLACES_PER_CORE * state.g[0].cores
        or len(power.changes) - own.changes < CHANGES_PER_NODE * nodes
        or len(power.draws) - own.drawn < nodes
    )


@compiled_apart
def switch(state: State, power: Power, node: int) -> None:
    """Let a node without tasks enter the next power state, and set the timer that ends it."""
    g, own, each = state.g[0], power.g[0], power.nodes[node]
    number = state.nodes[node].kind
    kind = state.kinds[number]
    note_peak(state)
    settle(kind, power, number, g.now_s)
    if each.state == ON:
        kind.idle -= 1
        own.nodes_off += 1
    else:
        power.kinds[PER_KIND * number + each.state].nodes -= 1
    each.state = (each.state + 1) % PER_KIND
    if each.state == ON:
        kind.idle += 1
        own.nodes_off -= 1
    else:
        power.kinds[PER_KIND * number + each.state].nodes += 1
    sum_power(kind, power, number)
    if each.state == SWITCHING_OFF:
        g.free_cores -= state.free[node]
        state.free[node] = 0
    elif each.state == SLEEPING:
        state.free[node] = state.nodes[node].capacity
        g.free_cores += state.free[node]
        g.lowest = min(g.lowest, node)
    change = power.changes[own.changes]
    change.at, change.at_s, change.node, change.state = g.changes, g.now_s, node, each.state
    own.changes += 1
    own.has_changed = True
    times = power.kinds[PER_KIND * number + each.state]
    lasts_s = times.lasts_s
    each.from_s = g.now_s + lasts_s if lasts_s < np.inf else -np.inf
    each.boot_s = 0.0
    if each.state in (SWITCHING_OFF, SLEEPING):
        each.boot_s = power.kinds[PER_KIND * number + SWITCHING_ON].lasts_s
    if times.lasts_sd_s != 0.0:
        lasts_s = max(lasts_s + times.lasts_sd_s * power.draws[own.drawn], 0.0)
        own.drawn += 1
    if lasts_s < np.inf:
        set_timer(own, power.timers, node, g.now_s + lasts_s, 0)


@compiled
def is_any(power: Power, power_state: int) -> bool:
    """Return whether any node is in a power state other than on."""
    for which in range(power_state, len(power.kinds), PER_KIND):
        if power.kinds[which].nodes > 0:
            return True
    return False


@compiled
def is_boot_late(state: State, power: Power | None) -> bool:
    """Return whether a node should be on by the mean time of switching, but is not."""
    if power is not None and is_any(power, SWITCHING_ON):
        for node in range(len(power.nodes)):
            each = power.nodes[node]
            if each.state == SWITCHING_ON and each.from_s <= state.g[0].now_s:
                return True
    return False


@compiled
def see(power: Power) -> None:
    """Note when nodes would be on, as a policy knows it until its next call."""
    for node in range(len(power.nodes)):
        each = power.nodes[node]
        each.seen_from_s, each.seen_boot_s = each.from_s, each.boot_s


@compiled
def see_if_on_first(power: Power | None) -> None:
    """Note the same for a list scheduler that prefers nodes that are on."""
    if power is not None and power.g[0].on_first:
        see(power)


@compiled_apart
def place_on_first(state: State, power: Power, row: int) -> int:
    """Write where the tasks of a job go behind the last place: nodes that are on go first.

    They follow by the time of their boot, see `hpcosim_client.nodes.NodePool.soonest_first`.

    Returns:
        Number of places; 0: there are too few free cores.
    """
    g, job = state.g[0], state.jobs[row]
    needed, place, last_boot_s, last_from_s = job.cores, g.places, -1.0, -np.inf
    while needed > 0:
        boot_s = from_s = np.inf
        for node in range(len(power.nodes)):
            each = power.nodes[node]
            if not may_use(state, row, node, state.free[node]):
                continue
            is_later = _is_before(last_boot_s, last_from_s, each.seen_boot_s, each.seen_from_s)
            if is_later and _is_before(each.seen_boot_s, each.seen_from_s, boot_s, from_s):
                boot_s, from_s = each.seen_boot_s, each.seen_from_s
        if boot_s == np.inf:
            return 0
        for node in range(len(power.nodes)):
            each = power.nodes[node]
            is_next = each.seen_boot_s == boot_s and each.seen_from_s == from_s
            if needed > 0 and is_next and may_use(state, row, node, state.free[node]):
                tasks = min(state.free[node], needed)
                state.places[place].node, state.places[place].tasks = node, tasks
                needed, place = needed - tasks, place + 1
        last_boot_s, last_from_s = boot_s, from_s
    return place - g.places


@compiled
def _is_before(boot_s: float, from_s: float, other_boot_s: float, other_from_s: float) -> bool:
    return boot_s < other_boot_s or (boot_s == other_boot_s and from_s < other_from_s)


# Jobs that wait for their nodes.


@compiled_apart
def hold(state: State, processors: Processors | None, power: Power, row: int, entries: int) -> bool:
    """Allocate places behind the last one to a job if a node of them is not on.

    The places are kept in `Power.booting`, because the job has no period yet.

    Returns:
        Whether the job waits for its nodes.
    """
    g, own, job = state.g[0], power.g[0], power.jobs[row]
    if own.nodes_off == 0:
        return False
    job.nodes_off, job.ready_s = 0, g.now_s
    for entry in range(g.places, g.places + entries):
        each = power.nodes[state.places[entry].node]
        job.nodes_off += each.state != ON
        job.ready_s = max(job.ready_s, max(each.from_s, g.now_s) + each.boot_s)
    if job.nodes_off == 0:
        return False
    state.jobs[row].state = ALLOCATED
    for entry in range(g.places, g.places + entries):
        place, booting = state.places[entry], power.booting[own.booting]
        booting.row, booting.node, booting.tasks = row, place.node, place.tasks
        own.booting += 1
        _add_held(state, processors, row, place.node, place.tasks, 1)
    for entry in range(g.places, g.places + entries):
        if power.nodes[state.places[entry].node].state == SLEEPING:
            switch(state, power, state.places[entry].node)
    return True


@compiled_apart
def take_booted(state: State, processors: Processors | None, power: Power, first: int) -> int:
    """Move the nodes of a job behind the last place, where they are free until the job starts.

    Args:
        state: the simulation.
        processors: its processors.
        power: its power states.
        first: the first entry of the job in `Power.booting`.

    Returns:
        Number of places.
    """
    g, own = state.g[0], power.g[0]
    row, last = power.booting[first].row, first
    while last < own.booting and power.booting[last].row == row:
        place, booting = state.places[g.places + last - first], power.booting[last]
        place.node, place.tasks = booting.node, booting.tasks
        _add_held(state, processors, row, place.node, place.tasks, -1)
        last += 1
    own.booting -= last - first
    for entry in range(first, own.booting):
        later = power.booting[entry + last - first]
        booting = power.booting[entry]
        booting.row, booting.node, booting.tasks = later.row, later.node, later.tasks
    state.jobs[row].state = WAITING
    return last - first


@compiled
def _add_held(
    state: State, processors: Processors | None, row: int, node: int, tasks: int, sign: int
) -> None:
    """Take what a job holds on a node, or give it back."""
    held = held_cores(state, row, node, tasks)
    state.free[node] -= sign * held
    state.g[0].free_cores -= sign * held
    state.g[0].lowest = min(state.g[0].lowest, node)
    if processors is not None:
        processors.nodes[node].memory_mb += sign * tasks * processors.needs[row].memory_mb
