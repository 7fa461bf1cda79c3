"""The passes of the main scheduler and of the backfill scheduler of `slurm`.

The functions follow `slurm.backfill` of `hpcosim_schedulers`.
"""

from __future__ import annotations

import math

import numpy as np

from hpcosim_compiled.cluster import begin
from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.slurm.limits import charge, count_submission, is_held
from hpcosim_compiled.slurm.lists import close, drop
from hpcosim_compiled.slurm.places import (
    bit,
    count_nodes,
    earliest_alone,
    ended_by,
    find,
    fits,
    held_cores,
    may_fit_after,
    offers_of,
    set_words,
    take,
    unpack,
)
from hpcosim_compiled.slurm.state import (
    ALL,
    AVAILABLE,
    BEGIN,
    BLOCKED,
    CHOSEN,
    CORES,
    ENDS,
    FREE,
    IN_USE,
    KEYS,
    NEVER,
    NONE,
    OFFERED,
    ONE,
    ORDER,
    RESPONSE,
    SLOT,
    STARTED,
    TESTED,
    TRIED,
    WORD,
    Rules,
    Site,
)
from hpcosim_compiled.slurm.timers import (
    backfill_ran,
    look_at,
    main_ran,
    second_of,
)
from hpcosim_compiled.state import WAITING, Records, State
from hpcosim_schedulers.slurm.backfill import MOST_TRIES
from hpcosim_schedulers.slurm.timers import ROUNDING_S

# The queue.


@compiled
def priority_of(own: Site, candidate: Records) -> int:
    """Return the priority of a job in a partition."""
    return max(int(own.jobs[candidate.row].value + candidate.more), 1)


@compiled_apart
def _list_candidates(own: Site) -> int:
    """Write the candidates of all waiting jobs to `Plan.queue`; return their number."""
    queue, candidates, count, several = own.plan.queue, own.candidates, 0, False
    if own.s[0].one_each:
        for place in range(own.s[0].queued):
            queue[place] = own.lists[ORDER, place]
        return own.s[0].queued
    for place in range(own.s[0].queued):
        job = own.jobs[own.lists[ORDER, place]]
        several = several or job.candidates != 1
        for number in range(job.first, job.first + job.candidates):
            if not candidates[number].closed:
                queue[count] = number
                count += 1
    if several:
        for place in range(count):
            _rise_candidate(own, place)
    return count


@compiled
def _rise_candidate(own: Site, place: int) -> None:
    queue, number = own.plan.queue, own.plan.queue[place]
    candidate = own.candidates[number]
    priority = priority_of(own, candidate)
    while place > 0 and not _is_before(own, queue[place - 1], candidate, priority):
        queue[place] = queue[place - 1]
        place -= 1
    queue[place] = number


@compiled
def _is_before(own: Site, other: int, candidate: Records, priority: int) -> bool:
    """Return whether another candidate is before one that comes later by jobs and partitions."""
    first = own.candidates[other]
    if first.tier != candidate.tier:
        return first.tier > candidate.tier
    of_first = priority_of(own, first)
    if of_first != priority:
        return of_first > priority
    return own.jobs[first.row].job_id <= own.jobs[candidate.row].job_id


@compiled_apart
def _start(state: State, own: Site, candidate: Records) -> None:
    """Start a job on the chosen nodes."""
    s, g, row, places = own.s[0], state.g[0], candidate.row, own.places
    job, first, mine = state.jobs[row], state.g[0].places, own.jobs[row]
    close(own, KEYS, s.queued, drop(own, ORDER, s.queued, row))
    s.queued -= 1
    rest, lowest = job.cores - s.chosen * mine.task_cores, places.nodes[CHOSEN, 0]
    for number in range(s.chosen):  # a task on each, the others fill nodes in order
        node = places.nodes[CHOSEN, number]
        more = min(rest, places.nodes[OFFERED, node] - mine.task_cores)
        rest -= more
        lowest = min(lowest, node)
        state.places[first + number].node = node
        state.places[first + number].tasks = mine.task_cores + more
    begin(state, row, s.chosen)
    mine.whole = own.choices[s.choice].whole
    take(state, own, row)
    s.changed = second_of(own, g.now_s)
    places.nodes[RESPONSE, lowest] = s.changed
    _note_start(state, own, row)


@compiled
def _note_start(state: State, own: Site, row: int) -> None:
    """Note a job that started, with what it took: when it ends, and what it is charged."""
    s, mine = own.s[0], own.jobs[row]
    limit = math.ceil(state.jobs[row].requested_s - ROUNDING_S)
    mine.end = second_of(own, state.jobs[row].start_s) + limit
    at = s.running
    while at > 0 and _ends_before(mine, own.jobs[own.lists[ENDS, at - 1]]):
        own.lists[ENDS, at] = own.lists[ENDS, at - 1]
        at -= 1
    own.lists[ENDS, at] = row
    s.running += 1
    look_at(state, own, row, 0)
    charge(state, own, own.rules, row)


@compiled_apart
def adopt(state: State, own: Site) -> None:
    """Note the jobs that run when a simulation begins with a queue."""
    for place in range(own.s[0].adopted):
        row = own.lists[STARTED, place]
        count_submission(own, own.rules, row)
        _note_start(state, own, row)
    own.s[0].adopted = 0


@compiled
def _ends_before(one: Records, other: Records) -> bool:
    if one.end != other.end:
        return one.end < other.end
    return one.job_id < other.job_id


# The main scheduler; see `backfill.main_pass`.


@compiled_apart
def run_main(state: State, own: Site, is_due: bool) -> None:
    """Start jobs by priority until each partition has a job that does not fit."""
    s, now_s = own.s[0], state.g[0].now_s
    full = is_due and main_ran(own, now_s)
    if s.immediate_s <= now_s + ROUNDING_S:
        s.immediate_s = math.inf
    if full and s.queued > 0:
        s.changed = second_of(own, now_s)
    s.stale = False
    if s.queued == 0:
        return
    plan = own.plan
    for word in range(own.places.masks.shape[1]):
        own.places.masks[AVAILABLE, word] = own.places.masks[IN_USE, word]
    for partition in range(plan.partitions.shape[1]):
        plan.partitions[BLOCKED, partition] = 0
        plan.partitions[TESTED, partition] = 0
    started, count = 0, _list_candidates(own)
    for number in range(count):
        candidate = own.candidates[plan.queue[number]]
        if (
            state.jobs[candidate.row].state != WAITING
            or plan.partitions[BLOCKED, candidate.partition]
        ):
            continue
        if (not full and 0 < s.depth <= number) or 0 < s.most_starts <= started:
            return
        if is_held(state, own, own.rules, candidate):
            continue
        plan.partitions[TESTED, candidate.partition] += 1
        if not full and 0 < s.part_depth < plan.partitions[TESTED, candidate.partition]:
            continue
        if _find_now(state, own, candidate):
            _start(state, own, candidate)
            started += 1
        elif candidate.fits:
            plan.partitions[BLOCKED, candidate.partition] = 1
            if s.ends_at_first:
                return
            for each in range(candidate.first, candidate.first + candidate.choices):
                for word in range(own.places.masks.shape[1]):
                    mask = own.choices[each].partition_mask
                    own.places.masks[AVAILABLE, word] &= ~own.places.masks[mask, word]


@compiled
def _find_now(state: State, own: Site, candidate: Records) -> bool:
    """Choose nodes for a job among those for which no other waits."""
    if candidate.cores > own.s[0].free_cores:
        return False
    set_words(own, candidate.suitable)
    for word in range(own.places.masks.shape[1]):
        own.places.masks[TRIED, word] &= own.places.masks[AVAILABLE, word]
    unpack(own)
    return find(state, own, candidate, 0)


# The backfill scheduler; see `backfill._BackfillPass`.


@compiled_apart
def run_backfill(state: State, own: Site) -> None:
    """Start jobs that delay no planned start of a job before them."""
    s, now_s, plan = own.s[0], state.g[0].now_s, own.plan
    backfill_ran(own, now_s, s.queued)
    s.unplanned = False
    if s.queued == 0:
        return
    now = second_of(own, now_s)
    latest = now + s.window
    _begin_plan(own, now)
    count = _list_candidates(own)
    last = _last_that_could_start(state, own, _reach(own, own.rules, count), now)
    if last >= 0:
        _note_running(state, own, latest)
    number = tested = started = 0
    while number <= last and not 0 < s.most_bf_starts <= started:
        candidate = own.candidates[plan.queue[number]]
        number += 1
        if not _may_be_tested(state, own, candidate) or not _admit(own, candidate):
            continue
        tested += 1
        if tested > s.most_tests:
            return
        start = _earliest(state, own, candidate, now, latest)
        if start == now:
            _start(state, own, candidate)
            _hold(state, own, candidate.row, latest)
            started += 1
            last = _last_that_could_start(state, own, last + 1, now)
        elif start <= latest and _reserves(own, candidate):
            _reserve(state, own, start, start + candidate.limit, latest)
            last = _last_that_could_start(state, own, last + 1, now)


@compiled
def _begin_plan(own: Site, now: int) -> None:
    s, plan = own.s[0], own.plan
    s.pass_ += 1
    plan.times[BEGIN, 0], plan.times[SLOT, 0], s.records = now, 0, 1
    for word in range(own.places.masks.shape[1]):
        plan.sets[0, word] = own.places.masks[IN_USE, word]
    for partition in range(plan.partitions.shape[1]):
        plan.partitions[TESTED, partition] = 0
    for counter in range(len(plan.counters)):
        plan.counters[counter] = 0


@compiled
def _reach(own: Site, rules: Rules | None, count: int) -> int:
    """Return the number of candidates, the first ones, that a pass may test.

    Limits may hold more jobs as the pass starts some, and a job that starts is not tested again.
    """
    s, tested = own.s[0], 0
    if rules is not None or len(own.plan.counters) > 0 or not s.one_each:
        return count
    for number in range(count):
        if tested == s.most_tests:
            return number
        tested += not own.candidates[own.plan.queue[number]].held
    return count


@compiled
def _may_be_tested(state: State, own: Site, candidate: Records) -> bool:
    """Return whether a job has not started, and no limit holds it."""
    if state.jobs[candidate.row].state != WAITING:
        return False
    return not is_held(state, own, own.rules, candidate)


@compiled
def _admit(own: Site, candidate: Records) -> bool:
    """Count a job, and return whether the pass tests it; see `backfill.BackfillCounts`."""
    counters, limits = own.plan.counters, own.s[0].limits
    for each in range(4):
        counter = candidate.counters[each]
        if counter >= 0 and counters[counter] >= limits[each]:
            return False
    for each in range(4):
        if candidate.counters[each] >= 0:
            counters[candidate.counters[each]] += 1
    return True


@compiled
def _reserves(own: Site, candidate: Records) -> bool:
    """Note a planned start of a job; return whether the plan reserves nodes for it."""
    s, job = own.s[0], own.jobs[candidate.row]
    if s.one_plan and job.in_pass == s.pass_:
        return False
    job.in_pass = s.pass_
    if 0 < s.most_reserved <= own.plan.partitions[TESTED, candidate.partition]:
        return False
    own.plan.partitions[TESTED, candidate.partition] += 1
    return True


@compiled_apart
def _last_that_could_start(state: State, own: Site, end: int, now: int) -> int:
    """Return the place of the last candidate before `end` that could start now; -1: none."""
    s, places = own.s[0], own.places
    for place in range(end - 1, -1, -1):
        candidate = own.candidates[own.plan.queue[place]]
        if candidate.cores > s.free_cores or state.jobs[candidate.row].state != WAITING:
            continue
        set_words(own, candidate.suitable)
        if candidate.choices == 1:
            entry = offers_of(own, candidate.first)
            for word in range(places.masks.shape[1]):
                places.masks[TRIED, word] &= own.offers.idle[entry, word]
        _free_during(own, now, now + candidate.limit)
        if count_nodes(own) * s.largest < candidate.cores:
            continue
        if is_held(state, own, own.rules, candidate):
            continue
        unpack(own)
        if fits(state, own, candidate, 0):
            return place
    return -1


@compiled_apart
def _earliest(state: State, own: Site, candidate: Records, now: int, latest: int) -> int:
    """Return the earliest start of a job beside planned jobs, and choose its nodes.

    Until jobs of its shape have been found to lack more than cores and nodes, their next test
    begins where this one got to: what a pass starts and plans only takes cores and nodes away.

    Returns:
        A time that may be after `latest`; `NEVER`: none before it.
    """
    s, cores, limit = own.s[0], candidate.cores, candidate.limit
    shape, lacks, more = own.plan.shapes[candidate.shape], True, 0
    if shape.pass_ != s.pass_:
        shape.pass_, shape.floor = s.pass_, now
    at = shape.floor
    while True:
        at = _first_with_cores(own, at, cores, limit)
        if lacks:
            shape.floor = at
        if at == NEVER or _is_tried_enough(state, own, candidate, now, _record_at(own, at) + more):
            return NEVER
        set_words(own, candidate.suitable)
        later = _free_during(own, at, at + limit)
        if _has_cores_to_try(own, own.plan.times[SLOT, _record_at(own, at)], cores):
            unpack(own)
            most = ended_by(own, min(later, latest))
            needed = may_fit_after(state, own, candidate, most)
            if needed <= most:
                lacks = False
                start, ended = earliest_alone(state, own, candidate, now, needed)
                start = max(start, at)
                if start < NEVER and start <= later and find(state, own, candidate, ended):
                    if start == at or not _overlaps(own, start, start + limit):
                        return start
                    later = start
                    more += 1
        at = later


@compiled
def _is_tried_enough(state: State, own: Site, candidate: Records, now: int, tries: int) -> bool:
    """Return whether a job has been tried at the maximum number of times.

    Args:
        tries: number of tries if it was tried from now on. The first try is where it may fit if it
            gets all that is free.
    """
    if tries < MOST_TRIES:
        return False
    set_words(own, candidate.suitable)
    unpack(own)
    needed, first = may_fit_after(state, own, candidate, own.s[0].running), 0
    if 0 < needed <= own.s[0].running:
        least = max(own.jobs[own.lists[ENDS, needed - 1]].end, now)
        first = max(_record_at(own, least - 1), 0)
    return tries - first >= MOST_TRIES


@compiled
def _first_with_cores(own: Site, at: int, cores: int, limit: int) -> int:
    """Return a time before which a job lacks cores, wherever its nodes are; `NEVER`: it does.

    Args:
        at: the time from which on it may start.
    """
    times, records, number = own.plan.times, own.s[0].records, own.s[0].records
    if at < NEVER:
        number = _record_at(own, at)
    while number < records and times[BEGIN, number] <= at + limit:
        number += 1
        if times[CORES, number - 1] < cores:
            at = times[BEGIN, number] if number < records else NEVER
    return at


@compiled
def _has_cores_to_try(own: Site, slot: int, cores: int) -> bool:
    """Return whether enough cores are free at the end of a record on the nodes to try."""
    for word in range(own.places.masks.shape[1]):
        cores -= _free_among(own, slot, word, own.places.masks[TRIED, word])
        if cores <= 0:
            return True
    return False


# The plan of a pass; see `backfill.NodeSpace`.


@compiled
def _record_at(own: Site, time: int) -> int:
    """Return the record that holds at a time."""
    low, high = 0, own.s[0].records
    while low < high:
        middle = (low + high) // 2
        if time < own.plan.times[BEGIN, middle]:
            high = middle
        else:
            low = middle + 1
    return low - 1


@compiled
def _free_during(own: Site, start: int, end: int) -> int:
    """Leave out of the words of the nodes to try those that are planned from `start` to `end`.

    Returns:
        The next time to try.
    """
    plan, at, records = own.plan, _record_at(own, start), own.s[0].records
    later = plan.times[BEGIN, at + 1] if at + 1 < records else NEVER
    places, left = own.places, ALL
    while at < records and left != NONE and plan.times[BEGIN, at] <= end:
        slot, left = plan.times[SLOT, at], NONE
        for word in range(places.masks.shape[1]):
            places.masks[TRIED, word] &= plan.sets[slot, word]
            left |= places.masks[TRIED, word]
        at += 1
    return later


@compiled
def _note_chosen(own: Site) -> None:
    """Set the words of the nodes to try to those of the chosen nodes."""
    for word in range(own.places.masks.shape[1]):
        own.places.masks[TRIED, word] = NONE
    for number in range(own.s[0].chosen):
        node = own.places.nodes[CHOSEN, number]
        own.places.masks[TRIED, node // WORD] |= bit(node)


@compiled
def _reserve(state: State, own: Site, start: int, end: int, latest: int) -> None:
    """Reserve the chosen nodes from `start` to `end`, both rounded down to the resolution."""
    s, plan = own.s[0], own.plan
    start = max(start // s.resolution * s.resolution, plan.times[BEGIN, 0])
    end = min(end // s.resolution * s.resolution, latest)
    if end <= start:
        return
    first = _split(state, own, start, latest)
    last = _split(state, own, end, latest) if end < latest else s.records
    _note_chosen(own)
    for at in range(first, last):
        slot = plan.times[SLOT, at]
        for word in range(own.places.masks.shape[1]):
            taken = plan.sets[slot, word] & own.places.masks[TRIED, word]
            plan.times[CORES, at] -= _free_among(own, slot, word, taken)
            plan.sets[slot, word] &= ~taken


@compiled
def _overlaps(own: Site, start: int, end: int) -> bool:
    """Return whether `_reserve` would reserve a node that is reserved already."""
    s = own.s[0]
    start = max(start // s.resolution * s.resolution, own.plan.times[BEGIN, 0])
    end = end // s.resolution * s.resolution
    at = _record_at(own, start)
    _note_chosen(own)
    while start < end and at < s.records and own.plan.times[BEGIN, at] < end:
        for word in range(own.places.masks.shape[1]):
            if (
                own.places.masks[TRIED, word] & ~own.plan.sets[own.plan.times[SLOT, at], word]
                != NONE
            ):
                return True
        at += 1
    return False


@compiled_apart
def _split(state: State, own: Site, time: int, latest: int) -> int:
    """Return the record that begins at a time, which is inserted if needed."""
    s, plan, at = own.s[0], own.plan, _record_at(own, time)
    if plan.times[BEGIN, at] == time:
        return at
    last = ended_by(own, _until(own, at, latest))
    for later in range(s.records, at + 1, -1):
        for each in range(plan.times.shape[0]):
            plan.times[each, later] = plan.times[each, later - 1]
    slot = plan.times[SLOT, at]
    plan.times[BEGIN, at + 1], plan.times[SLOT, at + 1] = time, s.records
    plan.times[CORES, at + 1] = plan.times[CORES, at]
    for word in range(plan.sets.shape[1]):
        plan.sets[s.records, word] = plan.sets[slot, word]
    for node in range(plan.free.shape[1]):
        plan.free[s.records, node] = plan.free[slot, node]
    s.records += 1
    for place in range(ended_by(own, time), last):
        _hold_at(state, own, own.lists[ENDS, place], at)
    return at + 1


# The running jobs of the plan, and the cores that they leave free.


@compiled_apart
def _note_running(state: State, own: Site, latest: int) -> None:
    """Note the running jobs and the free cores of a plan of one record."""
    plan, nodes = own.plan, own.places.nodes.shape[1]
    for node in range(nodes):
        plan.free[0, node] = own.places.amounts[FREE, node]
    for place in range(own.s[0].running):
        _note_nodes(state, own, place)
    for place in range(ended_by(own, latest)):
        row = own.lists[ENDS, place]
        period = state.periods[state.jobs[row].period]
        for at in range(period.first_place, period.first_place + period.places):
            node = state.places[at].node
            plan.free[0, node] += held_cores(own, row, node, state.places[at].tasks)
    plan.times[CORES, 0] = 0
    for word in range(plan.sets.shape[1]):
        plan.times[CORES, 0] += _free_among(own, 0, word, plan.sets[0, word])


@compiled
def _note_nodes(state: State, own: Site, place: int) -> None:
    """Note the end and the nodes of the running job at a place of `ENDS`."""
    plan, row = own.plan, own.lists[ENDS, place]
    plan.ends[place] = own.jobs[row].end
    for word in range(plan.held.shape[1]):
        plan.held[place, word] = NONE
    period = state.periods[state.jobs[row].period]
    for at in range(period.first_place, period.first_place + period.places):
        node = state.places[at].node
        plan.held[place, node // WORD] |= bit(node)


@compiled
def _until(own: Site, at: int, latest: int) -> int:
    """Return the time of which a record has the free cores."""
    return min(own.plan.times[BEGIN, at + 1], latest) if at + 1 < own.s[0].records else latest


@compiled_apart
def _hold(state: State, own: Site, row: int, latest: int) -> None:
    """Note what a job holds that starts."""
    plan, place, at = own.plan, own.s[0].running - 1, 0
    while own.lists[ENDS, place] != row:
        plan.ends[place] = plan.ends[place - 1]
        for word in range(plan.held.shape[1]):
            plan.held[place, word] = plan.held[place - 1, word]
        place -= 1
    _note_nodes(state, own, place)
    while at < own.s[0].records and _until(own, at, latest) < own.jobs[row].end:
        _hold_at(state, own, row, at)
        at += 1


@compiled
def _hold_at(state: State, own: Site, row: int, at: int) -> None:
    """Note that a running job holds its cores at the end of a record."""
    plan, period = own.plan, state.periods[state.jobs[row].period]
    slot = plan.times[SLOT, at]
    for place in range(period.first_place, period.first_place + period.places):
        node = state.places[place].node
        held = held_cores(own, row, node, state.places[place].tasks)
        plan.free[slot, node] -= held
        if plan.sets[slot, node // WORD] & bit(node) != NONE:
            plan.times[CORES, at] -= held


@compiled
def _free_among(own: Site, slot: int, word: int, nodes: np.uint64) -> int:
    """Return the free cores of a record on the nodes of a word."""
    cores = 0
    if nodes != NONE:
        for number in range(WORD):
            is_among = np.int64((nodes >> np.uint64(number)) & ONE)
            cores += own.plan.free[slot, word * WORD + number] * is_among
    return cores
