"""The rounds of batch agents in many simulations: choose a job, simulate to the next choice.

As `hpcosim_schedulers.agents.batch.scene.BatchRounds`, with the costs of
`hpcosim_gym.environments.batch_task.JobCost`. All floating-point operations are theirs, in the same
order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcosim_compiled.batches import state_at
from hpcosim_compiled.cluster import start
from hpcosim_compiled.compiler import compiled, entry
from hpcosim_compiled.easy import backfill_behind, some_fits
from hpcosim_compiled.energy import settle_all
from hpcosim_compiled.loop import next_instant
from hpcosim_compiled.profile import need_of
from hpcosim_compiled.state import CORES, LEAVE, REJECTED, Ints, Records, State
from hpcosim_compiled.sums import pairwise_sum
from hpcosim_compiled.waiting import ANY, next_place
from hpcosim_schedulers.agents.batch import scene
from hpcosim_schedulers.agents.batch.scene import (
    AHEAD_S,
    CLUSTER_COLUMNS,
    CORES_BESIDE,
    DAY_S,
    FITS,
    LONG_WAIT,
    PLACE,
    SATURATION_JOBS,
    WAIT_SHARE,
)
from hpcosim_sim.record.metrics import BOUND_S

COSTS = ("wait", "bounded_slowdown", "energy")
WAIT_COST, ENERGY = COSTS.index("wait"), COSTS.index("energy")

EPISODE = np.dtype(
    [
        ("first", "i8"),  # its first job in the workload
        ("choices", "i8"),  # visible jobs; 0: all jobs are over
        ("head", "i8"),  # row of the job that did not fit; -1: none
        ("is_charged", "?"),  # whether `cost` is that of this instant
        ("cost", "f8"),  # cost so far, unless it is the energy
        ("settled", "i8"),  # jobs before this row do not wait any more
        ("settled_cost", "f8"),  # sum of their costs
        ("mean_wait_s", "f8"),  # at the end
        ("mean_bounded_slowdown", "f8"),  # at the end
    ],
    align=True,
)

_long_wait, _wait_share = compiled(scene.long_wait), compiled(scene.wait_share)
_scaled_time, _saturated = compiled(scene.scaled_time), compiled(scene.saturated)

_COLUMNS = len(CLUSTER_COLUMNS)
_AHEAD = _COLUMNS - len(AHEAD_S)


@entry
def play(
    states: State,
    episodes: Records,
    fixed: NDArray[np.float32],
    cost: int,
    window_jobs: int,
    seen: NDArray[np.float32],
    times_s: NDArray[np.float64],
    actions: Ints,
) -> None:
    """Choose a job in each simulation, and simulate to the next choices.

    Args:
        states: the simulations; each array has one more axis, the first.
        episodes: an `EPISODE` for each.
        fixed: float32[jobs of the workload, 4]; see `scene.fixed_columns`.
        cost: index into `COSTS`.
        window_jobs: number of visible jobs.
        seen: float32[simulations, values]; gets the observations as by `scene.flat`, without the
            columns of `times_s`; zeros after the end and for `LEAVE`.
        times_s: float64[simulations, 2, window_jobs]; gets waits and times to the earliest starts,
            s, or zeros.
        actions: places of the chosen jobs, `LEAVE` or `BEGIN`.
    """
    seen[:] = 0.0
    times_s[:] = 0.0
    for place in range(len(actions)):
        if actions[place] == LEAVE:
            continue
        state, episode = state_at(states, place), episodes[place]
        row = -1
        if actions[place] >= 0:
            at = state.g[0].first
            for _ in range(actions[place]):
                at = next_place(state, at + 1, ANY)
            row = state.queue[at]
        _advance(state, episode, window_jobs, row)
        if episode.choices == 0 or (cost == ENERGY and actions[place] >= 0):  # not at the begin
            settle_all(state)
        if episode.choices == 0:
            _note_means(state, episode)
        if actions[place] >= 0 and cost != ENERGY and not episode.is_charged:
            episode.is_charged = True
            _charge(state, episode, cost)
        if episode.choices > 0:
            _observe(state, episode, fixed, window_jobs, seen[place], times_s[place])


@compiled
def _advance(state: State, episode: Any, window_jobs: int, row: int) -> None:
    """Choose a job (row >= 0), and simulate until the next choice or the end."""
    g = state.g[0]
    while True:
        if row >= 0 and not start(state, row):
            episode.head = row
            if g.queued > 1:
                backfill_behind(state, state.ahead, row)
        row = -1
        if episode.head < 0 and some_fits(state):
            if g.queued > 1:
                episode.choices = min(g.queued, window_jobs)
                return
            row = state.queue[g.first]
            continue
        is_woken = False
        while not is_woken and g.over < g.jobs:
            is_woken = next_instant(state, False)
            episode.is_charged = False
        if not is_woken:
            episode.choices = 0
            return
        episode.head = -1


# The cost.


@compiled
def _cost_of(cost: int, wait_s: float, run_s: float) -> float:
    if cost == WAIT_COST:
        return wait_s
    return max(1.0, (wait_s + run_s) / max(run_s, BOUND_S))


@compiled
def _charge(state: State, episode: Any, cost: int) -> None:
    """Set the cost of the jobs that were submitted."""
    g, jobs, costs = state.g[0], state.jobs, state.keys
    if g.over == g.jobs:
        episode.cost = episode.mean_bounded_slowdown
        if cost == WAIT_COST:
            episode.cost = episode.mean_wait_s
        return
    first, settled = episode.settled, -1
    count = g.submitted - first
    for place in range(count):
        job = jobs[first + place]
        left_s = job.start_s
        if job.state == REJECTED:
            left_s = job.end_s
        elif not left_s < g.now_s:  # the reference starts the jobs of this instant later
            left_s = g.now_s
            if settled < 0:
                settled = place
        costs[place] = _cost_of(cost, left_s - job.submit_s, job.run_s)
    if settled < 0:
        settled = count
    episode.cost = (episode.settled_cost + pairwise_sum(costs, 0, count, state.lows)) / g.jobs
    episode.settled_cost += pairwise_sum(costs, 0, settled, state.lows)
    episode.settled += settled


@compiled
def _note_means(state: State, episode: Any) -> None:
    """Set the mean wait and bounded slowdown of the jobs that ran."""
    episode.mean_wait_s = _mean(state, WAIT_COST)
    episode.mean_bounded_slowdown = _mean(state, WAIT_COST + 1)


@compiled
def _mean(state: State, cost: int) -> float:
    count = 0
    for row in range(state.g[0].jobs):
        job = state.jobs[row]
        if job.state != REJECTED:
            wait_s = job.start_s - job.submit_s
            state.keys[count] = _cost_of(cost, wait_s, job.end_s - job.start_s)
            count += 1
    if count == 0:
        return 0.0
    return pairwise_sum(state.keys, 0, count, state.lows) / count


# The observation.


@compiled
def _observe(
    state: State,
    episode: Any,
    fixed: NDArray[np.float32],
    window_jobs: int,
    seen: NDArray[np.float32],
    times_s: NDArray[np.float64],
) -> None:
    g, jobs, steps, keys = state.g[0], state.jobs, state.profile, state.keys
    cores = float(g.cores)
    last = _releases(state) - 1
    count, queued = episode.choices, g.first
    for place in range(count):
        row = state.queue[queued]
        job = jobs[row]
        wait_s, low, high = g.now_s - job.submit_s, 0, last
        while low < high:
            middle = (low + high) // 2
            if steps[middle].number < job.cores:
                low = middle + 1
            else:
                high = middle
        times_s[0, place] = keys[place] = wait_s
        times_s[1, place] = steps[low].at_s - g.now_s
        at = _COLUMNS + place
        seen[at] = 1.0
        at += window_jobs  # from here on the columns of a job
        for column in range(fixed.shape[1]):
            seen[at + column * window_jobs] = fixed[episode.first + row, column]
        seen[at + LONG_WAIT * window_jobs] = _long_wait(wait_s)
        seen[at + WAIT_SHARE * window_jobs] = _wait_share(wait_s, job.requested_s)
        seen[at + FITS * window_jobs] = 1.0 if job.cores <= g.free_cores else 0.0
        beside = float(max(steps[low].number - job.cores, 0))
        seen[at + CORES_BESIDE * window_jobs] = beside / cores
        seen[at + PLACE * window_jobs] = place / count
        queued = next_place(state, queued + 1, ANY)
    mean_wait_s = pairwise_sum(keys, 0, count, state.lows) / count
    queued = g.first
    for place in range(count):
        job = jobs[state.queue[queued]]
        keys[place] = job.requested_s * job.cores
        queued = next_place(state, queued + 1, ANY)
    work = pairwise_sum(keys, 0, count, state.lows) / (cores * DAY_S)
    seen[0] = g.free_cores / cores
    seen[1] = _saturated(float(g.queued), SATURATION_JOBS)
    seen[2] = _saturated(work, 1.0)
    seen[3] = _scaled_time(mean_wait_s)
    step = 0
    for ahead in range(len(AHEAD_S)):
        while step < last and steps[step + 1].at_s <= g.now_s + AHEAD_S[ahead]:
            step += 1
        seen[_AHEAD + ahead] = steps[step].number / cores


@compiled
def _releases(state: State) -> int:
    """Write when cores become free by requested times to the profile; return the number of times.

    The number of each time is that of the cores free then.
    """
    g, steps, due = state.g[0], state.profile, state.due
    free, count = g.free_cores, 1
    steps[0].at_s, steps[0].number = g.now_s, free
    for entry_ in range(g.running):
        row = due[entry_].number
        held = need_of(state, row)
        if state.jobs[row].placement != CORES:
            held *= state.nodes[0].capacity
        free += held
        if due[entry_].at_s > steps[count - 1].at_s:
            steps[count].at_s = due[entry_].at_s
            count += 1
        steps[count - 1].number = free
    return count
