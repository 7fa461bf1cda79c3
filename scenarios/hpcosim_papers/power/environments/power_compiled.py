"""Decisions of power agents in many simulations: switch nodes, simulate to the next decision.

As `NodePowerEnv`, with the integrals of `EnergyAccount` and the observation of `features`. All
floating-point operations are theirs, in the same order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_compiled.batches import state_at
from hpcosim_compiled.compiler import compiled, compiled_apart, entry_with
from hpcosim_compiled.energy import settle_all
from hpcosim_compiled.loop import BY_RANK, DECIDE, Decide, has_room, next_instant
from hpcosim_compiled.node_power import see_if_on_first, switch
from hpcosim_compiled.policies import PolicyCode
from hpcosim_compiled.state import (
    ALLOCATED,
    EVERY_EVENT,
    LEAVE,
    ON,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    Records,
    State,
)
from hpcosim_compiled.sums import pairwise_sum
from hpcosim_compiled.waiting import ANY, next_place
from hpcosim_papers.power.environments import power_task
from hpcosim_papers.power.environments.power_task import DECIDES
from hpcosim_schedulers.power import account, features
from hpcosim_schedulers.power.account import HOUR_S
from hpcosim_schedulers.power.features import FEATURES, JOBS, JOBS_PER_HOUR

USES = (account, features, power_task)
"""Modules whose constants are compiled."""

GOES_ON = -3
"""Action: go on after `EPISODE.is_short`. See also `DECIDES` and `BEGIN`."""

EPISODE = np.dtype(
    [
        ("next_s", "f8"),  # time of the next decision
        ("start_s", "f8"),  # of the account; NaN: not started
        ("now_s", "f8"),  # of the account
        ("wasted_j", "f8"),  # of all nodes
        ("waited_s", "f8"),
        ("waiting", "i8"),  # jobs
        ("waited", "i8"),  # jobs that have waited since the last decision
        ("interval", "i8"),  # decisions so far
        ("hour", "i8"),  # first job of the last hour
        ("is_short", "i8"),  # whether an array of the state has too little room
        ("is_over", "i8"),  # whether all jobs are over
    ]
)


class PowerCode(NamedTuple):
    """What does not change.

    Attributes:
        policy: the job scheduler.
        interval_s: time between two decisions, s.
        resting_w: float64[nodes, power states], power of a node without a job, W.
        on_w: float64[nodes], power of a node that computes on all cores, W.
        all_on_w: the sum of them.
    """

    policy: PolicyCode
    interval_s: float
    resting_w: Floats
    on_w: Floats
    all_on_w: float


class Accounts(NamedTuple):
    """The accounts of many simulations; the first axis of each array is that of the simulations.

    Attributes:
        wasted_j, switching_s, idle_since_s: float64[nodes]; see `EnergyAccount`.
        power_state: int64[nodes], before the starts of this instant: a policy does not see yet
            that they switch nodes on.
        wasting_w: float64[nodes], power of nodes that do not compute, W.
        is_switching: bool[nodes].
        waiting: rows of the jobs that wait.
        interval: last interval in which each job has waited; it counts from 1.
        release_s: float64[nodes], space.
        stack: see `pairwise_sum`.
    """

    wasted_j: Floats
    switching_s: Floats
    idle_since_s: Floats
    power_state: Ints
    wasting_w: Floats
    is_switching: Bools
    waiting: Ints
    interval: Ints
    release_s: Floats
    stack: Records


class Steps(NamedTuple):
    """What the agents see and do.

    Attributes:
        rows: float32[simulations, nodes, columns], the observations, without the calendar.
        mask: int8[simulations, nodes, 2].
        switches: int64[simulations, nodes], 1: on.
    """

    rows: NDArray[np.float32]
    mask: NDArray[np.int8]
    switches: Ints


@compiled
def _play(
    states: State,
    episodes: Records,
    accounts: Accounts,
    code: PowerCode,
    steps: Steps,
    actions: Ints,
    decide: Decide[PolicyCode],
) -> None:
    """Switch nodes in each simulation, and simulate to the next decisions.

    Args:
        states: the simulations, with all parts; each array has one more axis, the first.
        actions: int64[simulations], `DECIDES`, `GOES_ON`, `BEGIN` or `LEAVE`.
    """
    for place in range(len(actions)):
        if actions[place] == LEAVE:
            continue
        state, episode = state_at(states, place), episodes[place]
        own = Accounts(
            accounts.wasted_j[place],
            accounts.switching_s[place],
            accounts.idle_since_s[place],
            accounts.power_state[place],
            accounts.wasting_w[place],
            accounts.is_switching[place],
            accounts.waiting[place],
            accounts.interval[place],
            accounts.release_s[place],
            accounts.stack[place],
        )
        if actions[place] == DECIDES:
            episode.interval += 1
            episode.waited = 0
            _switch(state, state.power, steps.mask[place], steps.switches[place])
        if actions[place] != GOES_ON:
            _set_alarm(state, state.power, episode, code, actions[place])
        _advance(state, episode, own, code, decide)
        if episode.is_over:
            settle_all(state)
        if not episode.is_short:
            _observe(state, state.power, episode, own, code, steps.rows[place])
            _allow(state, state.power, own, steps.mask[place])


@compiled
def _set_alarm(state: State, power: Any, episode: Any, code: PowerCode, action: int) -> None:
    if power is not None and action == DECIDES:
        episode.next_s = power.g[0].alarm_s = state.g[0].now_s + code.interval_s


@compiled
def _switch(state: State, power: Any, mask: NDArray[np.int8], switches: Ints) -> None:
    """Switch nodes off, then on; what the mask forbids is ignored."""
    if power is None:
        return
    for node in range(len(power.nodes)):
        if switches[node] == 0 and mask[node, 0] and power.nodes[node].state == ON:
            switch(state, power, node)
    for node in range(len(power.nodes)):
        if switches[node] == 1 and mask[node, 1] and power.nodes[node].state == SLEEPING:
            switch(state, power, node)


@compiled_apart
def _advance(
    state: State, episode: Any, own: Accounts, code: PowerCode, decide: Decide[PolicyCode]
) -> None:
    """Simulate until the next decision or the end, as `advance_with`."""
    g, by_rank = state.g[0], code.policy.kind == BY_RANK
    episode.is_short = 0
    while True:
        while not g.is_woken:
            _forget_changes(state.power)
            g.wakes = EVERY_EVENT
            g.is_woken = next_instant(state, by_rank)
        if not has_room(state, state.ahead, state.said, state.processors, state.power):
            episode.is_short = 1
            return
        g.is_woken = False
        see_if_on_first(state.power)
        _see_states(state.power, own)
        decide(state, code.policy)
        _update(state, state.power, episode, own, code)
        if g.over == g.jobs:
            episode.is_over = 1
            return
        if g.now_s >= episode.next_s:
            return


@compiled
def _forget_changes(power: Any) -> None:
    """Forget the changes of power states, which an episode does not record."""
    if power is not None:
        power.g[0].changes = 0


@compiled
def _see_states(power: Any, own: Accounts) -> None:
    if power is not None:
        for node in range(len(power.nodes)):
            own.power_state[node] = power.nodes[node].state


# The account.


@compiled_apart
def _update(state: State, power: Any, episode: Any, own: Accounts, code: PowerCode) -> None:
    """See `EnergyAccount.update`."""
    if power is None:
        return
    now_s = state.g[0].now_s
    if np.isnan(episode.start_s):
        episode.start_s = episode.now_s = now_s
    if now_s > episode.now_s:
        span_s = now_s - episode.now_s
        for node in range(len(power.nodes)):
            own.wasted_j[node] += own.wasting_w[node] * span_s
            if own.is_switching[node]:
                own.switching_s[node] += span_s
        episode.waited_s += episode.waiting * span_s
        for each in range(episode.waiting):
            if own.interval[own.waiting[each]] <= episode.interval:
                own.interval[own.waiting[each]] = episode.interval + 1
                episode.waited += 1
        episode.now_s = now_s
    _note_waiting(state, power, episode, own)
    for node in range(len(power.nodes)):
        if state.free[node] == state.nodes[node].capacity:  # no start has switched it on
            own.power_state[node] = power.nodes[node].state
        seen = own.power_state[node]
        own.wasting_w[node] = 0.0
        if state.nodes[node].busy == 0:
            own.wasting_w[node] = code.resting_w[node, seen]
        own.is_switching[node] = seen in (SWITCHING_ON, SWITCHING_OFF)
        if seen == ON and state.free[node] == state.nodes[node].capacity:
            if np.isnan(own.idle_since_s[node]):
                own.idle_since_s[node] = now_s
        else:
            own.idle_since_s[node] = np.nan


@compiled
def _note_waiting(state: State, power: Any, episode: Any, own: Accounts) -> None:
    """Write the jobs of the queue, then those whose nodes boot."""
    count, at = 0, state.g[0].first
    for _ in range(state.g[0].queued):
        own.waiting[count] = state.queue[at]
        count += 1
        at = next_place(state, at + 1, ANY)
    for entry in range(power.g[0].booting):
        row = power.booting[entry].row
        if entry == 0 or power.booting[entry - 1].row != row:
            own.waiting[count] = row
            count += 1
    episode.waiting = count


# The observation.


@compiled_apart
def _observe(
    state: State,
    power: Any,
    episode: Any,
    own: Accounts,
    code: PowerCode,
    rows: NDArray[np.float32],
) -> None:
    """Write the observation; see `features.features`."""
    if power is None:
        return
    g, jobs, nodes = state.g[0], state.jobs, len(power.nodes)
    waited_s = requested_s = 0.0
    count, elapsed_s = episode.waiting, episode.now_s - episode.start_s
    for each in range(count):
        waited_s += g.now_s - jobs[own.waiting[each]].submit_s
        requested_s += jobs[own.waiting[each]].requested_s
    if count > 0:
        waited_s, requested_s = waited_s / count, requested_s / count
    while episode.hour < g.submitted and jobs[episode.hour].submit_s <= g.now_s - HOUR_S:
        episode.hour += 1
    submitted = g.submitted - episode.hour
    episode.wasted_j = pairwise_sum(own.wasted_j, 0, nodes, own.stack)
    whole_j = elapsed_s * code.all_on_w
    wasted = episode.wasted_j / whole_j if whole_j > 0.0 else 0.0
    _note_releases(state, power, own)
    for node in range(nodes):
        seen, since_s, idle_s = rows[node], own.idle_since_s[node], 0.0
        seen[0] = count / (count + JOBS)
        seen[1] = submitted / (submitted + JOBS_PER_HOUR)
        seen[2] = waited_s / (waited_s + HOUR_S)
        seen[3] = wasted
        seen[4] = requested_s / (requested_s + HOUR_S)
        seen[5] = _code_of(own.power_state[node]) / 3
        seen[6] = seen[9] = seen[10] = 0.0
        if not np.isnan(since_s):
            seen[6], idle_s = 1.0, g.now_s - since_s
        seen[7] = idle_s / (idle_s + HOUR_S)
        seen[8] = own.release_s[node] / (own.release_s[node] + HOUR_S)
        if elapsed_s > 0.0:
            on_w = code.on_w[node] if code.on_w[node] > 0.0 else 1.0
            seen[9] = own.wasted_j[node] / (elapsed_s * on_w)
            seen[10] = own.switching_s[node] / elapsed_s
        for column in range(FEATURES):
            seen[column] = min(max(seen[column], np.float32(0.0)), np.float32(1.0))


@compiled
def _code_of(power_state: int) -> int:
    """Return the place of a power state from asleep to on; see `POWER_CODES`."""
    if power_state == SLEEPING:
        return 0
    return 1 if power_state == SWITCHING_OFF else 2 if power_state == SWITCHING_ON else 3


@compiled
def _note_releases(state: State, power: Any, own: Accounts) -> None:
    """Write when the last job of each node is expected to end, s from now; 0: it has no job."""
    g, due = state.g[0], state.due
    own.release_s[:] = 0.0
    for entry in range(g.running):
        row, left_s = due[entry].number, max(due[entry].at_s, g.now_s) - g.now_s
        if state.jobs[row].state == ALLOCATED:
            for each in range(power.g[0].booting):
                if power.booting[each].row == row:
                    _note_release(own.release_s, power.booting[each].node, left_s)
        else:
            period = state.periods[state.jobs[row].period]
            for each in range(period.first_place, period.first_place + period.places):
                _note_release(own.release_s, state.places[each].node, left_s)


@compiled
def _note_release(release_s: Floats, node: int, left_s: float) -> None:
    release_s[node] = max(release_s[node], left_s)


@compiled
def _allow(state: State, power: Any, own: Accounts, mask: NDArray[np.int8]) -> None:
    """Write the valid actions; see `features.action_mask`."""
    if power is None:
        return
    for node in range(len(power.nodes)):
        each, seen = power.nodes[node], own.power_state[node]
        is_free = state.free[node] == state.nodes[node].capacity
        goes_on = seen in (ON, SWITCHING_ON)
        may_go_off = seen == ON and is_free and not each.is_planned and each.can_sleep
        mask[node, 0] = 1 if not goes_on or may_go_off else 0
        mask[node, 1] = 1 if goes_on or (seen == SLEEPING and is_free) else 0


_lists, _easy = DECIDE["lists"], DECIDE["easy"]
_conservative, _aware = DECIDE["conservative"], DECIDE["aware"]


@entry_with(*USES)
def play_lists(
    states: State,
    episodes: Records,
    accounts: Accounts,
    code: PowerCode,
    steps: Steps,
    actions: Ints,
) -> None:
    """Play with a list scheduler; see `_play`."""
    _play(states, episodes, accounts, code, steps, actions, _lists)


@entry_with(*USES)
def play_easy(
    states: State,
    episodes: Records,
    accounts: Accounts,
    code: PowerCode,
    steps: Steps,
    actions: Ints,
) -> None:
    """Play with EASY; see `_play`."""
    _play(states, episodes, accounts, code, steps, actions, _easy)


@entry_with(*USES)
def play_conservative(
    states: State,
    episodes: Records,
    accounts: Accounts,
    code: PowerCode,
    steps: Steps,
    actions: Ints,
) -> None:
    """Play with conservative backfilling; see `_play`."""
    _play(states, episodes, accounts, code, steps, actions, _conservative)


@entry_with(*USES)
def play_aware(
    states: State,
    episodes: Records,
    accounts: Accounts,
    code: PowerCode,
    steps: Steps,
    actions: Ints,
) -> None:
    """Play with backfilling that is aware of power states; see `_play`."""
    _play(states, episodes, accounts, code, steps, actions, _aware)


PLAY = {
    "lists": play_lists,
    "easy": play_easy,
    "conservative": play_conservative,
    "aware": play_aware,
}
"""The entry of each family of job schedulers."""
