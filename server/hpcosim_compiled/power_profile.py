"""When and where jobs can start on nodes with power states, as `heuristics.power_aware`.

The profile has the free cores of every node (`node_profile`). The reservation of a job is its nodes
there, from `JOB.reserved_s` on, and `POWER_JOB.boot_s`, after which it runs for its requested time.
"""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.node_power import see
from hpcosim_compiled.node_profile import (
    choose,
    clear,
    copy_line,
    find_least,
    forget,
    has_noted,
    hold,
    split_line,
    usable_cores,
)
from hpcosim_compiled.placements import held_cores
from hpcosim_compiled.state import (
    ALLOCATED,
    ON,
    SLEEPING,
    SWITCHING_OFF,
    NodesAhead,
    Power,
    State,
)
from hpcosim_compiled.steps import step_at


@compiled
def _on_s(power: Power, node: int, at_s: float) -> float:
    """Return when a node would be on if it were switched on at a time."""
    return max(power.nodes[node].seen_from_s, at_s) + power.nodes[node].seen_boot_s


@compiled
def make(state: State, ahead: NodesAhead, power: Power, is_planned: bool) -> None:
    """Make the profile of when nodes can be allocated, or are on if the policy plans."""
    see(power)
    g, steps, due = state.g[0], state.profile, state.due
    late_s = np.nextafter(g.now_s, np.inf)
    g.steps = 1
    steps[0].at_s, steps[0].number = g.now_s, 0
    ahead.lines[0] = 0
    for node in range(len(state.free)):
        is_out = is_planned and power.nodes[node].state != ON
        ahead.free[0, node] = 0 if is_out else state.free[node]
        steps[0].number += ahead.free[0, node]
    for entry in range(g.running):
        row, at_s = due[entry].number, max(due[entry].at_s, late_s)
        if at_s > steps[g.steps - 1].at_s:
            steps[g.steps].at_s, steps[g.steps].number = at_s, steps[g.steps - 1].number
            ahead.lines[g.steps] = g.steps
            copy_line(ahead, g.steps - 1, g.steps)
            g.steps += 1
        if state.jobs[row].state == ALLOCATED:
            for each in range(power.g[0].booting):
                booting = power.booting[each]
                if booting.row == row:
                    _give_back(state, ahead, row, booting.node, booting.tasks)
        else:
            period = state.periods[state.jobs[row].period]
            for each in range(period.first_place, period.first_place + period.places):
                place = state.places[each]
                _give_back(state, ahead, row, place.node, place.tasks)
    for node in range(len(power.nodes)):
        each_node = power.nodes[node]
        cores = state.free[node]
        if each_node.state == SWITCHING_OFF:
            cores = state.nodes[node].capacity
        on_s = _on_s(power, node, g.now_s)
        if not is_planned:
            on_s = each_node.from_s
        if each_node.state == SWITCHING_OFF or (is_planned and each_node.state != ON):
            for step in range(split_line(state, ahead, max(on_s, late_s)), g.steps):
                ahead.free[ahead.lines[step], node] += cores
                steps[step].number += cores


@compiled
def _give_back(state: State, ahead: NodesAhead, row: int, node: int, tasks: int) -> None:
    """Add what a job holds on a node to the last step of the profile."""
    last = state.g[0].steps - 1
    held = held_cores(state, row, node, tasks)
    ahead.free[ahead.lines[last], node] += held
    state.profile[last].number += held


# Reservations, see `cheapest_start`.


@compiled
def keep(state: State, ahead: NodesAhead, power: Power, row: int, sign: int) -> None:
    """Reserve the noted nodes of a job (sign 1), or give them back (sign -1)."""
    job = state.jobs[row]
    runs_s = job.reserved_s + power.jobs[row].boot_s
    hold(state, ahead, row, job.reserved_s, runs_s + job.requested_s, sign)


@compiled_apart
def is_kept(state: State, ahead: NodesAhead, power: Power, row: int, is_planned: bool) -> bool:
    """Update the boot of the noted nodes of a job; return whether they are free as before."""
    job, own = state.jobs[row], power.jobs[row]
    if not is_planned:
        on_s, each = -np.inf, job.held
        while each >= 0:
            on_s = max(on_s, _on_s(power, ahead.held[each].node, job.reserved_s))
            each = ahead.held[each].after
        own.boot_s = on_s - job.reserved_s
    if job.reserved_s < state.g[0].now_s:
        return False
    end_s = job.reserved_s + own.boot_s + job.requested_s
    find_least(state, ahead, step_at(state, job.reserved_s), end_s)
    return has_noted(state, ahead, row, ahead.least)


@compiled
def reserve(
    state: State,
    ahead: NodesAhead,
    power: Power,
    row: int,
    after_s: float,
    until_s: float,
    is_planned: bool,
) -> bool:
    """Note the earliest start of a job and its nodes; return whether there is one."""
    if is_planned:
        return _reserve_on(state, ahead, power, row, after_s, until_s)
    return _reserve_given(state, ahead, power, row, after_s, until_s)


@compiled_apart
def _reserve_on(
    state: State, ahead: NodesAhead, power: Power, row: int, after_s: float, until_s: float
) -> bool:
    """Note the earliest start on nodes that are on by then; sleeping nodes go last."""
    g, steps, job = state.g[0], state.profile, state.jobs[row]
    forget(state, ahead, row)
    for node in range(len(power.nodes)):
        goes_off = power.nodes[node].state in (SLEEPING, SWITCHING_OFF)
        ahead.delay_s[node] = 1.0 if goes_off else 0.0
    for step in range(step_at(state, after_s), g.steps):
        start_s = max(steps[step].at_s, after_s)
        if steps[step].number < job.cores:
            continue
        if start_s > until_s:
            return False
        find_least(state, ahead, step, start_s + job.requested_s)
        if usable_cores(state, ahead, row) >= job.cores:
            _sum_before(state, ahead, step)
            choose(state, ahead, row)
            job.reserved_s, power.jobs[row].boot_s = start_s, 0.0
            return True
    return False


@compiled_apart
def _reserve_given(
    state: State, ahead: NodesAhead, power: Power, row: int, after_s: float, until_s: float
) -> bool:
    """Note the reservation with which the job runs the earliest, counting the boots it causes."""
    g, steps, job, own = state.g[0], state.profile, state.jobs[row], power.jobs[row]
    forget(state, ahead, row)
    runs_s = np.inf
    for step in range(step_at(state, after_s), g.steps):
        start_s = max(steps[step].at_s, after_s)
        if steps[step].number < job.cores:
            continue
        if start_s > until_s or start_s > runs_s:
            break
        for node in range(len(power.nodes)):
            ahead.delay_s[node] = _on_s(power, node, start_s) - start_s
        before = job.held
        job.held = -1
        if not _choose_soonest(state, ahead, row, step, start_s, runs_s - start_s):
            job.held = before
            continue
        boot_s, each = 0.0, job.held
        while each >= 0:
            boot_s = max(boot_s, ahead.delay_s[ahead.held[each].node])
            each = ahead.held[each].after
        found_s = start_s + boot_s
        if before < 0 or found_s < runs_s or (found_s == runs_s and boot_s < own.boot_s):
            best = job.held
            job.held = before
            forget(state, ahead, row)
            job.held, job.reserved_s, own.boot_s, runs_s = best, start_s, boot_s, found_s
        else:
            forget(state, ahead, row)
            job.held = before
    return job.held >= 0


@compiled
def _choose_soonest(
    state: State, ahead: NodesAhead, row: int, step: int, start_s: float, most_s: float
) -> bool:
    """Note the nodes for a start with the shortest wait for boots; return whether there are any."""
    job, longest_s = state.jobs[row], -np.inf
    while True:
        next_s = np.inf
        for node in range(len(ahead.delay_s)):
            if longest_s < ahead.delay_s[node] < next_s:
                next_s = ahead.delay_s[node]
        if next_s == np.inf or next_s > most_s:
            return False
        longest_s = next_s
        find_least(state, ahead, step, start_s + longest_s + job.requested_s)
        for node in range(len(ahead.delay_s)):
            if ahead.delay_s[node] > longest_s:
                ahead.least[node] = 0
        if usable_cores(state, ahead, row) >= job.cores:
            _sum_before(state, ahead, step)
            choose(state, ahead, row)
            return True


@compiled
def _sum_before(state: State, ahead: NodesAhead, step: int) -> None:
    """Note how many cores of each node are free in the steps before one, in total."""
    clear(ahead)
    for each in range(step):
        for node in range(len(ahead.before)):
            ahead.before[node] += ahead.free[ahead.lines[each], node]
