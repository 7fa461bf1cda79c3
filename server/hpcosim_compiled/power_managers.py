"""Power managers, as `hpcosim_schedulers.power.timeout`: they switch idle nodes off.

A node is idle while it can sleep, is on, and has no core that a job holds. Nodes that the policy
has reserved stay on.
"""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.node_power import switch
from hpcosim_compiled.policies import MANAGERS
from hpcosim_compiled.state import NO_MANAGER, ON, SLEEPING, SWITCHING_ON, Power, State
from hpcosim_schedulers.power import timeout

KEEP_IDLE, OFF_AT_NIGHT = MANAGERS.index("keep-idle"), MANAGERS.index("off-at-night")

_at_clock = compiled(timeout.at_clock)


@compiled
def manage(state: State, power: Power | None) -> None:
    """Call the power manager after the policy, unless all jobs are over."""
    g = state.g[0]
    if power is None or power.g[0].kind == NO_MANAGER:
        return
    if g.submitted < g.jobs or g.queued > 0 or g.running > 0:
        _manage(state, power)


@compiled_apart
def _manage(state: State, power: Power) -> None:
    own = power.g[0]
    ready = spare = _update_idle(state, power)
    if own.kind == OFF_AT_NIGHT:
        off, own.alarm_s = _at_clock(power.windows, state.g[0].now_s, own.origin_s)
        if off:
            _switch_off_all(state, power)
        else:
            _switch_on(state, power, len(power.nodes))
        return
    if own.kind == KEEP_IDLE:
        spare = max(ready - own.warm, 0)
    _switch_off(state, power, spare)
    if own.kind == KEEP_IDLE:
        wanting = own.warm - ready
        if wanting > 0:
            _switch_on(state, power, wanting - _count_unused(state, power, SWITCHING_ON))
    next_s = _next_due_s(state, power)
    if spare > 0 and next_s < np.inf:
        own.alarm_s = next_s


@compiled
def _update_idle(state: State, power: Power) -> int:
    """Note which nodes are idle now, and return how many they are."""
    count, own = 0, power.g[0]
    own.idle_since_s = np.inf
    for node in range(len(power.nodes)):
        each = power.nodes[node]
        if each.can_sleep and each.state == ON and state.free[node] == state.nodes[node].capacity:
            count += 1
            if np.isnan(each.idle_since_s):
                each.idle_since_s = state.g[0].now_s
            if not each.is_planned:
                own.idle_since_s = min(own.idle_since_s, each.idle_since_s)
        else:
            each.idle_since_s = np.nan
    return count


@compiled
def _switch_off(state: State, power: Power, most: int) -> None:
    """Switch off nodes that have been idle for the timeout, the longest first, then by number."""
    own, now_s = power.g[0], state.g[0].now_s
    while most > 0 and own.idle_since_s + own.timeout_s <= now_s:
        first_s, own.idle_since_s = own.idle_since_s, np.inf
        for node in range(len(power.nodes)):
            each = power.nodes[node]
            if each.is_planned:
                continue
            if each.idle_since_s == first_s and most > 0:
                each.idle_since_s = np.nan
                switch(state, power, node)
                most -= 1
            elif each.idle_since_s < own.idle_since_s:  # it may be NaN
                own.idle_since_s = each.idle_since_s


@compiled
def _switch_off_all(state: State, power: Power) -> None:
    """Switch off all idle nodes, in the order of their numbers."""
    for node in range(len(power.nodes)):
        if not (np.isnan(power.nodes[node].idle_since_s) or power.nodes[node].is_planned):
            power.nodes[node].idle_since_s = np.nan
            switch(state, power, node)


@compiled
def _switch_on(state: State, power: Power, most: int) -> None:
    """Switch on sleeping nodes without a job, in the order of their numbers."""
    for node in range(len(power.nodes)):
        if most > 0 and _is_unused(state, power, node, SLEEPING):
            switch(state, power, node)
            most -= 1


@compiled
def _count_unused(state: State, power: Power, power_state: int) -> int:
    count = 0
    for node in range(len(power.nodes)):
        count += _is_unused(state, power, node, power_state)
    return count


@compiled
def _is_unused(state: State, power: Power, node: int, power_state: int) -> bool:
    """Return whether a node is in a power state, and no job holds cores of it."""
    is_free = state.free[node] == state.nodes[node].capacity
    return power.nodes[node].state == power_state and is_free


@compiled
def _next_due_s(state: State, power: Power) -> float:
    """Return when the next node will have been idle for the timeout; infinity: no node is idle."""
    own, now_s, next_s = power.g[0], state.g[0].now_s, np.inf
    if own.planned == 0 and own.idle_since_s + own.timeout_s > now_s:
        return own.idle_since_s + own.timeout_s
    for node in range(len(power.nodes)):
        due_s = power.nodes[node].idle_since_s + own.timeout_s
        if due_s > now_s:
            next_s = min(next_s, due_s)
    return next_s
