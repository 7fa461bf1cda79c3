"""Which waiting jobs may start, and which can never start.

The functions follow `hpcosim_sim.engine.eligibility`. A simulation without holds, begin times,
dependencies and limited arrays has no `State.eligibility`, and is compiled without all this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

import numpy as np

from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.state import (
    CANCELLED,
    COMPLETED,
    CONDITION,
    ELIGIBLE,
    ELIGIBLE_AT,
    GATE,
    LINK,
    RUNNING,
    TASKS,
    WAITING,
    Eligibility,
    Ints,
    State,
    records,
)
from hpcosim_compiled.waiting import insert, remove
from hpcosim_protocol import Dependency, JobRequest
from hpcosim_protocol.requests import DependencyKind
from hpcosim_sim.engine.jobs import ARRAY, BEGIN, DEPENDENCY, HELD
from hpcosim_workloads.table import JobSpec

KINDS = get_args(DependencyKind)
AFTER, AFTEROK, AFTERNOTOK, SINGLETON = map(
    KINDS.index, ("after", "afterok", "afternotok", "singleton")
)


# What the loop of a simulation asks and reports.


@compiled
def begin(state: State, own: Eligibility | None) -> None:
    """Note the jobs that are present at the begin, once."""
    if own is not None and not own.g[0].has_begun:
        _begin(state, own)


@compiled
def expects(own: Eligibility | None) -> bool:
    """Return whether a waiting job becomes eligible at a set time."""
    if own is None:
        return False
    return own.g[0].timers > 0


@compiled
def next_eligible_s(own: Eligibility | None) -> float:
    """Return when the next waiting job becomes eligible; infinity: at no set time."""
    if own is None:
        return np.inf
    return own.g[0].next_s


@compiled
def may_start(own: Eligibility | None, row: int) -> bool:
    """Return whether a waiting job is eligible."""
    if own is None:
        return True
    return own.jobs[row].blocked == 0


@compiled
def submit(state: State, own: Eligibility | None, row: int) -> bool:
    """Note a job that is submitted; return whether it may join the queue now."""
    if own is None:
        return True
    _enter(state, own, row)
    _join_or_block(own, row)
    _settle(state, own)
    return own.jobs[row].blocked == 0


@compiled
def reject(state: State, own: Eligibility | None, row: int) -> None:
    """Note a job that is rejected at its submission."""
    if own is not None:
        own.jobs[row].over = True
        _reconsider(state, own, row)
        _settle(state, own)


@compiled
def note_changes(state: State, own: Eligibility | None) -> bool:
    """Note the starts and ends since the last call; return whether that wakes the policy."""
    if own is None:
        return False
    return _note_changes(state, own)


@compiled
def pass_time(state: State, own: Eligibility | None) -> bool:
    """Let jobs become eligible whose time has come; return whether that wakes the policy.

    Call it after the submissions of an instant.
    """
    if own is None:
        return False
    if own.g[0].next_s <= state.g[0].now_s:
        _pass_time(state, own, state.g[0].now_s)
    _drop_hopeless(state, own)
    return _take_wakes(own)


@compiled
def give_up(own: Eligibility, row: int) -> None:
    """Note that the policy will not start a waiting job."""
    if not own.jobs[row].given_up:
        own.jobs[row].given_up = True
        own.g[0].given_up += 1


@compiled
def last_blocked(state: State, own: Eligibility) -> int:
    """Return the row of the waiting job that became ineligible last; -1: all are eligible."""
    g = own.g[0]
    while g.blocked > 0:
        row = own.blocked[g.blocked - 1]
        if state.jobs[row].state == WAITING and own.jobs[row].blocked != 0:
            return row
        g.blocked -= 1
    return -1


# Events.


@compiled_apart
def _begin(state: State, own: Eligibility) -> None:
    """Let the time up to the instant pass, and put the eligible jobs into the queue."""
    g, now_s, submitted = state.g[0], state.g[0].now_s, state.g[0].submitted
    g.submitted = 0
    for place in range(len(own.present)):
        row = own.present[place]
        _pass_time(state, own, np.nextafter(state.jobs[row].submit_s, -np.inf))
        g.now_s = state.jobs[row].submit_s
        _enter(state, own, row)
        _settle(state, own)
    g.submitted = submitted
    _drop_hopeless(state, own)
    _pass_time(state, own, now_s)
    g.now_s = now_s
    own.g[0].ended, own.g[0].changes = g.ended_idle, g.changes
    own.g[0].has_begun, own.g[0].wakes = True, False
    for place in range(len(own.present)):
        row = own.present[place]
        if state.jobs[row].state == WAITING:
            _join_or_block(own, row)
            if own.jobs[row].blocked == 0:
                insert(state, row)


@compiled
def _join_or_block(own: Eligibility, row: int) -> None:
    """Note a submitted job for the policy."""
    g = own.g[0]
    if own.jobs[row].blocked == 0:
        own.arrivals[g.arrivals] = row
        g.arrivals += 1
        own.jobs[row].arrives = True
    else:
        own.blocked[g.blocked] = row
        g.blocked += 1


@compiled_apart
def _note_changes(state: State, own: Eligibility) -> bool:
    g = own.g[0]
    while g.ended < state.g[0].ended_idle:  # what the policy rejects is before what it starts
        row = state.ended_idle[g.ended]
        g.ended += 1
        if not own.jobs[row].over:
            _note_end(state, own, row)
    while g.changes < state.g[0].changes:
        change = state.changes[g.changes]
        g.changes += 1
        if change < 0:
            _note_end(state, own, state.periods[~change].row)
        else:
            row = state.periods[change].row
            _take_up(own, row)
            _reconsider(state, own, row)
            _settle(state, own)
    if g.given_up > 0:
        _drop_hopeless(state, own)
    return _take_wakes(own)


@compiled
def _note_end(state: State, own: Eligibility, row: int) -> None:
    own.g[0].wakes = True
    _leave(state, own, row)
    _settle(state, own)
    _drop_hopeless(state, own)


@compiled
def _take_wakes(own: Eligibility) -> bool:
    wakes: bool = own.g[0].wakes
    own.g[0].wakes = False
    return wakes


@compiled_apart
def _enter(state: State, own: Eligibility, row: int) -> None:
    """Decide whether a job that is being submitted is eligible."""
    gate = own.jobs[row]
    gate.entered = True
    if gate.held:
        gate.blocked |= HELD
    if gate.begin_s > state.g[0].now_s:
        gate.blocked |= BEGIN
        _set_timer(own, gate.begin_s, row, 1)
    if gate.array >= 0:
        _enter_array(state, own, row)
    if gate.conditions > 0 and not _depend(state, own, row):
        gate.blocked |= DEPENDENCY
    if state.jobs[row].state == RUNNING:
        gate.blocked = 0


@compiled
def _leave(state: State, own: Eligibility, row: int) -> None:
    """Note that a job is over."""
    gate = own.jobs[row]
    gate.over, gate.undecided = True, False
    _stop_begin(own, row)
    _take_up(own, row)
    if gate.array >= 0:
        _leave_array(state, own, row)
    _reconsider(state, own, row)


@compiled
def _take_up(own: Eligibility, row: int) -> None:
    own.g[0].given_up -= own.jobs[row].given_up
    own.jobs[row].given_up = False


@compiled
def _block(state: State, own: Eligibility, row: int, cause: int) -> None:
    gate, g = own.jobs[row], own.g[0]
    if gate.blocked == 0 and state.jobs[row].state == WAITING and g.has_begun:
        remove(state, row)
        own.blocked[g.blocked] = row
        g.blocked += 1
        gate.arrives = False
        g.has_left = g.wakes = True
    gate.blocked |= cause


@compiled
def _unblock(state: State, own: Eligibility, row: int, cause: int) -> None:
    gate, g = own.jobs[row], own.g[0]
    if gate.blocked == cause and state.jobs[row].state == WAITING and g.has_begun:
        insert(state, row)
        own.arrivals[g.arrivals] = row
        g.arrivals += 1
        gate.arrives = g.wakes = True
    gate.blocked &= ~cause


@compiled
def _cancel(state: State, own: Eligibility, row: int) -> None:
    """End a waiting job that can never start."""
    g, job = state.g[0], state.jobs[row]
    if own.jobs[row].blocked == 0 and own.g[0].has_begun:
        remove(state, row)
    job.end_s, job.state = g.now_s, CANCELLED
    state.ended_idle[g.ended_idle] = row
    g.ended_idle += 1
    g.over += 1
    g.watched -= job.watched
    own.g[0].has_left = own.g[0].wakes = True
    _leave(state, own, row)


@compiled_apart
def _settle(state: State, own: Eligibility) -> None:
    """Cancel the jobs whose dependencies can never be met."""
    g = own.g[0]
    while g.settled < g.impossible:
        row = own.impossible[g.settled]
        g.settled += 1
        if state.jobs[row].state == WAITING:
            _cancel(state, own, row)


@compiled_apart
def _drop_hopeless(state: State, own: Eligibility) -> None:
    """Once nothing else can happen, end waiting jobs until one may start."""
    g = state.g[0]
    if g.submitted < g.jobs or g.running > 0:
        return
    while g.over < g.jobs and _is_hopeless(state, own):
        for waits_for_jobs in range(2):
            for row in range(g.jobs):
                if state.jobs[row].state != WAITING or not _is_hopeless_job(own, row):
                    continue
                gate = own.jobs[row]
                if (gate.blocked & HELD != 0 or gate.given_up) == (waits_for_jobs == 0):
                    _cancel(state, own, row)
                    _settle(state, own)
                    if not _is_hopeless(state, own):
                        return


@compiled
def _is_hopeless(state: State, own: Eligibility) -> bool:
    """Return whether no waiting job may start or becomes eligible at a set time."""
    g = state.g[0]
    if own.g[0].timers > 0 or (g.queued > 0 and own.g[0].given_up == 0):
        return False
    for row in range(g.jobs):
        if state.jobs[row].state == WAITING and not _is_hopeless_job(own, row):
            return False
    return True


@compiled
def _is_hopeless_job(own: Eligibility, row: int) -> bool:
    return own.jobs[row].blocked != 0 or own.jobs[row].given_up


# Times.


@compiled
def _set_timer(own: Eligibility, at_s: float, row: int, begins: int) -> None:
    g, timer = own.g[0], own.timers[own.g[0].timers]
    timer.at_s, timer.number, timer.row, timer.begins = at_s, g.timers_set, row, begins
    g.timers += 1
    g.timers_set += 1
    g.next_s = min(g.next_s, at_s)


@compiled
def _remove_timer(own: Eligibility, place: int) -> None:
    g, timers = own.g[0], own.timers
    g.timers -= 1
    moved, last = timers[place], timers[g.timers]
    moved.at_s, moved.number = last.at_s, last.number
    moved.row, moved.begins = last.row, last.begins
    g.next_s = np.inf
    for each in range(g.timers):
        g.next_s = min(g.next_s, timers[each].at_s)


@compiled_apart
def _stop_begin(own: Eligibility, row: int) -> None:
    if own.jobs[row].begin_s == -np.inf:
        return
    for place in range(own.g[0].timers):
        if own.timers[place].row == row and own.timers[place].begins:
            _remove_timer(own, place)
            return


@compiled_apart
def _pass_time(state: State, own: Eligibility, until_s: float) -> None:
    """Let the timers up to a time go off, of equal times that first which was set first."""
    g, timers = own.g[0], own.timers
    while g.next_s <= until_s:
        first = 0
        for place in range(1, g.timers):
            one, other = timers[place], timers[first]
            is_earlier = one.at_s == other.at_s and one.number < other.number
            if one.at_s < other.at_s or is_earlier:
                first = place
        row, begins = timers[first].row, timers[first].begins
        state.g[0].now_s = timers[first].at_s
        _remove_timer(own, first)
        if begins:
            _unblock(state, own, row, BEGIN)
        elif own.jobs[row].undecided and _decide(state, own, row):
            _unblock(state, own, row, DEPENDENCY)
        _drop_hopeless(state, own)


# Arrays.


@compiled_apart
def _enter_array(state: State, own: Eligibility, row: int) -> None:
    """Admit a task to its array if it is among the first ones, in place of the last of them."""
    array, before, admitted = own.arrays[own.jobs[row].array], 0, False
    for place in range(array.first, array.last):
        each = own.tasks[place]
        if each == row:
            admitted = before < array.limit
        if not own.jobs[each].entered or own.jobs[each].over:
            continue
        if before == array.limit:
            if admitted:
                _block(state, own, each, ARRAY)
            break
        before += 1
    if not admitted:
        own.jobs[row].blocked |= ARRAY


@compiled_apart
def _leave_array(state: State, own: Eligibility, row: int) -> None:
    """Admit the next task of an array in the place of one that is over."""
    array, before, is_admitted = own.arrays[own.jobs[row].array], 0, False
    while array.first < array.last and own.jobs[own.tasks[array.first]].over:
        is_admitted = is_admitted or own.tasks[array.first] == row
        array.first += 1
    for place in range(array.first, array.last):
        each = own.tasks[place]
        is_admitted = is_admitted or each == row
        if not own.jobs[each].entered or own.jobs[each].over:
            continue
        before += 1
        if before == array.limit:
            if is_admitted:
                _unblock(state, own, each, ARRAY)
            return


# Dependencies.


@compiled
def _met_at_s(state: State, kind: int, other: int) -> float:
    """Return when another job met a condition; infinity if it never can; NaN: not yet."""
    if other < 0:
        return np.inf if kind == AFTERNOTOK else -np.inf
    job = state.jobs[other]
    is_over = job.state != WAITING and job.state != RUNNING
    if kind == AFTER and not np.isnan(job.start_s):
        return job.start_s
    if not is_over:
        return np.nan
    if kind == AFTEROK and job.state != COMPLETED:
        return np.inf
    if kind == AFTERNOTOK and job.state == COMPLETED:
        return np.inf
    return job.end_s


@compiled_apart
def _depend(state: State, own: Eligibility, row: int) -> bool:
    """Return whether the dependencies of a job that is being submitted are met."""
    gate = own.jobs[row]
    gate.undecided = True
    for number in range(gate.first, gate.first + gate.conditions):
        condition = own.conditions[number]
        for at in range(condition.first_link, condition.first_link + condition.links):
            link = own.links[at]
            met_s = _met_at_s(state, condition.kind, link.other)
            if np.isnan(met_s):
                link.unmet = 1
                condition.unmet += 1
            elif condition.kind != SINGLETON:  # it does not name jobs that are over
                condition.met_s = max(condition.met_s, met_s + condition.delay_s)
    return _decide(state, own, row)


@compiled_apart
def _reconsider(state: State, own: Eligibility, other: int) -> None:
    """Reconsider the dependencies on a job that started or is over."""
    at = own.jobs[other].first_link
    while at >= 0:
        link = own.links[at]
        at = link.after
        if link.unmet == 0:
            continue
        condition = own.conditions[link.condition]
        met_s = _met_at_s(state, condition.kind, other)
        if np.isnan(met_s):
            continue
        link.unmet = 0
        condition.unmet -= 1
        condition.met_s = max(condition.met_s, met_s + condition.delay_s)
        if own.jobs[condition.row].undecided and _decide(state, own, condition.row):
            _unblock(state, own, condition.row, DEPENDENCY)


@compiled_apart
def _decide(state: State, own: Eligibility, row: int) -> bool:
    """Return whether the dependencies of a job are met; set a timer if they will be."""
    gate, possible, met = own.jobs[row], 0, 0
    first_s, last_s = np.inf, -np.inf
    for number in range(gate.first, gate.first + gate.conditions):
        condition = own.conditions[number]
        if condition.met_s < np.inf:
            possible += 1
            if condition.unmet == 0:
                met += 1
                first_s, last_s = min(first_s, condition.met_s), max(last_s, condition.met_s)
    needed = 1 if gate.any else gate.conditions
    if possible < needed:
        own.impossible[own.g[0].impossible] = row
        own.g[0].impossible += 1
        return False
    if met < needed:
        return False
    met_s = first_s if gate.any else last_s
    if met_s <= state.g[0].now_s:
        gate.undecided = False
        return True
    _set_timer(own, met_s, row, 0)
    return False


# Tables.


def waits_for_more(request: JobRequest | None) -> bool:
    """Return whether a job may wait for more than resources."""
    return request is not None and bool(
        request.hold or request.begin_s is not None or request.dependencies or request.array_limit
    )


def depends_on_itself(job: JobSpec) -> bool:
    """Return whether a job waits for itself."""
    request = job.request
    return request is not None and any(job.job_id in each.job_ids for each in request.dependencies)


def eligibility_of(jobs: Sequence[JobSpec], present: int) -> Eligibility:
    """Return the conditions of jobs in the order of their rows, before the first is submitted.

    Args:
        present: number of the jobs that are submitted at the begin, which are the first ones.
    """
    gates = records(GATE, len(jobs))
    gates.begin_s, gates.array, gates.first_link = -np.inf, -1, -1
    order = sorted(range(len(jobs)), key=lambda row: (jobs[row].submit_s, jobs[row].job_id))
    conditions: list[tuple[int, Dependency, list[int]]] = []
    others = _Others(jobs, order)
    for row, job in enumerate(jobs):
        request = job.request
        if request is None or not waits_for_more(request):
            continue
        gate = gates[row]
        gate.held, gate.waits, gate.any = request.hold, True, request.any_dependency
        gate.timed = request.begin_s is not None or any(
            each.delay_s for each in request.dependencies
        )
        if request.begin_s is not None:
            gate.begin_s = request.begin_s
        gate.first, gate.conditions = len(conditions), len(request.dependencies)
        conditions += [(row, each, others.of(row, each)) for each in request.dependencies]
    arrays, tasks = _arrays(jobs, order)
    for number, each in enumerate(arrays):
        gates.array[tasks[each.first : each.last]] = number
    links = _links(gates, [others for _, _, others in conditions])
    of_conditions = records(CONDITION, len(conditions))
    last = 0
    for record, (row, dependency, named) in zip(of_conditions, conditions, strict=True):
        record.row, record.kind, record.delay_s = (
            row,
            KINDS.index(dependency.kind),
            dependency.delay_s,
        )
        record.first_link, record.links, record.met_s = last, len(named), -np.inf
        last += len(named)
    g = records(ELIGIBLE, 1)
    g.next_s = np.inf
    changes = 2 * len(jobs)  # a job joins the queue once, and again for each task that drops it
    decisions = len(jobs) + len(links)
    return Eligibility(
        g=g,
        jobs=gates,
        conditions=of_conditions,
        links=links,
        arrays=arrays,
        tasks=tasks,
        timers=records(ELIGIBLE_AT, len(jobs) + 2 * decisions),
        arrivals=np.zeros(changes, np.int64),
        blocked=np.zeros(changes, np.int64),
        impossible=np.zeros(2 * decisions, np.int64),
        present=np.array([row for row in order if row < present], np.int64),
    )


class _Others:
    """The jobs that dependencies name.

    Args:
        order: rows of the jobs in submission order.
    """

    def __init__(self, jobs: Sequence[JobSpec], order: Sequence[int]) -> None:
        self._jobs, self._order = jobs, order
        self._row_of = {job.job_id: row for row, job in enumerate(jobs)}
        self._namesakes: dict[tuple[str, str], list[int]] = {}

    def of(self, row: int, dependency: Dependency) -> list[int]:
        """Return the rows of the jobs that a dependency of a job names; -1: unknown ones."""
        if dependency.kind != "singleton":
            return [self._row_of.get(each, -1) for each in dict.fromkeys(dependency.job_ids)]
        if not self._namesakes:
            for each in self._order:
                self._namesakes.setdefault(_name_of(self._jobs[each]), []).append(each)
        alike = self._namesakes[_name_of(self._jobs[row])]
        return alike[: alike.index(row)]


def _name_of(job: JobSpec) -> tuple[str, str]:
    return job.user, "" if job.request is None else job.request.name


def _arrays(jobs: Sequence[JobSpec], order: Sequence[int]) -> tuple[np.recarray, Ints]:
    """Return the limited arrays; the limit is that of the task that is submitted first."""
    members: dict[int, list[tuple[int, int, int]]] = {}  # index, place in the order, row
    limits: dict[int, int] = {}
    for place, row in enumerate(order):
        request = jobs[row].request
        if request is not None and request.array_id is not None:
            limits.setdefault(request.array_id, request.array_limit)
            members.setdefault(request.array_id, []).append((request.array_index, place, row))
    limited = [number for number, limit in limits.items() if limit]
    arrays, tasks = records(TASKS, len(limited)), list[int]()
    for array, number in zip(arrays, limited, strict=True):
        array.limit, array.first = limits[number], len(tasks)
        tasks += [row for _, _, row in sorted(members[number])]
        array.last = len(tasks)
    return arrays, np.array(tasks, np.int64)


def _links(gates: np.recarray, named: Sequence[Sequence[int]]) -> np.recarray:
    """Return the links of conditions in their order; set the first one that names each job."""
    links = records(LINK, sum(map(len, named)))
    for at, (number, row) in reversed(list(enumerate(_pairs(named)))):
        links.condition[at], links.other[at], links.after[at] = number, row, -1
        if row >= 0:
            links.after[at], gates.first_link[row] = gates.first_link[row], at
    return links


def _pairs(named: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    for number, rows in enumerate(named):
        yield from ((number, row) for row in rows)
