"""The clock of a site, when its schedulers run next, and time limits; see `hpcosim_schedulers`.

The functions follow `slurm.timers` there.
"""

from __future__ import annotations

import math

import numpy as np

from hpcosim_compiled.cluster import kill
from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.slurm.state import ENDS, RESPONSE, Site
from hpcosim_compiled.state import Records, State
from hpcosim_schedulers.slurm.timers import (
    MANY_ROUNDS,
    PING_S,
    ROUNDING_S,
    SHORT_SLEEP_S,
    TIME_LIMITS_PERIOD,
)

# The clock; see `timers.SiteClock`.


@compiled
def second_of(own: Site, at_s: float) -> int:
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
def main_due_s(own: Site, now_s: float) -> float:
    """Return when the main scheduler runs next; infinity: no pass could start a job."""
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
def skip_main(own: Site, now_s: float) -> None:
    """Note the requested pass if it was due before now, when no job waited."""
    due_s = _next_main_s(own, now_s, False)
    if due_s < now_s - ROUNDING_S:
        main_ran(own, due_s)


@compiled
def main_ran(own: Site, now_s: float) -> bool:
    """Note that the main scheduler runs now; return whether it considers the whole queue."""
    s, full = own.s[0], _next_full(own, now_s)
    is_full = _first_tick_of(own, full) <= now_s + ROUNDING_S
    if is_full:
        s.full_done = full
    s.requested_s, s.last = np.inf, second_of(own, now_s)
    return is_full


@compiled
def _next_full(own: Site, now_s: float) -> int:
    s = own.s[0]
    passed = max((second_of(own, now_s) - s.begin) // s.period, 0)
    second = s.begin + passed * s.period
    if _first_tick_of(own, second) < now_s - ROUNDING_S:
        second += s.period
    return max(second, s.full_done + s.period)


@compiled
def next_backfill_s(own: Site) -> float:
    """Return when the backfill scheduler runs next; infinity: nothing has changed."""
    return own.s[0].check_s if own.s[0].changed >= own.s[0].bf_last else np.inf


@compiled
def backfill_ran(own: Site, now_s: float, jobs: int) -> None:
    """Note that the backfill scheduler runs now and considers a number of jobs."""
    s = own.s[0]
    s.bf_last = second_of(own, now_s)
    s.check_s = now_s + s.interval_s + jobs * s.job_cost_s
    if jobs > 0:
        s.changed = s.bf_last


@compiled
def skip_backfill(own: Site, now_s: float) -> None:
    """Note the passes of the backfill scheduler before now, which started no job, and the pings."""
    s, jobs, late_s = own.s[0], own.s[0].waiting, now_s - ROUNDING_S
    _skip_pings(own, late_s)
    while min(s.check_s, s.pings_s) < late_s:
        if s.pings_s <= s.check_s:
            answered = second_of(own, s.pings_s)
            if _answer_pings(own):
                s.changed = max(s.changed, answered)
        elif s.changed < s.bf_last:
            looks = math.ceil((min(late_s, s.pings_s) - s.check_s) / SHORT_SLEEP_S)
            s.check_s += looks * SHORT_SLEEP_S
        else:
            period_s = s.interval_s + jobs * s.job_cost_s
            passes = math.ceil((late_s - s.check_s) / period_s) if jobs > 0 else 1
            backfill_ran(own, s.check_s + (passes - 1) * period_s, jobs)


# Pings; see `timers.NodePings`.


@compiled
def _skip_pings(own: Site, late_s: float) -> None:
    """Skip the rounds of pings long before a time."""
    s, period = own.s[0], max(own.s[0].ping_period, 1)
    if late_s - s.pings_s > MANY_ROUNDS * period:
        skipped_s = 2 * int((late_s - s.pings_s) / (2 * period)) * period
        for node in range(own.places.nodes.shape[1]):
            own.places.nodes[RESPONSE, node] += skipped_s
        s.pings_s = _first_tick_of(own, second_of(own, s.pings_s - PING_S) + skipped_s) + PING_S


@compiled
def _answer_pings(own: Site) -> bool:
    """Carry out the next round of pings; return whether a node was pinged."""
    s, responses, pinged = own.s[0], own.places.nodes[RESPONSE], False
    second, answered = second_of(own, s.pings_s - PING_S), second_of(own, s.pings_s)
    for node in range(len(responses)):
        if responses[node] < second - s.ping_period:
            responses[node], pinged = answered, True
    s.pings_s = _first_tick_of(own, second + max(s.ping_period, 1)) + PING_S
    return pinged


@compiled
def note_responses(state: State, own: Site, row: int) -> None:
    """Note that the nodes of a job that is over respond now."""
    period = state.periods[state.jobs[row].period]
    for at in range(period.first_place, period.first_place + period.places):
        own.places.nodes[RESPONSE, state.places[at].node] = second_of(own, state.g[0].now_s)


# Time limits; see `timers.TimeLimits`.


@compiled_apart
def end_jobs(state: State, own: Site) -> None:
    """End the jobs that run beyond their limits, where a check of them is due."""
    s, now_s = own.s[0], state.g[0].now_s
    now = second_of(own, now_s)
    while True:
        row = _first_look(own)
        if row < 0 or own.jobs[row].look_s > now_s + ROUNDING_S:
            return
        late_s = state.jobs[row].start_s + state.jobs[row].requested_s + s.over
        if own.jobs[row].end > now - s.over or late_s > now_s + ROUNDING_S:
            look_at(state, own, row, s.over)
        else:
            own.jobs[row].look_s = np.inf
            kill(state, row)


@compiled_apart
def look_at(state: State, own: Site, row: int, over: int) -> None:
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
        row = own.lists[ENDS, place]
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
def next_look_s(own: Site) -> float:
    """Return the time of the next check that could end a job; infinity: none."""
    row = _first_look(own)
    return own.jobs[row].look_s if row >= 0 else np.inf


@compiled
def any_beyond_limit(own: Site, now: int) -> bool:
    """Return whether a job runs beyond its limit at a second of the clock."""
    row = _first_look(own)
    return row >= 0 and own.jobs[row].look_end <= now
