"""The rounds of pairing agents in many simulations: start a job on a node, simulate to the next.

As `PairingRounds`, with the features of `PaperFeatures` and of `ForecastFeatures` and with the
forecasts of `ForecastNode`. All floating-point operations are theirs, in the same order.

A forecast node remembers its options there; here they are computed anew, with the same results.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Ints
from hpcosim_compiled.batches import state_at
from hpcosim_compiled.cluster import begin
from hpcosim_compiled.compiler import compiled, compiled_apart, entry_with
from hpcosim_compiled.contention import speed_on
from hpcosim_compiled.energy import settle_all
from hpcosim_compiled.loop import next_instant
from hpcosim_compiled.state import BEGIN, LEAVE, Processors, Records, State
from hpcosim_compiled.waiting import ANY, next_place
from hpcosim_papers.ineps.agent import forecast_features, policy, site
from hpcosim_papers.ineps.agent.forecast_features import (
    COST,
    FIRST_WEIGHT,
    JOBS,
    JOBS_OF_A_KIND,
    LEAST,
    MBPS,
    NODE_CORES,
    NOW,
    PER_WEIGHT,
    SECOND,
    UNTIL,
    WAITS,
)
from hpcosim_papers.ineps.agent.policy import COLUMNS, ENERGY_COLUMNS
from hpcosim_papers.ineps.agent.site import LATE
from hpcosim_schedulers.agents.networks import Rows

WEIGHTS = tuple(forecast_features.WEIGHTS.tolist())

WITHOUT_ENERGY = COLUMNS - ENERGY_COLUMNS

GROUP = np.dtype(
    [
        ("slowness", "f8"),  # run time / requested time, without contention
        ("static_w", "f8"),
        ("dynamic_w", "f8"),
        ("idle_w", "f8"),
        ("computing_w", "f8"),  # see `NodeType`
        ("core_w", "f8"),
        ("contends", "i8"),  # whether it has the constants below; see `Contention`
        ("c_mbps", "f8"),
        ("b_per_mbps", "f8"),
        ("da", "f8"),
        ("db_mbps", "f8"),
        ("dc_mbps", "f8"),
        ("dd_mbps", "f8"),
    ]
)
"""A node group."""

NODE = np.dtype(
    [
        ("group", "i8"),
        ("first", "i8"),
        ("speed", "f4"),
        ("static", "f4"),
        ("dynamic", "f4"),
        ("cores", "f4"),
    ]
)
"""Group of a node, its first `SHARE`, and columns: speed, power, cores, each over the largest."""

SITE = np.dtype([("since_s", "f8"), ("busy_until_s", "f8"), ("shares", "i8")])
"""A `ForecastNode`, and the number of its jobs."""

SHARE = np.dtype(
    [
        ("row", "i8"),
        ("kind", "i8"),
        ("cores", "i8"),
        ("mbps", "f8"),
        ("alone_s", "f8"),
        ("left_s", "f8"),
        ("end_s", "f8"),
        ("speed", "f8"),
    ]
)
"""A `ForecastJob`."""

SLOT = np.dtype([("row", "i8"), ("kind", "i8"), ("waiting", "i8")])
"""A visible job, and the number of waiting jobs of its kind."""

OPTION = np.dtype([("start_s", "f8"), ("end_s", "f8"), ("extra_j", "f8"), ("delay_s", "f8")])

COSTS = np.dtype(
    [
        ("price_w", "f8"),
        ("least_j", "f8"),
        ("second_j", "f8"),
        ("now_j", "f8"),  # least cost of the options that start now
        ("until_s", "f8"),
        ("most", "f4"),  # of the column `LEAST` of all pairs
    ]
)
"""The costs of the options of a job under one weight."""

EPISODE = np.dtype(
    [
        ("changes", "i8"),  # entries of `State.changes` that the forecast has
        ("rests", "i8"),  # whether no further round follows until the next event
        ("waits_since_s", "f8"),  # infinity: it does not wait
        ("committed_j", "f8"),
        ("cost", "f8"),  # predicted objective
        ("kind", "i8"),  # of the job that was placed; -1: none
        ("slots", "i8"),  # visible jobs
        ("is_over", "i8"),  # whether all jobs are over
    ]
)


class PairingCode(NamedTuple):
    """The settings of an agent, see `Pairing`.

    Attributes:
        foresees: whether it sees the forecast.
        settles: whether the energy is integrated at each step.
        wait_s: infinity: it decides only at events.
        idle_w: power of the idle cluster, W.
        start_s: begin of the simulation, s.
        largest_cores: cores of the largest node.
        most_static_w, most_dynamic_w: of a node.
    """

    foresees: bool
    settles: bool
    window_jobs: int
    one_per_event: bool
    wait: bool
    wait_s: float
    most_wait_s: float
    is_edp: bool
    time_s: float
    energy_j: float
    idle_w: float
    largest_cores: int
    most_static_w: float
    most_dynamic_w: float


class Cluster(NamedTuple):
    """What does not change: a `GROUP` for each node group, a `NODE` for each node."""

    groups: Records
    nodes: Records


class Forecasts(NamedTuple):
    """Forecasts of many simulations; the first axis of each array is that of the simulations.

    Attributes:
        sites: a `SITE` for each node.
        shares: a `SHARE` for each core.
        kinds: int64, the kind of each job.
        slots: a `SLOT` for each visible job.
    """

    sites: Records
    shares: Records
    kinds: Ints
    slots: Records


class Space(NamedTuple):
    """Space of a thread.

    Attributes:
        work: a `SHARE` for each core of the largest node, and one more.
        options: an `OPTION` for each node.
        nodes: int64[nodes], the distinct nodes.
        slots: int64[kinds], the slot of each kind.
        costs: a `COSTS` for each weight.
        costs_j: float64[nodes, weights].
    """

    work: Records
    options: Records
    nodes: Ints
    slots: Ints
    costs: Records
    costs_j: NDArray[np.float64]


class Steps(NamedTuple):
    """What the agents see; it is written anew at each step.

    Attributes:
        rows: float32[simulations, actions, columns].
        mask: int8[simulations, actions], 1: the action is allowed.
    """

    rows: Rows
    mask: NDArray[np.int8]


class Round(NamedTuple):
    """One of the simulations, with all that a round of its agent needs.

    Attributes:
        own: the processors of the state.
        cluster, space, code: see `play`.
        sites, shares, kinds, slots: see `Forecasts`.
        episode: its `EPISODE`.
        rows, mask: see `Steps`.
    """

    state: State
    own: Processors
    cluster: Cluster
    sites: Records
    shares: Records
    kinds: Ints
    slots: Records
    episode: Any
    space: Space
    code: PairingCode
    rows: Rows
    mask: NDArray[np.int8]


USES = (forecast_features, policy, site)
"""Modules whose constants are compiled."""


@entry_with(*USES)
def play(
    states: State,
    cluster: Cluster,
    forecasts: Forecasts,
    episodes: Records,
    space: Space,
    code: PairingCode,
    steps: Steps,
    actions: Ints,
) -> None:
    """Carry out an action in each simulation, and simulate to the next choices.

    Args:
        states: the simulations, with processors; each array has one more axis, the first.
        episodes: an `EPISODE` for each.
        actions: int64[simulations], allowed actions, `LEAVE` or `BEGIN`.
    """
    for place in range(len(actions)):
        if actions[place] != LEAVE:
            state = state_at(states, place)
            run = Round(
                state,
                state.processors,  # type: ignore[arg-type]
                cluster,
                forecasts.sites[place],
                forecasts.shares[place],
                forecasts.kinds[place],
                forecasts.slots[place],
                episodes[place],
                space,
                code,
                steps.rows[place],
                steps.mask[place],
            )
            _play(run, actions[place])


@compiled
def _play(run: Round, action: int) -> None:
    mask, code = run.mask, run.code
    for row in range(len(mask)):
        if mask[row]:
            mask[row] = 0
            for column in range(run.rows.shape[1]):
                run.rows[row, column] = 0.0
    run.episode.kind = -1
    if action == len(mask) - 1:
        _wait(run.state.g[0], run.episode, code)
    elif action != BEGIN:
        slot, node = divmod(action, len(run.sites))
        _take(run, run.slots[slot].row, node)
    _advance(run)
    if run.episode.is_over or code.settles:
        settle_all(run.state)
    if code.foresees:
        _predict(run)


@compiled
def _wait(g: Any, episode: Any, code: PairingCode) -> None:
    episode.rests = 1
    if episode.waits_since_s == np.inf:
        episode.waits_since_s = g.now_s
    until_s = min(episode.waits_since_s + code.most_wait_s, g.now_s + code.wait_s)
    if until_s > g.now_s:
        g.alarm_s = until_s


@compiled_apart
def _take(run: Round, row: int, node: int) -> None:
    """Start a job on a node."""
    state, episode, kind = run.state, run.episode, run.kinds[row]
    g, job, site_ = state.g[0], state.jobs[row], run.sites[node]
    if run.code.foresees:
        _option(run, row, node, run.space.options[0])
        episode.committed_j += run.space.options[0].extra_j
        _go_on(run, node)
    share = run.shares[run.cluster.nodes[node].first + site_.shares]
    site_.shares += 1
    alone_s = _alone_s(run, row, node)
    share.row, share.kind, share.cores, share.mbps = row, kind, job.cores, _mbps(run, row, alone_s)
    share.alone_s, share.left_s, share.end_s = alone_s, alone_s, np.inf
    if run.code.foresees:
        _look_ahead(run, node)
    state.places[g.places].node, state.places[g.places].tasks = node, job.cores
    begin(state, row, 1)
    episode.kind, episode.rests = kind, int(run.code.one_per_event)
    episode.waits_since_s = g.alarm_s = np.inf


@compiled_apart
def _advance(run: Round) -> None:
    """Simulate until the next choice or the end."""
    state, episode, code = run.state, run.episode, run.code
    g = state.g[0]
    while True:
        if episode.rests == 0 and g.queued > 0:
            may_wait = code.wait and (g.running > 0 or g.submitted < g.jobs)
            if episode.waits_since_s < np.inf:
                may_wait = may_wait and g.now_s < episode.waits_since_s + code.most_wait_s
            found = _foresee(run, may_wait) if code.foresees else _show(run, may_wait)
            if found:
                return
        is_woken = False
        while not is_woken and g.over < g.jobs:
            is_woken = next_instant(state, False)
        if g.alarm_s <= g.now_s:
            g.alarm_s = np.inf
        _follow(run)
        if g.over == g.jobs:
            episode.is_over = 1
            run.mask[len(run.mask) - 1] = 1
            return
        episode.rests = 0


@compiled_apart
def _follow(run: Round) -> None:
    """Apply the ends of jobs to the forecast; see `Forecast.follow`."""
    state, shares = run.state, run.shares
    g = state.g[0]
    for change in range(run.episode.changes, g.changes):
        if state.changes[change] >= 0:
            continue
        period = state.periods[~state.changes[change]]
        node = state.places[period.first_place].node
        if run.code.foresees:
            _go_on(run, node)
        site_, first = run.sites[node], run.cluster.nodes[node].first
        place = first
        while shares[place].row != period.row:
            place += 1
        site_.shares -= 1
        for following in range(place, first + site_.shares):
            shares[following] = shares[following + 1]
        if run.code.foresees:
            _look_ahead(run, node)
    run.episode.changes = g.changes
    if not run.code.foresees:
        return
    for node in range(len(run.sites)):
        first, is_late = run.cluster.nodes[node].first, False
        for place in range(first, first + run.sites[node].shares):
            is_late = is_late or shares[place].end_s < g.now_s
        if is_late:
            _go_on(run, node)
            _look_ahead(run, node)


# The features of the papers.


@compiled_apart
def _show(run: Round, may_wait: bool) -> bool:
    """Write the rows of the allowed actions; return whether there are any. See `PaperFeatures`."""
    state, code = run.state, run.code
    g, nodes, found = state.g[0], len(state.free), False
    at, run.episode.slots = g.first, min(g.queued, code.window_jobs)
    for slot in range(run.episode.slots):
        row = state.queue[at]
        job = state.jobs[row]
        run.slots[slot].row = row
        wait = _share_of(g.now_s - job.submit_s, code.time_s)
        requested = _share_of(job.requested_s, code.time_s)
        submitted = _share_of(max(job.submit_s - state.jobs[0].submit_s, 0.0), code.time_s)
        for node in range(nodes):
            if state.free[node] < job.cores:
                continue
            found = True
            action = slot * nodes + node
            run.mask[action] = 1
            seen, group = run.rows[action], _group(run, node)
            busy, capacity = state.nodes[node].busy, state.nodes[node].capacity
            seen[0], seen[1], seen[2] = wait, requested, submitted
            seen[3] = job.cores / code.largest_cores
            seen[4] = state.free[node] / capacity
            seen[5] = run.cluster.nodes[node].speed
            seen[6] = 1.0
            if len(seen) > WITHOUT_ENERGY:
                static_w = group.static_w if busy > 0 else group.idle_w
                seen[7] = static_w / code.most_static_w
                seen[8] = busy * group.dynamic_w / code.most_dynamic_w
                shared_w = group.static_w / (run.sites[node].shares + 1.0)
                estimate_j = (
                    job.requested_s * group.slowness * (shared_w + job.cores * group.dynamic_w)
                )
                seen[9] = _share_of(estimate_j, code.energy_j)
        at = next_place(state, at + 1, ANY)
    if found and may_wait:
        run.mask[len(run.mask) - 1] = 1
    return found


@compiled
def _share_of(value: float, scale: float) -> float:
    value = max(value, 0.0)
    return value / (value + scale)


# The features of the forecast.


@compiled_apart
def _foresee(run: Round, may_wait: bool) -> bool:
    """Write the rows of the allowed actions; return whether there are any.

    See `ForecastFeatures`.
    """
    state, slots, code, costs = run.state, run.slots, run.code, run.space.costs
    g = state.g[0]
    count = _fill_slots(run)
    run.episode.slots = count
    distinct = _find_distinct(run)
    fits = False
    for slot in range(count):
        for place in range(distinct):
            fits = fits or state.free[run.space.nodes[place]] >= state.jobs[slots[slot].row].cores
    if not fits:
        return False
    horizon_s = _horizon_s(run)
    price_w = code.idle_w
    if code.is_edp:
        span_s = max(horizon_s - state.jobs[0].submit_s, 1e-9)
        price_w += code.idle_w + run.episode.committed_j / span_s
    for weight in range(len(WEIGHTS)):
        is_last = g.submitted == g.jobs
        costs[weight].price_w = price_w * (1.0 if is_last else WEIGHTS[weight])
        costs[weight].most = -np.inf
    for slot in range(count):
        row = slots[slot].row
        least_end_s = _weigh(run, row, distinct, horizon_s)
        for place in range(distinct):
            node = run.space.nodes[place]
            if state.free[node] >= state.jobs[row].cores:
                action = slot * len(state.free) + node
                run.mask[action] = 1
                _show_job(state, slots[slot], code, run.rows[action])
                _show_node(run, node, run.rows[action])
                _show_pair(run, row, place, horizon_s, least_end_s, run.rows[action])
    if may_wait:
        wait = len(run.mask) - 1
        run.mask[wait] = 1
        run.rows[wait, WAITS] = 1.0
        for weight in range(len(WEIGHTS)):
            run.rows[wait, FIRST_WEIGHT + PER_WEIGHT * weight + LEAST] = costs[weight].most
    _show_all(run)
    return True


@compiled_apart
def _fill_slots(run: Round) -> int:
    """Write the first waiting job of each visible kind; return their number."""
    state, slots, of_kinds = run.state, run.slots, run.space.slots
    count, at = 0, state.g[0].first
    for _ in range(state.g[0].queued):
        row = state.queue[at]
        kind = run.kinds[row]
        slot = of_kinds[kind]
        if slot < count and slots[slot].kind == kind:
            slots[slot].waiting += 1
        elif count < run.code.window_jobs:
            slots[count].row, slots[count].kind, slots[count].waiting = row, kind, 1
            of_kinds[kind] = count
            count += 1
        at = next_place(state, at + 1, ANY)
    return count


@compiled_apart
def _find_distinct(run: Round) -> int:
    """Write the first node of each state; return their number."""
    count, distinct = 0, run.space.nodes
    for node in range(len(run.sites)):
        is_new = True
        for place in range(count):
            is_new = is_new and not _is_same(run, distinct[place], node)
        if is_new:
            distinct[count] = node
            count += 1
    return count


@compiled
def _is_same(run: Round, one: int, other: int) -> bool:
    """Return whether two nodes have the same forecast."""
    a, b, shares, nodes = run.sites[one], run.sites[other], run.shares, run.cluster.nodes
    if nodes[one].group != nodes[other].group or a.shares != b.shares:
        return False
    if a.busy_until_s != b.busy_until_s:
        return False
    first, second = nodes[one].first, nodes[other].first
    for place in range(first, first + a.shares):
        surplus = 0
        for each in range(a.shares):
            surplus += _is_equal(shares[place], shares[first + each])
            surplus -= _is_equal(shares[place], shares[second + each])
        if surplus != 0:
            return False
    return True


@compiled
def _is_equal(one: Any, other: Any) -> bool:
    return bool(one.end_s == other.end_s and one.kind == other.kind)


@compiled
def _horizon_s(run: Round) -> float:
    horizon_s = run.state.g[0].now_s
    for node in range(len(run.sites)):
        horizon_s = max(horizon_s, run.sites[node].busy_until_s)
    return float(horizon_s)


@compiled_apart
def _weigh(run: Round, row: int, distinct: int, horizon_s: float) -> float:
    """Write the options of a job and their costs; return the earliest end."""
    state, space = run.state, run.space
    job, now_s, least_end_s = state.jobs[row], state.g[0].now_s, np.inf
    for weight in range(len(WEIGHTS)):
        costs = space.costs[weight]
        costs.least_j = costs.second_j = costs.now_j = costs.until_s = np.inf
    for place in range(distinct):
        node, option = space.nodes[place], space.options[place]
        if job.cores > state.nodes[node].capacity:
            continue
        _option(run, row, node, option)
        least_end_s = min(least_end_s, option.end_s)
        later_s = max(option.end_s - horizon_s, 0.0)
        for weight in range(len(WEIGHTS)):
            costs = space.costs[weight]
            cost_j = max(option.extra_j + later_s * costs.price_w, 1e-9)
            space.costs_j[place, weight] = cost_j
            if cost_j < costs.least_j:
                costs.second_j, costs.least_j = costs.least_j, cost_j
                costs.until_s = option.start_s - now_s
            elif cost_j < costs.second_j:
                costs.second_j = cost_j
            if state.free[node] >= job.cores:
                costs.now_j = min(costs.now_j, cost_j)
    if distinct == 1:
        for weight in range(len(WEIGHTS)):
            space.costs[weight].second_j = space.costs[weight].least_j
    return least_end_s


@compiled
def _show_job(state: State, slot: Any, code: PairingCode, seen: Any) -> None:
    job = state.jobs[slot.row]
    seen[0] = _share_of(state.g[0].now_s - job.submit_s, code.time_s)
    seen[1] = _share_of(job.requested_s, code.time_s)
    seen[2] = job.cores / code.largest_cores
    seen[3] = slot.waiting / (slot.waiting + JOBS_OF_A_KIND)


@compiled
def _show_node(run: Round, node: int, seen: Any) -> None:
    about, site_, requested_mbps = run.cluster.nodes[node], run.sites[node], 0.0
    for place in range(about.first, about.first + site_.shares):
        requested_mbps += run.shares[place].cores * run.shares[place].mbps
    seen[4], seen[5], seen[6] = about.speed, about.static, about.dynamic
    seen[7] = run.state.free[node] / run.state.nodes[node].capacity
    seen[8] = 1.0 if site_.shares > 0 else 0.0
    seen[9] = requested_mbps / (requested_mbps + MBPS)
    seen[NODE_CORES] = about.cores


@compiled_apart
def _show_pair(
    run: Round, row: int, place: int, horizon_s: float, least_end_s: float, seen: Any
) -> None:
    option, time_s, energy_j = run.space.options[place], run.code.time_s, run.code.energy_j
    run_s = option.end_s - option.start_s
    seen[10] = _share_of(run_s, time_s)
    seen[11] = min(_alone_s(run, row, run.space.nodes[place]) / max(run_s, 1e-12), 1.0)
    seen[12] = _share_of(option.delay_s, time_s)
    seen[13] = _share_of(option.extra_j, energy_j)
    seen[14] = _share_of(option.end_s - horizon_s, time_s)
    seen[15] = _share_of(horizon_s - option.end_s, time_s)
    seen[16] = _share_of(option.end_s - least_end_s, time_s)
    for weight in range(len(WEIGHTS)):
        costs, cost_j = run.space.costs[weight], run.space.costs_j[place, weight]
        first = FIRST_WEIGHT + PER_WEIGHT * weight
        seen[first + COST] = _share_of(cost_j, energy_j)
        seen[first + LEAST] = costs.least_j / cost_j
        seen[first + UNTIL] = _share_of(costs.until_s, time_s)
        seen[first + SECOND] = costs.least_j / costs.second_j
        seen[first + NOW] = costs.now_j / cost_j
        costs.most = max(costs.most, seen[first + LEAST])


@compiled_apart
def _show_all(run: Round) -> None:
    """Write the columns that are equal in all rows."""
    g, rows, idle, first_s, last_s = run.state.g[0], run.rows, 0, np.inf, -np.inf
    for node in range(len(run.sites)):
        idle += run.sites[node].shares == 0
        first = run.cluster.nodes[node].first
        for place in range(first, first + run.sites[node].shares):
            first_s = min(first_s, run.shares[place].end_s)
            last_s = max(last_s, run.shares[place].end_s)
    last = next_ = 0.0
    if last_s > -np.inf:
        last = _share_of(last_s - g.now_s, run.code.time_s)
        next_ = _share_of(first_s - g.now_s, run.code.time_s)
    for row in range(len(run.mask)):
        if run.mask[row]:
            rows[row, 17] = g.free_cores / g.cores
            rows[row, 18] = idle / len(run.sites)
            rows[row, 19], rows[row, 20] = last, next_
            rows[row, 21] = g.queued / (g.queued + JOBS)
            rows[row, 22] = 1.0 if g.submitted == g.jobs else 0.0


@compiled
def _predict(run: Round) -> None:
    """Set the predicted objective."""
    span_s = _horizon_s(run) - run.state.jobs[0].submit_s
    foreseen_j = run.episode.committed_j + run.code.idle_w * span_s
    run.episode.cost = foreseen_j * (span_s if run.code.is_edp else 1.0)


# The forecast of a node, as `ForecastNode`.


@compiled
def _group(run: Round, node: int) -> Any:
    """Return the `GROUP` of a node."""
    return run.cluster.groups[run.cluster.nodes[node].group]


@compiled
def _alone_s(run: Round, row: int, node: int) -> float:
    """Return the requested time of a job alone on a node, s."""
    alone_s: float = run.state.jobs[row].requested_s * _group(run, node).slowness
    return alone_s


@compiled
def _mbps(run: Round, row: int, alone_s: float) -> float:
    """Return the memory bandwidth of each task of a job that takes `alone_s` without others."""
    mbps: float = run.own.needs[row].memory_volume_mb / alone_s if alone_s != 0.0 else 0.0
    return mbps


@compiled
def _run_to(run: Round, node: int, until_s: float) -> None:
    """Simulate the jobs of a node, in the space for work."""
    site_, first, work = run.sites[node], run.cluster.nodes[node].first, run.space.work
    for place in range(site_.shares):
        share = run.shares[first + place]
        work[place].cores, work[place].mbps = share.cores, share.mbps
        work[place].left_s = share.left_s
    _run_on(_group(run, node), site_.since_s, work, site_.shares, until_s)


@compiled_apart
def _go_on(run: Round, node: int) -> None:
    """Advance the tasks."""
    site_, first, now_s = run.sites[node], run.cluster.nodes[node].first, run.state.g[0].now_s
    _run_to(run, node, now_s)
    for place in range(site_.shares):
        share, left_s = run.shares[first + place], run.space.work[place].left_s
        share.left_s = left_s if left_s != 0.0 else LATE * share.alone_s
    site_.since_s = now_s


@compiled_apart
def _look_ahead(run: Round, node: int) -> None:
    """Forecast the ends."""
    site_, first, work = run.sites[node], run.cluster.nodes[node].first, run.space.work
    _run_to(run, node, np.inf)
    site_.busy_until_s = -np.inf
    for place in range(site_.shares):
        run.shares[first + place].end_s = work[place].end_s
        site_.busy_until_s = max(site_.busy_until_s, work[place].end_s)


@compiled_apart
def _option(run: Round, row: int, node: int, option: Any) -> None:
    """Write the option of a job on a node that is not smaller."""
    site_, first, group = run.sites[node], run.cluster.nodes[node].first, _group(run, node)
    cores, work, shares = run.state.jobs[row].cores, run.space.work, run.shares
    start_s = _start_s(run, cores, node)
    _run_to(run, node, start_s)
    there = 0
    for place in range(site_.shares):
        share = shares[first + place]
        if work[place].left_s > 0.0 and share.end_s > start_s:
            work[there].cores, work[there].mbps = share.cores, share.mbps
            work[there].left_s = work[place].left_s
            work[there].row = first + place
            there += 1
    alone_s, own = _alone_s(run, row, node), work[there]
    own.cores, own.mbps, own.left_s = cores, _mbps(run, row, alone_s), alone_s
    _run_on(group, start_s, work, there + 1, np.inf)
    end_s = last_s = own.end_s
    core_s, delay_s = cores * (end_s - start_s), 0.0
    for place in range(there):
        later_s = work[place].end_s - shares[work[place].row].end_s
        core_s += work[place].cores * later_s
        delay_s += later_s
        last_s = max(last_s, work[place].end_s)
    busy_s = last_s - max(site_.busy_until_s, start_s)
    option.start_s, option.end_s = start_s, end_s
    option.extra_j = group.computing_w * max(busy_s, 0.0) + group.core_w * core_s
    option.delay_s = max(delay_s, 0.0)


@compiled
def _start_s(run: Round, cores: int, node: int) -> float:
    """Return when a number of cores of a node is free by the forecast."""
    first, free = run.cluster.nodes[node].first, run.state.free[node]
    last_s, last, now_s = -np.inf, -1, float(run.state.g[0].now_s)
    while cores > free:
        found, found_s = -1, np.inf
        for place in range(first, first + run.sites[node].shares):
            end_s = run.shares[place].end_s
            is_after = end_s > last_s or (end_s == last_s and place > last)
            if is_after and (found < 0 or end_s < found_s):
                found, found_s = place, end_s
        if found < 0:
            return now_s
        free += run.shares[found].cores
        last_s, last = found_s, found
    return max(last_s, now_s)


@compiled_apart
def _run_on(group: Any, now_s: float, work: Records, count: int, until_s: float) -> None:
    """Simulate jobs that share a processor; see `run_on`."""
    going = 0
    for place in range(count):
        is_going = work[place].left_s > 0.0
        going += is_going
        work[place].end_s = np.inf if is_going else now_s
    while going > 0 and now_s < until_s:
        step_s, total_mbps, tasks = until_s - now_s, 0.0, 0
        for place in range(count):
            if work[place].left_s > 0.0:
                total_mbps += work[place].cores * work[place].mbps
                tasks += work[place].cores
        if not group.contends or total_mbps < group.c_mbps:
            for place in range(count):
                left_s = work[place].left_s
                if left_s > step_s:
                    work[place].left_s = left_s - step_s
                elif left_s > 0.0:
                    work[place].end_s, work[place].left_s = now_s + left_s, 0.0
            return
        for place in range(count):
            if work[place].left_s > 0.0:
                speed = speed_on(group, total_mbps, work[place].mbps, tasks)
                work[place].speed = speed
                step_s = min(step_s, work[place].left_s / speed)
        now_s += step_s
        for place in range(count):
            if work[place].left_s > 0.0:
                left_s = work[place].left_s - work[place].speed * step_s
                if left_s <= 1e-9 * now_s:
                    left_s, work[place].end_s = 0.0, now_s
                work[place].left_s = left_s
                going -= not left_s > 0.0
