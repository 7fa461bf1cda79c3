"""The policy `slurm` of `hpcosim_schedulers.slurm.policy` for jobs that only need cores.

It has what sites without accounts, limits, partitions and devices need: the main scheduler, the
backfill scheduler, time limits, and priorities by age and size. `Site` is the state of the policy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Job
from hpcosim_compiled.cluster import begin, kill
from hpcosim_compiled.compiler import compiled, compiled_apart, entry
from hpcosim_compiled.loop import advance_with
from hpcosim_compiled.state import TIMEOUT, WAITING, Ints, Records, State, records
from hpcosim_protocol import Platform
from hpcosim_schedulers.slurm.backfill import MOST_TRIES
from hpcosim_schedulers.slurm.charges import Charges
from hpcosim_schedulers.slurm.future import FIRST_WINDOW_S, MOST_TOGETHER
from hpcosim_schedulers.slurm.multifactor import HIGHEST, ConstantFactors
from hpcosim_schedulers.slurm.policy import EPILOG_S
from hpcosim_schedulers.slurm.settings import SiteSettings
from hpcosim_schedulers.slurm.timers import (
    ROUNDING_S,
    SHORT_SLEEP_S,
    TIME_LIMITS_PERIOD,
    SiteClock,
)
from hpcosim_workloads.table import JobTable

NEVER = 1 << 62
"""A time that does not come."""

WORD = 64
"""Nodes of a word of a set."""

NONE, ONE, ALL = np.uint64(0), np.uint64(1), np.uint64(2**64 - 1)

GLOBAL = np.dtype(
    [
        ("origin_s", "f8"),  # of the clock, see `timers.SiteClock`
        ("loop_s", "f8"),
        ("tick_s", "f8"),
        ("begin", "i8"),
        ("period", "i8"),  # of the main scheduler, see `timers.MainTimer`
        ("delay", "i8"),
        ("last", "i8"),
        ("requested_s", "f8"),  # infinity: no pass is requested
        ("full_done", "i8"),
        ("immediate_s", "f8"),
        ("depth", "i8"),
        ("most_starts", "i8"),
        ("backfills", "?"),  # the backfill scheduler, see `timers.BackfillTimer`
        ("interval_s", "f8"),
        ("job_cost_s", "f8"),
        ("check_s", "f8"),
        ("bf_last", "i8"),
        ("changed", "i8"),
        ("window", "i8"),
        ("resolution", "i8"),
        ("most_tests", "i8"),
        ("most_bf_starts", "i8"),
        ("kill_wait", "i8"),
        ("over", "i8"),  # `over_time_limit_s`
        ("first_s", "f8"),  # calculations of priorities
        ("calculation_s", "f8"),
        ("calculations", "i8"),
        ("noted", "i8"),
        ("multifactor", "?"),
        ("weight_age", "f8"),
        ("max_age_s", "f8"),
        ("stale", "?"),  # what the policy remembers
        ("unplanned", "?"),
        ("waiting", "i8"),
        ("changes", "i8"),  # entries of `State.changes` that it has seen
        ("submitted", "i8"),  # jobs that it has seen
        ("queued", "i8"),  # entries of `Site.order`
        ("ordered", "i8"),  # entries of `Site.before`
        ("running", "i8"),  # entries of `Site.ends`
        ("free_cores", "i8"),
        ("records", "i8"),  # entries of `Site.begins`
        ("chosen", "i8"),  # entries of `Site.nodes`
    ],
    align=True,
)

JOB = np.dtype(
    [
        ("job_id", "i8"),
        ("limit", "i8"),  # whole seconds
        ("constant", "f8"),  # factors of the priority that do not change
        ("value", "f8"),  # priority before it is rounded
        ("end", "i8"),  # by its limit, seconds of the clock
        ("look_s", "f8"),  # when a check may end it; infinity: it does not run, or was ended
        ("look_end", "i8"),
    ]
)


class Site(NamedTuple):
    """The state of the policy.

    Attributes:
        s: one record `GLOBAL`.
        jobs: a `JOB` for each job.
        order: the waiting jobs by priority and number.
        before: the same at the last calculation of priorities.
        ends: the running jobs by their ends and starts.
        free: free cores of each node, as the policy sees them.
        begins, slots: times of the plan, and the row of `sets` from each of them on.
        sets: uint64[times, words], the nodes that planned jobs leave free, a bit for each node.
        every, idle: uint64[words], all nodes, and those with free cores.
        words: uint64[words], nodes to try, or those that a job gets.
        set: bool[nodes], nodes to try.
        offer: cores that each node offers to a job.
        nodes: nodes that a job gets, in the order in which it fills them.
        gains: cores of the nodes to try that the end of each running job frees; -1: it has none.
        runs: first node, number of nodes and offered cores of each run of consecutive nodes.
    """

    s: Records
    jobs: Records
    order: Ints
    before: Ints
    ends: Ints
    free: Ints
    begins: Ints
    slots: Ints
    sets: NDArray[np.uint64]
    every: NDArray[np.uint64]
    idle: NDArray[np.uint64]
    words: NDArray[np.uint64]
    set: NDArray[np.bool_]
    offer: Ints
    nodes: Ints
    gains: Ints
    runs: Ints


def initial_site(platform: Platform, table: JobTable, site: SiteSettings) -> Site:
    """Return the state of the policy before its first call."""
    parameters, clock, nodes = site.scheduler, SiteClock(site), platform.node_count
    s = records(GLOBAL, 1)
    s.origin_s, s.loop_s, s.tick_s = -clock.simulated(0), clock._loop_s, parameters.loop_s
    s.begin = s.last = s.full_done = clock.begin
    s.period, s.delay = (
        max(int(parameters.sched_interval_s), 1),
        int(parameters.batch_sched_delay_s),
    )
    s.requested_s = s.immediate_s = np.inf
    s.depth, s.most_starts = parameters.default_queue_depth, parameters.sched_max_job_start
    s.backfills, s.interval_s = parameters.backfill, parameters.bf_interval_s
    s.job_cost_s = parameters.bf_job_cost_s
    s.check_s = clock.backfill_begin_s + parameters.bf_interval_s
    s.bf_last, s.changed = clock.begin - 1, clock.begin
    s.window, s.resolution = int(parameters.bf_window_s), max(int(parameters.bf_resolution_s), 1)
    s.most_tests, s.most_bf_starts = parameters.bf_max_job_test, parameters.bf_max_job_start
    s.kill_wait, s.over = int(site.kill_wait_s), int(site.over_time_limit_s)
    s.first_s, s.calculation_s = -site.dtstart_s, site.priority.calc_period_s
    s.multifactor = site.priority.type == "multifactor"
    s.weight_age, s.max_age_s = site.priority.weight_age, site.priority.max_age_s
    s.stale = s.unplanned = True
    s.free_cores = platform.core_count
    jobs = records(JOB, len(table))
    jobs.job_id, jobs.look_s = table.job_id, np.inf
    jobs.limit = np.maximum(np.ceil(table.requested_s - ROUNDING_S), 1)
    jobs.constant = _constants(platform, table, site)
    most = 2 * min(len(table), parameters.bf_max_job_test + 1) + 3
    return Site(
        s=s,
        jobs=jobs,
        order=np.zeros(len(table), np.int64),
        before=np.zeros(len(table), np.int64),
        ends=np.zeros(len(table), np.int64),
        free=np.array(platform.cores_by_node()),
        begins=np.zeros(most, np.int64),
        slots=np.zeros(most, np.int64),
        sets=np.zeros((most, -(-nodes // WORD)), np.uint64),
        every=np.full(-(-nodes // WORD), ALL),
        idle=np.zeros(-(-nodes // WORD), np.uint64),
        words=np.zeros(-(-nodes // WORD), np.uint64),
        set=np.zeros(nodes, np.bool_),
        offer=np.zeros(nodes, np.int64),
        nodes=np.zeros(nodes, np.int64),
        gains=np.zeros(len(table), np.int64),
        runs=np.zeros((3, nodes), np.int64),
    )


def _constants(platform: Platform, table: JobTable, site: SiteSettings) -> NDArray[np.float64]:
    """Return the factors of the priority of each job that do not change, which its size decides."""
    charges = Charges(site, platform)
    factors = ConstantFactors(site, platform, charges.associations, charges.tres_of)
    sizes, which = np.unique(table.cores, return_inverse=True)
    of_size = [factors.of(Job(0, 0.0, cores, 1.0), None) for cores in sizes.tolist()]
    found: NDArray[np.float64] = np.array([sum(each[:-1]) - each.nice for each in of_size])[which]
    return found


@entry
def advance_slurm(state: State, policy: Site, instants: int) -> int:
    """Advance with the policy; see `loop.advance_with`."""
    return advance_with(state, policy, _decide, instants)


@compiled_apart
def _decide(state: State, own: Site) -> None:
    """Call the policy, and again at the same instant after it ended jobs."""
    goes_on = True
    while goes_on:
        over = state.g[0].over
        _call(state, own)
        goes_on = state.g[0].over > over and state.g[0].over < state.g[0].jobs


@compiled
def _call(state: State, own: Site) -> None:
    """Do what is due, and set the alarm for what is due next; see `SlurmPolicy.__call__`."""
    s, now_s = own.s[0], state.g[0].now_s
    due = int((now_s - s.first_s) // s.calculation_s)
    calculated = due > s.calculations
    s.calculations = max(due, s.calculations)
    _note_changes(state, own, calculated)
    _end_jobs(state, own)
    is_due = _main_due_s(own, now_s) <= now_s + ROUNDING_S
    if is_due or s.immediate_s <= now_s + ROUNDING_S:
        _run_main(state, own, is_due)
    if s.backfills and _next_backfill_s(own) <= now_s + ROUNDING_S:
        _run_backfill(state, own)
    s.waiting = s.queued
    _set_alarm(state, own)


@compiled_apart
def _note_changes(state: State, own: Site, calculated: bool) -> None:
    s, g, now_s = own.s[0], state.g[0], state.g[0].now_s
    _skip_main(own, now_s)
    _skip_backfill(own, now_s)
    wakes = False
    for change in range(s.changes, g.changes):
        if state.changes[change] < 0:
            wakes = True
            row = state.periods[~state.changes[change]].row
            _leave(state, own, row)
            if state.jobs[row].state == TIMEOUT:
                s.immediate_s = now_s + EPILOG_S
    s.changes = g.changes
    for row in range(s.submitted, g.submitted):
        if state.jobs[row].state == WAITING:
            wakes = True
            own.jobs[row].value = _priority(own, row, state.jobs[row].submit_s, now_s)
            own.order[s.queued] = row
            s.queued += 1
            _rise(own, s.queued - 1)
    s.submitted = g.submitted
    if calculated and s.multifactor and s.weight_age > 0.0:
        last_s = s.first_s + s.calculations * s.calculation_s
        for place in range(s.queued):
            row = own.order[place]
            own.jobs[row].value = _priority(own, row, state.jobs[row].submit_s, last_s)
        for place in range(s.queued):
            _rise(own, place)
    if wakes:
        s.stale = s.unplanned = True
        s.changed = _second(own, now_s)
        if s.requested_s == np.inf:
            s.requested_s = now_s
    if s.calculations != s.noted:
        s.noted = s.calculations
        _note_order(own)
        if s.queued > 0:
            s.changed = _second(own, now_s)


@compiled
def _note_order(own: Site) -> None:
    """Note the order of the jobs, and whether it differs from that of the last calculation."""
    s = own.s[0]
    is_new = s.queued != s.ordered
    for place in range(s.queued):
        is_new = is_new or own.order[place] != own.before[place]
        own.before[place] = own.order[place]
    s.ordered = s.queued
    if is_new:
        s.stale = s.unplanned = True


@compiled_apart
def _set_alarm(state: State, own: Site) -> None:
    s, g, now_s = own.s[0], state.g[0], state.g[0].now_s
    next_s = _next_look_s(own)
    if s.queued > 0:
        next_s = min(next_s, s.immediate_s, _main_due_s(own, now_s))
        next_s = min(next_s, s.first_s + (s.calculations + 1) * s.calculation_s)
        if s.backfills and (s.unplanned or _any_beyond_limit(own, _second(own, now_s))):
            next_s = min(next_s, _next_backfill_s(own))
    if next_s <= now_s:
        next_s = np.nextafter(now_s, np.inf)
    g.alarm_s = next_s


# The clock; see `timers.SiteClock`.


@compiled
def _second(own: Site, at_s: float) -> int:
    """Return the whole second of the clock at a simulated time."""
    return math.floor(at_s + own.s[0].origin_s + ROUNDING_S)


@compiled
def _tick_from(own: Site, at_s: float) -> float:
    """Return the time of the first iteration of the main loop at or after a time."""
    s = own.s[0]
    number = math.ceil((at_s - s.loop_s - ROUNDING_S) / s.tick_s)
    return s.loop_s + max(number, 0) * s.tick_s


@compiled
def _first_tick_of(own: Site, second: int) -> float:
    """Return the time of the first iteration in or after a second of the clock."""
    return _tick_from(own, second - own.s[0].origin_s)


# When the schedulers run; see `timers.MainTimer` and `timers.BackfillTimer`.


@compiled
def _main_due_s(own: Site, now_s: float) -> float:
    return _next_main_s(own, now_s, own.s[0].queued > 0 and own.s[0].stale)


@compiled_apart
def _next_main_s(own: Site, now_s: float, waiting: bool) -> float:
    s, full_s = own.s[0], np.inf
    if waiting:
        full_s = _first_tick_of(own, _next_full(own, now_s))
    if s.requested_s == np.inf:
        return full_s
    before = _next_full(own, s.requested_s)
    last = max(s.last, before - s.period)
    at_s = max(s.requested_s, last + s.delay - s.origin_s)
    return min(_tick_from(own, at_s), _first_tick_of(own, before), full_s)


@compiled
def _skip_main(own: Site, now_s: float) -> None:
    due_s = _next_main_s(own, now_s, False)
    if due_s < now_s - ROUNDING_S:
        _main_ran(own, due_s)


@compiled
def _main_ran(own: Site, now_s: float) -> bool:
    s, full = own.s[0], _next_full(own, now_s)
    is_full = _first_tick_of(own, full) <= now_s + ROUNDING_S
    if is_full:
        s.full_done = full
    s.requested_s, s.last = np.inf, _second(own, now_s)
    return is_full


@compiled
def _next_full(own: Site, now_s: float) -> int:
    s = own.s[0]
    passed = max((_second(own, now_s) - s.begin) // s.period, 0)
    second = s.begin + passed * s.period
    if _first_tick_of(own, second) < now_s - ROUNDING_S:
        second += s.period
    return max(second, s.full_done + s.period)


@compiled
def _next_backfill_s(own: Site) -> float:
    return own.s[0].check_s if own.s[0].changed >= own.s[0].bf_last else np.inf


@compiled
def _backfill_ran(own: Site, now_s: float, jobs: int) -> None:
    s = own.s[0]
    s.bf_last = _second(own, now_s)
    s.check_s = now_s + s.interval_s + jobs * s.job_cost_s
    if jobs > 0:
        s.changed = s.bf_last


@compiled
def _skip_backfill(own: Site, now_s: float) -> None:
    s, jobs, late_s = own.s[0], own.s[0].waiting, now_s - ROUNDING_S
    while s.check_s < late_s:
        if s.changed < s.bf_last:
            s.check_s += math.ceil((late_s - s.check_s) / SHORT_SLEEP_S) * SHORT_SLEEP_S
            return
        period_s = s.interval_s + jobs * s.job_cost_s
        passes = math.ceil((late_s - s.check_s) / period_s) if jobs > 0 else 1
        _backfill_ran(own, s.check_s + (passes - 1) * period_s, jobs)


# Time limits; see `timers.TimeLimits`.


@compiled_apart
def _end_jobs(state: State, own: Site) -> None:
    """End the jobs whose limit has passed, if a check is due now."""
    s, now_s = own.s[0], state.g[0].now_s
    now = _second(own, now_s)
    while True:
        row = _first_look(own)
        if row < 0 or own.jobs[row].look_s > now_s + ROUNDING_S:
            return
        late_s = state.jobs[row].start_s + state.jobs[row].requested_s + s.over
        if own.jobs[row].end > now - s.over or late_s > now_s + ROUNDING_S:
            _look_at(state, own, row, s.over)
        else:
            own.jobs[row].look_s = np.inf
            kill(state, row)


@compiled_apart
def _look_at(state: State, own: Site, row: int, over: int) -> None:
    """Note that a check may end a job `over` seconds after its limit."""
    s, job = own.s[0], own.jobs[row]
    end = job.end + over
    due = s.begin - -max(end - s.begin, 1) // TIME_LIMITS_PERIOD * TIME_LIMITS_PERIOD
    limit_s = state.jobs[row].start_s + state.jobs[row].requested_s
    job.look_s, job.look_end = max(_first_tick_of(own, due), limit_s + over), end


@compiled_apart
def _first_look(own: Site) -> int:
    """Return the job at which a check looks first; -1: there is none."""
    best = -1
    for place in range(own.s[0].running):
        row = own.ends[place]
        job = own.jobs[row]
        if job.look_s < np.inf and (best < 0 or _looks_before(job, own.jobs[best])):
            best = row
    return best


@compiled
def _looks_before(one: Records, other: Records) -> bool:
    if one.look_s != other.look_s:
        return one.look_s < other.look_s
    if one.look_end != other.look_end:
        return one.look_end < other.look_end
    return one.job_id < other.job_id


@compiled
def _next_look_s(own: Site) -> float:
    row = _first_look(own)
    return own.jobs[row].look_s if row >= 0 else np.inf


@compiled
def _any_beyond_limit(own: Site, now: int) -> bool:
    row = _first_look(own)
    return row >= 0 and own.jobs[row].look_end <= now


# The waiting and the running jobs.


@compiled
def _priority(own: Site, row: int, since_s: float, at_s: float) -> float:
    """Return the priority of a job at a time; see `multifactor.WaitingTable.calculate`."""
    s = own.s[0]
    if not s.multifactor:
        return 1.0
    age = min(max((at_s - since_s) / s.max_age_s, 0.0), 1.0)
    return min(max(own.jobs[row].constant + s.weight_age * age, 1.0), HIGHEST)


@compiled
def _rise(own: Site, place: int) -> None:
    """Put the job at a place of the order behind those before it."""
    order, row = own.order, own.order[place]
    value, number = int(own.jobs[row].value), own.jobs[row].job_id
    while place > 0:
        other = own.jobs[order[place - 1]]
        if int(other.value) > value or (int(other.value) == value and other.job_id < number):
            break
        order[place] = order[place - 1]
        place -= 1
    order[place] = row


@compiled_apart
def _start(state: State, own: Site, place: int) -> None:
    """Start the job at a place of the order on the chosen nodes."""
    s, g, row = own.s[0], state.g[0], own.order[place]
    job, first = state.jobs[row], state.g[0].places
    for later in range(place + 1, s.queued):
        own.order[later - 1] = own.order[later]
    s.queued -= 1
    rest = job.cores - s.chosen
    for number in range(s.chosen):  # a task on each, the others fill nodes in order
        node = own.nodes[number]
        more = min(rest, own.free[node] - 1)
        rest -= more
        state.places[first + number].node = node
        state.places[first + number].tasks = 1 + more
        own.free[node] -= 1 + more
    s.free_cores -= job.cores
    begin(state, row, s.chosen)
    s.changed = _second(own, g.now_s)
    mine = own.jobs[row]
    mine.end = s.changed + math.ceil(job.requested_s - ROUNDING_S)
    at = s.running
    while at > 0 and own.jobs[own.ends[at - 1]].end > mine.end:
        own.ends[at] = own.ends[at - 1]
        at -= 1
    own.ends[at] = row
    s.running += 1
    _look_at(state, own, row, 0)


@compiled
def _leave(state: State, own: Site, row: int) -> None:
    """Free the cores of a job that is over."""
    s, period = own.s[0], state.periods[state.jobs[row].period]
    for at in range(period.first_place, period.first_place + period.places):
        own.free[state.places[at].node] += state.places[at].tasks
    s.free_cores += state.jobs[row].cores
    at = 0
    while own.ends[at] != row:
        at += 1
    s.running -= 1
    for later in range(at, s.running):
        own.ends[later] = own.ends[later + 1]


# The main scheduler; see `backfill.main_pass`.


@compiled_apart
def _run_main(state: State, own: Site, is_due: bool) -> None:
    s, now_s = own.s[0], state.g[0].now_s
    full = is_due and _main_ran(own, now_s)
    if s.immediate_s <= now_s + ROUNDING_S:
        s.immediate_s = np.inf
    if full and s.queued > 0:
        s.changed = _second(own, now_s)
    s.stale = False
    number = 0
    while s.queued > 0:
        if not full and 0 < s.depth <= number:
            return
        if 0 < s.most_starts <= number:
            return
        row = own.order[0]
        if state.jobs[row].cores > s.free_cores:
            return
        for node in range(len(own.set)):
            own.set[node] = True
        _offer(state, own, 0)
        _choose(own, state.jobs[row].cores)
        _start(state, own, 0)
        number += 1


# The backfill scheduler; see `backfill._BackfillPass` and `future.Future`.


@compiled_apart
def _run_backfill(state: State, own: Site) -> None:
    s, now_s = own.s[0], state.g[0].now_s
    _backfill_ran(own, now_s, s.queued)
    s.unplanned = False
    now = _second(own, now_s)
    latest = now + s.window
    own.begins[0], own.slots[0], s.records = now, 0, 1
    for word in range(len(own.words)):
        own.sets[0, word] = ALL
    last = _last_that_could_start(state, own, s.queued, now)
    place = tested = started = 0
    while place <= last and not 0 < s.most_bf_starts <= started:
        tested += 1
        if tested > s.most_tests:
            return
        row = own.order[place]
        start = _earliest(state, own, row, now)
        if start == now:
            _start(state, own, place)
            started += 1
            last = _last_that_could_start(state, own, last, now)
            continue
        if start <= latest:
            _reserve(own, start, start + own.jobs[row].limit, latest)
            last = _last_that_could_start(state, own, last + 1, now)
        place += 1


@compiled_apart
def _last_that_could_start(state: State, own: Site, end: int, now: int) -> int:
    """Return the place of the last job before `end` that could start now; -1: none."""
    for word in range(len(own.idle)):
        own.idle[word] = NONE
    for node in range(len(own.free)):
        if own.free[node] > 0:
            own.idle[node // WORD] |= _bit(node)
    for place in range(end - 1, -1, -1):
        row = own.order[place]
        cores = state.jobs[row].cores
        if cores <= own.s[0].free_cores:
            _free_during(own, own.idle, now, now + own.jobs[row].limit)
            _unpack(own)
            offered = 0
            for node in range(len(own.free)):
                offered += own.free[node] * own.set[node]
            if offered >= cores:
                return place
    return -1


@compiled_apart
def _earliest(state: State, own: Site, row: int, now: int) -> int:
    """Return the earliest start of a job beside planned jobs, and choose its nodes; `NEVER`."""
    s, cores, limit = own.s[0], state.jobs[row].cores, own.jobs[row].limit
    free, needed = s.free_cores, 0
    while free < cores:
        if needed == s.running:
            return NEVER
        free += state.jobs[own.ends[needed]].cores
        needed += 1
    at = now
    if needed > 0:
        least = max(own.jobs[own.ends[needed - 1]].end, now)
        at = max(own.begins[max(_record_at(own, least - 1), 0)], now)
    for _ in range(MOST_TRIES):
        later = _free_during(own, own.every, at, at + limit)
        start = ended = NEVER
        if _count(own) * state.g[0].largest_node >= cores:
            _unpack(own)
            start, ended = _alone(state, own, cores, now, later)
        if start < NEVER:
            start = max(start, at)
            if start <= later:
                _offer(state, own, ended)
                _choose(own, cores)
                if start == at or not _overlaps(own, start, start + limit):
                    return start
                later = start
        if later == NEVER:
            return NEVER
        at = later
    return NEVER


@compiled
def _alone(state: State, own: Site, cores: int, now: int, latest: int) -> tuple[int, int]:
    """Return when a job could start on the nodes to try if no other did, and how many must end.

    See `future.Future.earliest`.
    """
    s, offered = own.s[0], 0
    for node in range(len(own.free)):
        offered += own.free[node] * own.set[node]
    if offered >= cores:
        return now, 0
    needed = 0
    while needed < s.running and offered < cores:
        row = own.ends[needed]
        if own.jobs[row].end > latest:
            return NEVER, 0
        own.gains[needed] = _gain(state, own, row)
        offered += own.gains[needed]
        needed += 1
    if offered < cores:
        return NEVER, 0
    known, at, window = needed, 0, FIRST_WINDOW_S
    while at < s.running:
        first = last = -1
        removed = 0
        while at < s.running:
            if at >= known:
                own.gains[at] = _gain(state, own, own.ends[at])
                known = at + 1
            at += 1
            if own.gains[at - 1] == 0:
                continue
            last = own.jobs[own.ends[at - 1]].end
            if removed == 0:
                first = last
            removed += 1
            if removed > MOST_TOGETHER:
                break
            if at < s.running and own.jobs[own.ends[at]].end > first + window:
                break
        if removed == 0:
            return NEVER, 0
        window *= 2
        if at >= needed:
            return last if last > now else max(last + s.kill_wait, now + 1), at
    return NEVER, 0


@compiled
def _gain(state: State, own: Site, row: int) -> int:
    """Return the cores of the nodes to try that a running job frees."""
    period, gain = state.periods[state.jobs[row].period], 0
    for at in range(period.first_place, period.first_place + period.places):
        gain += state.places[at].tasks * own.set[state.places[at].node]
    return gain


@compiled
def _offer(state: State, own: Site, ended: int) -> None:
    """Note the cores that the nodes to try offer once the first running jobs have ended."""
    for node in range(len(own.free)):
        own.offer[node] = own.free[node] * own.set[node]
    for number in range(ended):
        period = state.periods[state.jobs[own.ends[number]].period]
        for at in range(period.first_place, period.first_place + period.places):
            node = state.places[at].node
            own.offer[node] += state.places[at].tasks * own.set[node]


@compiled
def _choose(own: Site, cores: int) -> None:
    """Choose nodes of those that offer enough cores; see `select._consecutive`."""
    s, runs, count = own.s[0], own.runs, 0
    for node in range(len(own.offer)):
        if own.offer[node] > 0:
            if node == 0 or own.offer[node - 1] == 0:
                runs[0, count], runs[1, count], runs[2, count] = node, 0, 0
                count += 1
            runs[1, count - 1] += 1
            runs[2, count - 1] += own.offer[node]
    s.chosen = 0
    while cores > 0:
        best, largest = -1, 0
        for run in range(count):
            if runs[2, run] >= cores and (best < 0 or runs[2, run] < runs[2, best]):
                best = run
            if runs[2, run] > runs[2, largest]:
                largest = run
        best = best if best >= 0 else largest
        for node in range(runs[0, best], runs[0, best] + runs[1, best]):
            if cores > 0:
                own.nodes[s.chosen] = node
                s.chosen += 1
                cores -= own.offer[node]
        runs[2, best] = 0


# The plan of a pass; see `backfill.NodeSpace`.


@compiled
def _record_at(own: Site, time: int) -> int:
    """Return the record that holds at a time."""
    low, high = 0, own.s[0].records
    while low < high:
        middle = (low + high) // 2
        if time < own.begins[middle]:
            high = middle
        else:
            low = middle + 1
    return low - 1


@compiled
def _free_during(own: Site, nodes: NDArray[np.uint64], start: int, end: int) -> int:
    """Set the words of the nodes to try to those of some that are free from `start` to `end`.

    Returns:
        The next time to try.
    """
    at, records = _record_at(own, start), own.s[0].records
    later = own.begins[at + 1] if at + 1 < records else NEVER
    words, sets = own.words, own.sets
    for word in range(len(words)):
        words[word] = nodes[word]
    left = ALL
    while at < records and left != NONE and own.begins[at] <= end:
        slot, left = own.slots[at], NONE
        for word in range(len(words)):
            words[word] &= sets[slot, word]
            left |= words[word]
        at += 1
    return later


@compiled
def _unpack(own: Site) -> None:
    """Set the nodes to try to those of the words."""
    for node in range(len(own.set)):
        own.set[node] = own.words[node // WORD] & _bit(node) != NONE


@compiled
def _count(own: Site) -> int:
    """Return the number of nodes of the words."""
    count = 0
    for word in range(len(own.words)):
        left = own.words[word]
        while left != NONE:
            left &= left - ONE
            count += 1
    return count


@compiled
def _bit(node: int) -> np.uint64:
    """Return the bit of a node in its word."""
    return ONE << np.uint64(node % WORD)


@compiled
def _note_chosen(own: Site) -> None:
    """Set `words` to the chosen nodes."""
    for word in range(len(own.words)):
        own.words[word] = NONE
    for number in range(own.s[0].chosen):
        own.words[own.nodes[number] // WORD] |= _bit(own.nodes[number])


@compiled
def _reserve(own: Site, start: int, end: int, latest: int) -> None:
    """Reserve the chosen nodes from `start` to `end`, both rounded down to the resolution."""
    s = own.s[0]
    start = max(start // s.resolution * s.resolution, own.begins[0])
    end = min(end // s.resolution * s.resolution, latest)
    if end <= start:
        return
    first = _split(own, start)
    last = _split(own, end) if end < latest else s.records
    _note_chosen(own)
    for at in range(first, last):
        for word in range(len(own.words)):
            own.sets[own.slots[at], word] &= ~own.words[word]


@compiled
def _overlaps(own: Site, start: int, end: int) -> bool:
    """Return whether `_reserve` would reserve a node that is reserved already."""
    s = own.s[0]
    start = max(start // s.resolution * s.resolution, own.begins[0])
    end = end // s.resolution * s.resolution
    at = _record_at(own, start)
    _note_chosen(own)
    while start < end and at < s.records and own.begins[at] < end:
        for word in range(len(own.words)):
            if own.words[word] & ~own.sets[own.slots[at], word] != NONE:
                return True
        at += 1
    return False


@compiled
def _split(own: Site, time: int) -> int:
    """Return the record that begins at a time, which is inserted if needed."""
    s, at = own.s[0], _record_at(own, time)
    if own.begins[at] == time:
        return at
    for later in range(s.records, at + 1, -1):
        own.begins[later], own.slots[later] = own.begins[later - 1], own.slots[later - 1]
    own.begins[at + 1], own.slots[at + 1] = time, s.records
    for word in range(len(own.words)):
        own.sets[s.records, word] = own.sets[own.slots[at], word]
    s.records += 1
    return at + 1
