"""Why jobs wait and when they are expected to start, as policies of the reference say it.

The head of the queue waits for resources and has an expected start, all others wait for it. See
`hpcosim_schedulers.heuristics.list_scheduling.explain_queue` and `hpcosim_client.View.explain`.
"""

from __future__ import annotations

import numpy as np

from hpcosim_compiled import profile
from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.state import (
    ENDS,
    EVERY_EVENT,
    PRIORITY,
    RESOURCES,
    SUBMISSIONS,
    WAITING,
    NodesAhead,
    Said,
    State,
)
from hpcosim_compiled.waiting import ANY, next_place


@compiled
def explain_queue(state: State, said: Said | None, head: int, expected_s: float) -> None:
    """Explain that the head waits for resources and all others for it.

    Args:
        state: the simulation.
        said: `state.said`.
        head: the first job that does not fit; -1: the first of the queue.
        expected_s: expected start of the head, s; NaN: the earliest by requested times.
    """
    if said is not None and state.g[0].explains:
        _explain_queue(state, said, state.ahead, head, expected_s)


@compiled_apart
def _explain_queue(
    state: State, said: Said, ahead: NodesAhead | None, head: int, expected_s: float
) -> None:
    g = state.g[0]
    before = g.head
    if head < 0 and g.queued > 0:
        head = state.queue[g.first]
    g.head = head
    for row in range(g.explained, g.submitted):
        if row != head and state.jobs[row].state == WAITING:
            _say(state, said, row, PRIORITY, np.nan)
    g.explained = g.submitted
    if before >= 0 and before != head and state.jobs[before].state == WAITING:
        _say(state, said, before, PRIORITY, np.nan)
    if head < 0:
        return
    if np.isnan(expected_s):
        profile.make_profile(state, ahead)
        expected_s = profile.earliest_s(state, ahead, head, -np.inf)
        profile.forget(state, ahead, head)
    _say(state, said, head, RESOURCES, expected_s)


@compiled
def explain_reservations(state: State, said: Said | None) -> None:
    """Explain that the first job waits for resources and the others for it, until they start."""
    if said is None or not state.g[0].explains:
        return
    g, reason = state.g[0], RESOURCES
    place = next_place(state, g.first, ANY)
    while place < g.last:
        row = state.queue[place]
        _say(state, said, row, reason, state.jobs[row].reserved_s)
        reason = PRIORITY
        place = next_place(state, place + 1, ANY)


@compiled
def sleep(state: State, said: Said | None, is_blocked: bool) -> None:
    """Let only events wake the policy after which a job could start, as the reference does.

    Without explanations there is nothing to see of it.

    Args:
        state: the simulation.
        said: `state.said`.
        is_blocked: whether submissions change nothing.
    """
    if said is not None and state.g[0].explains:
        g = state.g[0]
        g.wakes = SUBMISSIONS if g.queued == 0 else ENDS if is_blocked else EVERY_EVENT


@compiled
def _say(state: State, said: Said, row: int, reason: int, expected_s: float) -> None:
    """Explain a job, unless its last explanation was the same."""
    g, last = state.g[0], said.last[row]
    expected_s = max(expected_s, g.now_s) if expected_s == expected_s else np.nan
    is_same = last.expected_s == expected_s or (np.isnan(last.expected_s) and np.isnan(expected_s))
    if last.reason == reason and is_same:
        return
    last.reason, last.expected_s = reason, expected_s
    each = said.each[g.said]
    each.row, each.at_s, each.reason, each.expected_s = row, g.now_s, reason, expected_s
    g.said += 1
