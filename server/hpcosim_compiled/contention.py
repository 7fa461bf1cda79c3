"""Jobs on the processors of nodes, and their contention for memory bandwidth.

As `hpcosim_sim.physics.execution` and `hpcosim_sim.engine.end_timers`, with the same operations in
the same order. A processor has a share for each job with tasks on it, in the order of their
starts. The share of a job that does not contend is like one whose work is done.

The timer of processor p is that of subject p, the timer of period i that of subject
len(`Processors.each`) + i.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.energy import settle, sum_power
from hpcosim_compiled.placements import held_cores
from hpcosim_compiled.state import Power, Processors, Records, State
from hpcosim_compiled.timers import WALLTIME, cancel_timer, set_timer
from hpcosim_protocol.platform import speed_of_task

_speed_of_task = compiled(speed_of_task)

PLACES = 1e9  # 10 ** `hpcosim_protocol.platform.DECIMALS`
SPLIT = float(2**27 + 1)
DOES_NOT_CONTEND = -1
"""`shares_left` for a period whose end is known at its begin."""


@compiled
def run_time_s(state: State, row: int, ops_per_s: float) -> float:
    """Return the run time of a job on cores of which the slowest has this speed, s."""
    job, reference_ops_per_s = state.jobs[row], state.g[0].reference_ops_per_s
    if job.ops != 0.0:
        return job.ops / ops_per_s
    if reference_ops_per_s > 0.0:
        return job.run_s * (reference_ops_per_s / ops_per_s)
    return job.run_s


@compiled_apart
def occupy(state: State, own: Processors, row: int, number: int) -> None:
    """Start a period, whose tasks fill the processors of each node in order; set its timers."""
    g, job, period, places = state.g[0], state.jobs[row], state.periods[number], state.places
    may_contend, slowest, now_s = False, np.inf, g.now_s
    for entry in range(period.first_place, period.first_place + period.places):
        node, left = places[entry].node, places[entry].tasks
        held = held_cores(state, row, node, left)
        state.free[node] -= held
        g.free_cores -= held
        kind = state.nodes[node].kind
        settle(state.kinds[kind], state.power, kind, now_s)
        own.nodes[node].memory_mb += left * own.needs[row].memory_mb
        _compute(state, node, left)
        for at in range(own.nodes[node].first, own.nodes[node + 1].first):
            processor = own.each[at]
            model = own.slots[processor.slot]
            tasks = min(left, model.cores - processor.tasks)
            if tasks > 0:
                left -= tasks
                model.active += processor.tasks == 0
                model.tasks += tasks
                processor.tasks += tasks
                share = own.shares[processor.first_share + processor.shares]
                processor.shares += 1
                share.period, share.tasks, share.left_s, share.mbps = number, tasks, 0.0, 0.0
                share.since_s, share.speed, share.end_s = now_s, 1.0, np.inf
                may_contend = may_contend or model.contends != 0
                slowest = min(slowest, model.ops_per_s)
        _sum_power(state.kinds, own, state.power, kind)
    subject = len(own.each) + number
    has_work = job.ops > 0.0 or (g.reference_ops_per_s > 0.0 and job.run_s > 0.0)
    if not (may_contend and has_work):
        own.periods[number].shares_left = DOES_NOT_CONTEND
        own.periods[number].ends_late = run_time_s(state, row, slowest) > job.limit_s
        run_s = min(run_time_s(state, row, slowest), job.limit_s)
        set_timer(g, own.timers, subject, now_s + run_s, 0)
        return
    own.periods[number].ends_late = True
    touched = _touch(state, own, number)
    own.periods[number].shares_left = touched
    for each in range(touched):
        at = own.each[each].touched
        processor = own.each[at]
        share = own.shares[processor.first_share + processor.shares - 1]
        alone_s = run_time_s(state, row, own.slots[processor.slot].ops_per_s)
        share.left_s, share.mbps = alone_s, own.needs[row].memory_volume_mb / alone_s
        share.speed = share.end_s = 0.0
        _set_speeds(g.now_s, own, at)
    for each in range(touched):
        set_processor_timer(g, own, own.each[each].touched)
    if job.limit_s < np.inf:
        set_timer(g, own.timers, subject, now_s + job.limit_s, WALLTIME)


@compiled_apart
def vacate(state: State, own: Processors, row: int, number: int) -> None:
    """End the tasks of a period and cancel its timers."""
    g, period, places = state.g[0], state.periods[number], state.places
    contends = own.periods[number].shares_left != DOES_NOT_CONTEND
    cancel_timer(g, own.timers, len(own.each) + number)
    for each in range(_touch(state, own, number)):
        at = own.each[each].touched
        processor = own.each[at]
        model, place = own.slots[processor.slot], _share_of(own, at, number)
        settle(state.kinds[processor.kind], state.power, processor.kind, g.now_s)
        tasks = own.shares[place].tasks
        processor.tasks -= tasks
        model.active -= processor.tasks == 0
        model.tasks -= tasks
        processor.shares -= 1
        for following in range(place, processor.first_share + processor.shares):
            own.shares[following] = own.shares[following + 1]
        if contends:
            _set_speeds(g.now_s, own, at)
            set_processor_timer(g, own, at)
    for entry in range(period.first_place, period.first_place + period.places):
        node, tasks = places[entry].node, places[entry].tasks
        held = held_cores(state, period.row, node, tasks)
        state.free[node] += held
        g.lowest = min(g.lowest, node)
        g.free_cores += held
        own.nodes[node].memory_mb -= tasks * own.needs[row].memory_mb
        _compute(state, node, -tasks)
        _sum_power(state.kinds, own, state.power, state.nodes[node].kind)


@compiled_apart
def take_due(g: Any, own: Processors) -> int:
    """Take the first timer; write the periods that end into `own.periods`; return how many."""
    subject, over = own.timers[0].subject, 0
    cancel_timer(g, own.timers, subject)
    if subject >= len(own.each):
        own.periods[0].over = subject - len(own.each)
        return 1
    processor = own.each[subject]
    for place in range(processor.first_share, processor.first_share + processor.shares):
        share = own.shares[place]
        if share.end_s <= g.now_s:
            share.end_s = np.inf
            own.periods[share.period].shares_left -= 1
            if own.periods[share.period].shares_left == 0:
                own.periods[share.period].ends_late = False
                own.periods[over].over = share.period
                over += 1
    _update_next_end(own, subject)
    return over


@compiled_apart
def set_processor_timer(g: Any, own: Processors, at: int) -> None:
    """Set the timer of a processor to the next end of a share."""
    next_s = own.each[at].next_end_s
    if own.timers[at].at_s == next_s:
        return
    cancel_timer(g, own.timers, at)
    if next_s < np.inf:
        set_timer(g, own.timers, at, next_s, 0)


@compiled
def _touch(state: State, own: Processors, number: int) -> int:
    """Write the processors of a period into `own.each`, and return how many they are.

    They go by node groups, in the order of their first nodes; then by slots; then by nodes.
    """
    period, places, count = state.periods[number], state.places, 0
    last = period.first_place + period.places
    for first in range(period.first_place, last):
        which, is_first = state.nodes[places[first].node].kind, True
        for entry in range(period.first_place, first):
            is_first = is_first and state.nodes[places[entry].node].kind != which
        if not is_first:
            continue
        for slot in range(own.first_slot[which + 1] - own.first_slot[which]):
            for entry in range(first, last):
                at = own.nodes[places[entry].node].first + slot
                is_same = state.nodes[places[entry].node].kind == which
                if is_same and _share_of(own, at, number) >= 0:
                    own.each[count].touched = at
                    count += 1
    return count


@compiled
def _share_of(own: Processors, at: int, number: int) -> int:
    """Return the share of a period on a processor; -1: it has none."""
    processor = own.each[at]
    for place in range(processor.first_share, processor.first_share + processor.shares):
        if own.shares[place].period == number:
            return place
    return -1


@compiled_apart
def _set_speeds(now_s: float, own: Processors, at: int) -> None:
    """Set the speeds of the shares of a processor, as the tasks there have changed."""
    processor = own.each[at]
    model, first = own.slots[processor.slot], processor.first_share
    last = first + processor.shares
    total_mbps, active = 0.0, 0
    for place in range(first, last):
        share = own.shares[place]
        total_mbps += share.mbps * share.tasks
        if _has_work_left(share, now_s):
            active += share.tasks
    for place in range(first, last):
        share = own.shares[place]
        if share.speed != 0.0 and not _has_work_left(share, now_s):
            continue
        speed = 1.0
        if model.contends and total_mbps >= model.c_mbps:
            speed = speed_on(model, total_mbps, share.mbps, max(active, 1))
        if share.speed == speed:
            continue
        left_s = share.left_s - share.speed * (now_s - share.since_s)
        share.left_s, share.since_s, share.speed = max(left_s, 0.0), now_s, speed
        share.end_s = now_s + share.left_s / speed
    _update_next_end(own, at)


@compiled
def speed_on(model: Any, total_mbps: float, own_mbps: float, active_tasks: int) -> float:
    """Return the speed of a task; see `hpcosim_protocol.platform.task_speed`.

    Args:
        model: a record with the constants of a `SLOT`.
    """
    speed = _speed_of_task(
        model.c_mbps,
        model.b_per_mbps,
        model.da,
        model.db_mbps,
        model.dc_mbps,
        model.dd_mbps,
        total_mbps,
        own_mbps,
        active_tasks,
    )
    return _rounded(speed)


@compiled
def _has_work_left(share: Any, now_s: float) -> bool:
    return share.speed == 0.0 or (now_s < share.end_s and share.end_s < np.inf)


@compiled
def _update_next_end(own: Processors, at: int) -> None:
    processor, next_s = own.each[at], np.inf
    for place in range(processor.first_share, processor.first_share + processor.shares):
        next_s = min(next_s, own.shares[place].end_s)
    processor.next_end_s = next_s


@compiled
def _rounded(speed: float) -> float:
    """Return `round(speed, 9)` of a speed from 0 to 1; Numba's is not always the nearest.

    The product has its rounding error beside it (Dekker 1971), so no tie is missed or invented.
    """
    product = speed * PLACES
    high = speed * SPLIT - (speed * SPLIT - speed)
    error = high * PLACES - product + (speed - high) * PLACES  # exact: 10**9 has 21 bits
    whole = math.floor(product)
    beyond = (product - whole - 0.5) + error
    if beyond > 0.0 or (beyond == 0.0 and whole % 2 == 1):
        whole += 1
    return whole / PLACES


# Energy.


@compiled
def _compute(state: State, node: int, tasks: int) -> None:
    """Add tasks to a node, which may begin or cease to compute."""
    kind = state.kinds[state.nodes[node].kind]
    before = state.nodes[node].busy > 0
    state.nodes[node].busy += tasks
    change = int(state.nodes[node].busy > 0) - int(before)
    kind.computing += change
    kind.idle -= change


@compiled
def _sum_power(kinds: Records, own: Processors, power: Power | None, number: int) -> None:
    """Set the power of a node group."""
    kind, computing_w = kinds[number], 0.0
    for slot in range(own.first_slot[number], own.first_slot[number + 1]):
        model = own.slots[slot]
        computing_w += (
            model.idle_w * (kind.computing - model.active)
            + model.static_w * model.active
            + model.dynamic_w * model.tasks
        )
    kind.computing_w = computing_w
    sum_power(kind, power, number)
