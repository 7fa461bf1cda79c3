"""The loop of a compiled simulation: the next instant, its ends and submissions, the policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from hpcosim_compiled import eligibility
from hpcosim_compiled.cluster import end_next, end_switch, next_end_s
from hpcosim_compiled.compiler import compiled, entry
from hpcosim_compiled.conservative import conservative
from hpcosim_compiled.easy import easy, easy_by_rule
from hpcosim_compiled.energy import settle_all
from hpcosim_compiled.job_node import job_node
from hpcosim_compiled.look_ahead import look_ahead
from hpcosim_compiled.node_power import is_short, next_power_s, see_if_on_first
from hpcosim_compiled.orders import by_key_now, by_rank, first_come_first_served, push_by_rank
from hpcosim_compiled.policies import AWARE, KINDS, PolicyCode
from hpcosim_compiled.power_aware import conservative_aware, easy_aware
from hpcosim_compiled.power_managers import manage
from hpcosim_compiled.state import (
    ENDS,
    EVERY_EVENT,
    REJECTED,
    SUBMISSIONS,
    NodesAhead,
    Power,
    Processors,
    Said,
    State,
    draws_needed,
    lines_needed,
    said_needed,
)
from hpcosim_compiled.waiting import add

GOES_ON, FULL, FINISHED = 0, 1, 2
"""Results of `advance`: instants are left; `state.with_room` is needed; all jobs are over."""

FCFS, BY_RANK, EASY, JOB_NODE, EASY_AWARE = map(
    KINDS.index, ("fcfs", "by-rank", "easy", "job-node", "easy-aware")
)
PLANNED = AWARE.index("planned")

P = TypeVar("P")
Decide = Callable[[State, P], None]

_lines_needed, _said_needed = compiled(lines_needed), compiled(said_needed)
_draws_needed = compiled(draws_needed)


@compiled
def advance_with(
    state: State, policy: P, decide: Decide[P], instants: int, by_rank: bool = False
) -> int:
    """Advance by up to a number of instants, and return what is left to do.

    At an instant jobs end, then jobs are submitted, then the policy decides, as in the reference.
    Like there, a job that is rejected at its submission does not wake the policy, but the begin of
    the simulation and the end of the submissions do. Where a decision has switched a node, or made
    a job eligible, the next instant is the same.
    """
    g = state.g[0]
    result = GOES_ON
    eligibility.begin(state, state.eligibility)
    for _ in range(instants):
        if g.over == g.jobs or (g.watched == 0 and g.now_s >= g.least_s):
            result = FINISHED
            break
        if is_short(state, state.power):
            result = FULL
            break
        if not g.is_woken:
            g.is_woken = next_instant(state, by_rank)
        if not g.is_woken:
            continue
        if g.running > 0 or eligibility.expects(state.eligibility):
            g.busy_s = max(g.now_s, g.least_s)
        if g.now_s > min(g.busy_s + g.idle_s, g.until_s):
            result = FINISHED
            break
        if not has_room(state, state.ahead, state.said, state.processors, state.power):
            result = FULL
            break
        g.is_woken = False
        see_if_on_first(state.power)
        decide(state, policy)
        manage(state, state.power)
        g.is_woken = eligibility.note_changes(state, state.eligibility)
    return result


@compiled
def has_room(
    state: State,
    ahead: NodesAhead | None,
    said: Said | None,
    processors: Processors | None,
    power: Power | None,
) -> bool:
    """Return whether there is room for a decision about the jobs that wait now."""
    if ahead is None or said is None or processors is None or power is None:
        return True
    g = state.g[0]
    if len(processors.drawn) - g.drawn < _draws_needed(g, len(state.nodes)):
        return False
    has_lines = len(ahead.lines) >= _lines_needed(g, power.g[0].nodes_off)
    return has_lines and len(said.each) >= _said_needed(g)


@compiled
def next_instant(state: State, by_rank: bool) -> bool:
    """End and submit the jobs of the next instant; return whether that wakes the policy."""
    g, jobs = state.g[0], state.jobs
    now_s = next_end_s(state, state.processors)
    if g.submitted < g.jobs:
        now_s = min(now_s, jobs[g.submitted].submit_s)
    now_s = min(now_s, g.alarm_s, next_power_s(state, state.power))
    g.now_s = now_s = min(now_s, eligibility.next_eligible_s(state.eligibility))
    if now_s == np.inf:  # nothing happens any more
        return True
    is_woken = g.alarm_s <= now_s or g.submitted == 0
    while next_end_s(state, state.processors) <= now_s:
        is_woken = (end_next(state, state.processors) and g.wakes & ENDS != 0) or is_woken
        is_woken = eligibility.note_changes(state, state.eligibility) or is_woken
    is_woken = _end_switches(state, state.power) or is_woken
    while g.submitted < g.jobs and jobs[g.submitted].submit_s <= now_s:
        is_last = g.submitted + 1 == g.jobs
        is_woken = (_submit(state, by_rank) and g.wakes & SUBMISSIONS != 0) or is_woken
        is_woken = (is_last and g.wakes == EVERY_EVENT) or is_woken
    return eligibility.pass_time(state, state.eligibility) or is_woken


@compiled
def _end_switches(state: State, power: Power | None) -> bool:
    """End the switching of nodes that is due; return whether that, or an alarm, wakes the policy.

    Jobs that start then and end at once do so before the next node.
    """
    if power is None:
        return False
    now_s, own = state.g[0].now_s, power.g[0]
    is_woken = own.has_changed or own.alarm_s <= now_s
    if own.alarm_s <= now_s:
        own.alarm_s = np.inf
    own.has_changed = False
    while next_power_s(state, power) <= now_s:
        end_switch(state, power)
        own.has_changed, is_woken = False, True
        while next_end_s(state, state.processors) <= now_s:
            end_next(state, state.processors)
    return is_woken


@compiled
def _submit(state: State, by_rank: bool) -> bool:
    """Put the next job into the queue, or reject it; return whether it is in the queue."""
    g, jobs = state.g[0], state.jobs
    row = g.submitted
    g.submitted += 1
    if not jobs[row].feasible:
        jobs[row].end_s, jobs[row].state = g.now_s, REJECTED
        state.ended_idle[g.ended_idle] = row
        g.ended_idle += 1
        g.over += 1
        eligibility.reject(state, state.eligibility, row)
        return False
    g.placements |= 1 << jobs[row].placement
    if not eligibility.submit(state, state.eligibility, row):
        return True
    add(state, row)
    if by_rank:
        push_by_rank(state, row)
    return True


# The families of policies. Each is compiled with a loop of its own, at its first use.


@compiled
def _lists(state: State, policy: PolicyCode) -> None:
    if policy.kind == FCFS:
        first_come_first_served(state)
    elif policy.kind == BY_RANK:
        by_rank(state)
    else:
        by_key_now(state, policy.key)


@compiled
def _easy(state: State, policy: PolicyCode) -> None:
    if policy.kind == EASY:
        easy(state)
    else:
        easy_by_rule(state, policy.key, policy.aged_s, policy.window_jobs)


@compiled
def _conservative(state: State, policy: PolicyCode) -> None:
    conservative(state, state.ahead)


@compiled
def _look_ahead(state: State, policy: PolicyCode) -> None:
    look_ahead(state, state.ahead, policy.window_jobs)


@compiled
def _job_node(state: State, policy: PolicyCode) -> None:
    job_node(state, state.processors, policy)


@compiled
def _aware(state: State, policy: PolicyCode) -> None:
    _reserve_aware(state, state.ahead, state.power, policy)


@compiled
def _reserve_aware(
    state: State, ahead: NodesAhead | None, power: Power | None, policy: PolicyCode
) -> None:
    if ahead is None or power is None:
        return
    if policy.kind == EASY_AWARE:
        easy_aware(state, ahead, power, policy.awareness == PLANNED)
    else:
        conservative_aware(state, ahead, power, policy.awareness == PLANNED)


@entry
def advance_lists(state: State, policy: PolicyCode, instants: int) -> int:
    """Advance with a list scheduler; see `advance_with`."""
    return advance_with(state, policy, _lists, instants, policy.kind == BY_RANK)


@entry
def advance_easy(state: State, policy: PolicyCode, instants: int) -> int:
    """Advance with EASY; see `advance_with`."""
    return advance_with(state, policy, _easy, instants)


@entry
def advance_conservative(state: State, policy: PolicyCode, instants: int) -> int:
    """Advance with conservative backfilling; see `advance_with`."""
    return advance_with(state, policy, _conservative, instants)


@entry
def advance_look_ahead(state: State, policy: PolicyCode, instants: int) -> int:
    """Advance with the best of some plans; see `advance_with`."""
    return advance_with(state, policy, _look_ahead, instants)


@entry
def advance_job_node(state: State, policy: PolicyCode, instants: int) -> int:
    """Advance with a rule that pairs jobs and nodes; see `advance_with`."""
    return advance_with(state, policy, _job_node, instants, True)


@entry
def advance_aware(state: State, policy: PolicyCode, instants: int) -> int:
    """Advance with backfilling that is aware of power states; see `advance_with`."""
    return advance_with(state, policy, _aware, instants)


DECIDE = {
    "lists": _lists,
    "easy": _easy,
    "conservative": _conservative,
    "look-ahead": _look_ahead,
    "job-node": _job_node,
    "aware": _aware,
}
"""What each family of policies does at a call, for loops of agents beside a policy."""

ADVANCE = {
    "lists": advance_lists,
    "easy": advance_easy,
    "conservative": advance_conservative,
    "look-ahead": advance_look_ahead,
    "job-node": advance_job_node,
    "aware": advance_aware,
}
"""The loop of each family of policies, see `policies.FAMILIES`."""


@entry
def settle(state: State) -> None:
    """Integrate the energy of all nodes up to now.

    Integrals in more parts have other roundings, so this is done once, at the end or on a copy.
    """
    settle_all(state)
