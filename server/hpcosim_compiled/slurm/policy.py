"""Calls of the policy, see `hpcosim_schedulers.slurm.policy`, and its waiting and running jobs."""

from __future__ import annotations

import math

import numpy as np

from hpcosim_compiled import eligibility
from hpcosim_compiled.compiler import compiled, compiled_apart, entry
from hpcosim_compiled.loop import advance_with
from hpcosim_compiled.slurm.charges import calculate_usage, share_of
from hpcosim_compiled.slurm.limits import discharge, forget_submission, refusal
from hpcosim_compiled.slurm.lists import drop
from hpcosim_compiled.slurm.passes import adopt, run_backfill, run_main
from hpcosim_compiled.slurm.places import give_back
from hpcosim_compiled.slurm.state import (
    BEFORE,
    ENDS,
    KEYS,
    ORDER,
    PRIORITIES,
    RISING,
    RISING_KEYS,
    Rules,
    Site,
)
from hpcosim_compiled.slurm.timers import (
    any_beyond_limit,
    end_jobs,
    main_due_s,
    next_backfill_s,
    next_look_s,
    note_responses,
    second_of,
    skip_backfill,
    skip_main,
)
from hpcosim_compiled.state import (
    CANCELLED,
    REJECTED,
    TIMEOUT,
    WAITING,
    Eligibility,
    State,
)
from hpcosim_compiled.waiting import remove
from hpcosim_schedulers.slurm.multifactor import HIGHEST
from hpcosim_schedulers.slurm.policy import EPILOG_S
from hpcosim_schedulers.slurm.timers import ROUNDING_S

NONE, CAME, WAKES = range(3)
"""Jobs that joined the queue: none; some; some after which the main scheduler runs."""


@entry
def advance_slurm(state: State, policy: Site, instants: int) -> int:
    """Advance with the policy; see `loop.advance_with`."""
    return advance_with(state, policy, _decide, instants)


@compiled_apart
def _decide(state: State, own: Site) -> None:
    """Call the policy, and again at the same instant after it ended jobs or made some eligible."""
    goes_on = True
    while goes_on:
        over = state.g[0].over
        _call(state, own)
        wakes = eligibility.note_changes(state, state.eligibility)
        wakes = wakes or state.g[0].over > over
        goes_on = wakes and state.g[0].over < state.g[0].jobs
        if goes_on and (state.g[0].running > 0 or eligibility.expects(state.eligibility)):
            state.g[0].busy_s = max(state.g[0].now_s, state.g[0].least_s)


@compiled
def _call(state: State, own: Site) -> None:
    """Run the parts of Slurm that are due, and set the alarm for the next one.

    See `SlurmPolicy.__call__`.
    """
    s, now_s = own.s[0], state.g[0].now_s
    if s.adopted > 0:
        adopt(state, own)
    due = int((now_s - s.first_s) // s.calculation_s)
    calculated = due > s.calculations
    if calculated:
        _calculate(state, own, own.rules, due)
    _note_changes(state, own, calculated)
    end_jobs(state, own)
    is_due = main_due_s(own, now_s) <= now_s + ROUNDING_S
    if is_due or s.immediate_s <= now_s + ROUNDING_S:
        run_main(state, own, is_due)
    if s.backfills and next_backfill_s(own) <= now_s + ROUNDING_S:
        run_backfill(state, own)
    s.waiting = s.queued
    _set_alarm(state, own)


@compiled
def _calculate(state: State, own: Site, rules: Rules | None, due: int) -> None:
    """Make the calculations of usage that are due."""
    if rules is None:
        own.s[0].calculations = due
        return
    calculate_usage(state, own, rules, due)


@compiled_apart
def _note_changes(state: State, own: Site, calculated: bool) -> None:
    s, g, now_s = own.s[0], state.g[0], state.g[0].now_s
    skip_main(own, now_s)
    skip_backfill(own, now_s)
    wakes = False
    for change in range(s.changes, g.changes):
        if state.changes[change] < 0:
            wakes = True
            row = state.periods[~state.changes[change]].row
            _leave(state, own, row)
            if state.jobs[row].state == TIMEOUT:
                s.immediate_s = now_s + EPILOG_S
    s.changes = g.changes
    came = _note_submissions(state, own, state.eligibility)
    wakes = wakes or came == WAKES
    if calculated and s.multifactor and (s.weight_age > 0.0 or _weighs_shares(own, own.rules)):
        last_s = s.first_s + s.calculations * s.calculation_s
        for place in range(s.queued):
            row = own.lists[ORDER, place]
            before = own.jobs[row].value
            value = _priority(own, own.rules, row, last_s)
            own.jobs[row].value = max(value, before) if s.only_up else value
            own.lists[KEYS, place] = _key(own, row)
        _sort(own)
    if came != NONE or wakes:
        s.stale = s.unplanned = True
        s.changed = second_of(own, now_s)
    if wakes and s.requested_s == np.inf:
        s.requested_s = now_s
    if s.calculations != s.noted:
        s.noted = s.calculations
        _note_order(own)
        if _depends_on_usage(own, own.rules):
            s.stale = s.unplanned = True
        if s.queued > 0:
            s.changed = second_of(own, now_s)


@compiled
def _weighs_shares(own: Site, rules: Rules | None) -> bool:
    if rules is None:
        return False
    return own.s[0].weight_share > 0.0


@compiled
def _depends_on_usage(own: Site, rules: Rules | None) -> bool:
    if rules is None:
        return False
    return own.s[0].by_usage


@compiled
def _note_order(own: Site) -> None:
    """Note the order of the jobs, and whether it differs from that of the last calculation."""
    s = own.s[0]
    is_new = s.queued != s.ordered
    for place in range(s.queued):
        is_new = is_new or own.lists[ORDER, place] != own.lists[BEFORE, place]
        own.lists[BEFORE, place] = own.lists[ORDER, place]
    s.ordered = s.queued
    if is_new:
        s.stale = s.unplanned = True


@compiled_apart
def _set_alarm(state: State, own: Site) -> None:
    s, g, now_s = own.s[0], state.g[0], state.g[0].now_s
    next_s = next_look_s(own)
    if s.queued > 0 and not _give_up(state, own, state.eligibility):
        next_s = min(next_s, s.immediate_s, main_due_s(own, now_s))
        next_s = min(next_s, s.first_s + (s.calculations + 1) * s.calculation_s)
        if s.backfills and (s.unplanned or any_beyond_limit(own, second_of(own, now_s))):
            next_s = min(next_s, next_backfill_s(own))
    if next_s <= now_s:
        next_s = np.nextafter(now_s, np.inf)
    g.alarm_s = next_s


@compiled
def _give_up(state: State, own: Site, eligible: Eligibility | None) -> bool:
    """Return whether no waiting job can ever start; end them if nothing else can happen.

    See `limits.Limits.give_up`.
    """
    s, g = own.s[0], state.g[0]
    if s.never < s.queued or s.running > 0:
        return False
    if eligible is not None:
        for place in range(s.queued):
            eligibility.give_up(eligible, own.lists[ORDER, place])
    elif g.submitted == g.jobs:
        for row in range(g.jobs):
            if state.jobs[row].state == WAITING:
                own.jobs[row].refused = own.jobs[row].never
                _end_waiting(state, None, row, CANCELLED)
        s.queued = s.never = 0
    return True


@compiled
def _end_waiting(state: State, eligible: Eligibility | None, row: int, final: int) -> None:
    """End a waiting job."""
    g = state.g[0]
    if eligibility.may_start(eligible, row):
        remove(state, row)
    state.jobs[row].end_s, state.jobs[row].state = g.now_s, final
    state.ended_idle[g.ended_idle] = row
    g.ended_idle += 1
    g.over += 1


# The waiting and the running jobs.


@compiled
def _note_submissions(state: State, own: Site, eligible: Eligibility | None) -> int:
    """Note the jobs that were submitted or became eligible; return `NONE`, `CAME` or `WAKES`."""
    if eligible is not None:
        return _note_eligible(state, own, eligible)
    came = NONE
    for row in range(own.s[0].submitted, state.g[0].submitted):
        if state.jobs[row].state == WAITING:
            came = WAKES
            own.jobs[row].since_s = state.jobs[row].submit_s
            _arrive(state, own, None, row)
    own.s[0].submitted = state.g[0].submitted
    return came


@compiled_apart
def _note_eligible(state: State, own: Site, eligible: Eligibility) -> int:
    s, g, came, last = own.s[0], state.g[0], NONE, eligibility.last_blocked(state, eligible)
    if last >= 0 and state.jobs[last].submit_s >= g.now_s - ROUNDING_S:
        came = WAKES
    if eligible.g[0].has_left:
        _forget_left(state, own, eligible)
    for at in range(s.arrivals, eligible.g[0].arrivals):
        row = eligible.arrivals[at]
        gate, job = eligible.jobs[row], own.jobs[row]
        if not gate.arrives or state.jobs[row].state != WAITING:
            continue
        gate.arrives = False
        came = max(came, CAME if gate.timed else WAKES)
        if math.isnan(job.since_s) or job.left < s.noted:
            job.since_s = g.now_s if gate.waits and not s.accrues else state.jobs[row].submit_s
        _arrive(state, own, eligible, row)
    s.arrivals = eligible.g[0].arrivals
    _admit_blocked(state, own, eligible)
    s.submitted = g.submitted
    return came


@compiled_apart
def _forget_left(state: State, own: Site, eligible: Eligibility) -> None:
    """Take the jobs out of the order that are over or not eligible any more."""
    s, kept = own.s[0], 0
    for place in range(s.queued):
        row = own.lists[ORDER, place]
        is_eligible = eligible.jobs[row].blocked == 0 and not eligible.jobs[row].arrives
        if state.jobs[row].state == WAITING and is_eligible:
            own.lists[ORDER, kept], own.lists[KEYS, kept] = row, own.lists[KEYS, place]
            kept += 1
        else:
            s.never -= own.jobs[row].never >= 0
            own.jobs[row].left = s.noted
    s.queued = kept
    for at in range(s.ended, state.g[0].ended_idle):
        row = state.ended_idle[at]
        if own.jobs[row].admitted:
            forget_submission(own, own.rules, row)
    s.ended = state.g[0].ended_idle
    eligible.g[0].has_left = False


@compiled_apart
def _admit_blocked(state: State, own: Site, eligible: Eligibility) -> None:
    """Reject or count the submitted jobs that are not eligible, by number."""
    rows, count = state.rows, 0
    for row in range(own.s[0].submitted, state.g[0].submitted):
        if state.jobs[row].state != WAITING or own.jobs[row].admitted:
            continue
        at = count
        while at > 0 and own.jobs[rows[at - 1]].job_id > own.jobs[row].job_id:
            rows[at] = rows[at - 1]
            at -= 1
        rows[at] = row
        count += 1
    for at in range(count):
        _admit_job(state, own, eligible, rows[at])


@compiled
def _admit_job(state: State, own: Site, eligible: Eligibility | None, row: int) -> bool:
    """Reject a submitted job, or count it; return whether it goes on waiting."""
    job = own.jobs[row]
    _know(own, own.rules, row)
    job.refused = refusal(state, own, own.rules, row)
    if job.refused >= 0:
        _end_waiting(state, eligible, row, REJECTED)
        return False
    job.admitted = True
    return True


@compiled
def _arrive(state: State, own: Site, eligible: Eligibility | None, row: int) -> None:
    """Put a job into the order, or reject it; see `policy.Admission`."""
    s, job = own.s[0], own.jobs[row]
    _know(own, own.rules, row)
    job.value = _priority(own, own.rules, row, state.g[0].now_s)
    if not job.admitted and not _admit_job(state, own, eligible, row):
        return
    s.never += job.never >= 0
    _insert(own, ORDER, s.queued, row, _key(own, row))
    s.queued += 1


@compiled
def _know(own: Site, rules: Rules | None, row: int) -> None:
    """Note the associations that exist once a job has been submitted."""
    if rules is not None:
        own.s[0].known = max(own.s[0].known, rules.owners[row].known)


@compiled
def _priority(own: Site, rules: Rules | None, row: int, at_s: float) -> float:
    """Return the priority of a job at a time; see `multifactor.WaitingTable.calculate`."""
    s, job = own.s[0], own.jobs[row]
    age = min(max((at_s - job.since_s) / s.max_age_s, 0.0), 1.0)
    value = job.constant + s.weight_age * age + _share(own, rules, row)
    if not math.isnan(job.fixed):
        return job.fixed
    return min(max(value, 1.0), HIGHEST)


@compiled
def _share(own: Site, rules: Rules | None, row: int) -> float:
    """Return the weighted fair-share factor of a job."""
    if rules is None:
        return 0.0
    number = rules.owners[row].association
    if own.s[0].weight_share == 0.0:
        return 0.0
    share = share_of(own, rules, max(number, 0))
    return own.s[0].weight_share * (share if number >= 0 else 0.0)


@compiled_apart
def _sort(own: Site) -> None:
    """Put the waiting jobs in the order of new keys.

    Most stay behind those before them. The others are sorted on their own, and merged with them.
    """
    s, lists, kept, rising = own.s[0], own.lists, 0, 0
    for place in range(s.queued):
        row, key = lists[ORDER, place], lists[KEYS, place]
        if kept > 0 and _is_before(own, row, key, ORDER, kept - 1):
            _insert(own, RISING, rising, row, key)
            rising += 1
        else:
            lists[ORDER, kept], lists[KEYS, kept] = row, key
            kept += 1
    while rising > 0:
        place = kept + rising - 1
        row, key = lists[RISING, rising - 1], lists[RISING_KEYS, rising - 1]
        if kept > 0 and _is_before(own, row, key, ORDER, kept - 1):
            kept -= 1
            row, key = lists[ORDER, kept], lists[KEYS, kept]
        else:
            rising -= 1
        lists[ORDER, place], lists[KEYS, place] = row, key


@compiled
def _insert(own: Site, which: int, count: int, row: int, key: int) -> None:
    """Insert a job into a list of `count` waiting jobs, whose keys are in the next row."""
    lists, place = own.lists, count
    while place > 0 and _is_before(own, row, key, which, place - 1):
        lists[which, place] = lists[which, place - 1]
        lists[which + 1, place] = lists[which + 1, place - 1]
        place -= 1
    lists[which, place], lists[which + 1, place] = row, key


@compiled
def _is_before(own: Site, row: int, key: int, which: int, place: int) -> bool:
    """Return whether a job is before that at a place of a list."""
    other = own.lists[which + 1, place]
    if other != key:
        return other < key
    return own.jobs[row].job_id < own.jobs[own.lists[which, place]].job_id


@compiled
def _key(own: Site, row: int) -> int:
    """Return the tier and the priority of a job as one number."""
    return own.jobs[row].tier * PRIORITIES + int(own.jobs[row].value)


@compiled
def _leave(state: State, own: Site, row: int) -> None:
    """Free what a job held that is over."""
    s = own.s[0]
    note_responses(state, own, row)
    give_back(state, own, row)
    discharge(state, own, own.rules, row)
    drop(own, ENDS, s.running, row)
    s.running -= 1
