"""`StepRuns` whose runs advance in compiled code, one after the other, with the same numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints
from hpcosim_compiled.compiler import compiled_apart, entry_with, load_part
from hpcosim_compiled.state import TIMED, Records, records
from hpcosim_compiled.sums import pairwise_sum
from hpcosim_papers.deep_eas.agent import network, step_jobs, step_runs
from hpcosim_papers.deep_eas.agent.network import NEVER, WINDOWS, Scene
from hpcosim_papers.deep_eas.agent.step_jobs import Counts, Machines, StepJobs
from hpcosim_papers.deep_eas.agent.step_runs import (
    FAR_FUTURE,
    UNSET,
    CostRates,
    Moment,
    StepRuns,
)

USES = (network, step_jobs, step_runs)
"""Modules whose constants are compiled."""


class Arrays(NamedTuple):
    """The arrays of `StepRuns`, without the first underscore.

    Attributes:
        most_cores: cores of each machine.
        newest: number of slots for the last submitted jobs.
        sees_queue: whether the observation has figures of the whole queue.
        plan: int64[rows], zeros: space for the plan of a machine.
    """

    jobs: StepJobs
    now: Ints
    done: NDArray[np.bool_]
    machine: Ints
    bound: Ints
    start: Ints
    turn: Ints
    turns: Ints
    idle: Ints
    slots: Ints
    least: Counts
    by_length: Ints
    scene: Scene
    most_cores: int
    newest: int
    sees_queue: bool
    plan: Ints


class CompiledStepRuns(StepRuns):
    """Runs that advance in compiled code; see `StepRuns`.

    Attributes:
        arrays: the state, for compiled code.

    Raises:
        Exception: Numba cannot compile it on this machine.
    """

    def __init__(self, machines: Machines, jobs: StepJobs) -> None:
        super().__init__(machines, jobs)
        settings = machines.settings
        longest = int(jobs.expected.max(initial=1))
        rows = 2 * settings.horizon + (jobs.submit.shape[1] + 1) * longest
        self.arrays = Arrays(
            jobs,
            self.now,
            self.done,
            self.machine,
            self.bound,
            self.start,
            self._turn,
            self._turns,
            self._idle,
            self._slots,
            self._least,
            self._by_length,
            self.scene,
            settings.cores,
            settings.newest,
            settings.sees == "queue",
            np.zeros(rows, np.int64),
        )
        nothing = np.zeros(0, np.int64)
        load_part("step runs", lambda: take(self.arrays, nothing, nothing), *USES)

    @classmethod
    def resumed(cls, machines: Machines, moment: Moment) -> StepRuns:
        """Return runs that go on from a moment, without compiled code."""
        return StepRuns.resumed(machines, moment)

    def take(self, runs: Ints, actions: Ints) -> None:
        """See `StepRuns.take`."""
        take(self.arrays, runs, actions)

    def accrued_cost(self, rates: CostRates, selected: Ints, steps: Ints) -> Floats:
        """See `step_runs.accrued_cost`."""
        found = np.zeros(len(selected))
        costs, stack = np.zeros(self.bound.shape[1]), records(TIMED, 64)
        sum_costs(self.arrays, rates, selected, steps, costs, stack, found)
        return found


@entry_with(*USES)
def take(arrays: Arrays, runs: Ints, actions: Ints) -> None:
    """Execute an action in the selected runs, and advance them to their next decisions."""
    for place in range(len(runs)):
        take_action(arrays, runs[place], actions[place])


@compiled_apart
def take_action(arrays: Arrays, run: int, action: int) -> None:
    """Execute an action in a run, and advance it to its next decision; see `StepRuns.take`."""
    scene = arrays.scene
    machines, queue = scene.rows.shape[1], scene.rows.shape[2]
    if arrays.now[run] - arrays.idle[run] >= scene.used.shape[2]:
        action = _esjf_action(scene, run)
    machine, slot = divmod(action, queue)
    if machine < machines and scene.rows[run, machine, slot] != NEVER:
        _bind(arrays, run, machine, slot)
        _update_scene(arrays, run)
        if _some_fit(scene, run):
            return
    elif _is_idle(scene, run):
        arrays.idle[run] = min(arrays.idle[run], arrays.now[run])
    _advance(arrays, run)


@compiled_apart
def _esjf_action(scene: Scene, run: int) -> int:
    """Return the action of energy-aware shortest job first; see `step_runs.esjf_actions`."""
    machines, queue = scene.rows.shape[1], scene.rows.shape[2]
    action, best = machines * queue, np.inf
    for slot in range(queue):
        shortest = scene.steps[run, 0, slot]
        for machine in range(machines):
            shortest = min(shortest, scene.steps[run, machine, slot])
        least = max(float(shortest), 1.0)
        for machine in range(machines):
            steps, row = float(scene.steps[run, machine, slot]), scene.rows[run, machine, slot]
            energy = float(scene.cores[run, slot]) * scene.watts[machine] * steps / least
            value = energy * (float(scene.waited[run, slot] + row) + steps) / least
            if row != NEVER and value < best:
                action, best = machine * queue + slot, value
    return int(action)


@compiled_apart
def _is_idle(scene: Scene, run: int) -> bool:
    for machine in range(scene.used.shape[1]):
        for row in range(scene.used.shape[2]):
            if scene.used[run, machine, row] != 0:
                return False
    return True


@compiled_apart
def _some_fit(scene: Scene, run: int) -> bool:
    for machine in range(scene.rows.shape[1]):
        for slot in range(scene.rows.shape[2]):
            if scene.rows[run, machine, slot] != NEVER:
                return True
    return False


@compiled_apart
def _bind(arrays: Arrays, run: int, machine: int, slot: int) -> None:
    scene, job, now = arrays.scene, arrays.slots[run, slot], arrays.now[run]
    arrays.machine[run, job], arrays.bound[run, job] = machine, now
    arrays.turn[run, job] = arrays.turns[run]
    arrays.turns[run] += 1
    arrays.idle[run] = FAR_FUTURE
    first = scene.rows[run, machine, slot]
    if first == 0:
        arrays.start[run, job] = now
    cores, last = arrays.jobs.cores[run, job], first + arrays.jobs.expected[run, machine, job]
    for row in range(first, min(last, scene.used.shape[2])):
        scene.used[run, machine, row] += cores


@compiled_apart
def _advance(arrays: Arrays, run: int) -> None:
    """Advance step by step until an action is feasible or the run is done."""
    while True:
        arrays.now[run] += 1
        for machine in range(arrays.scene.used.shape[1]):
            _replan(arrays, run, machine)
        is_done = True
        for job in range(arrays.start.shape[1]):
            is_done = is_done and (
                arrays.start[run, job] != UNSET or not arrays.jobs.valid[run, job]
            )
        if is_done:
            arrays.done[run] = True
            return
        _update_scene(arrays, run)
        if _some_fit(arrays.scene, run):
            return


@compiled_apart
def _first_row(used: Ints, width: int, room: int, steps: int) -> int:
    """Return the first row at which a job fits for all its steps; see `step_runs.first_rows`."""
    row = 0
    while row < width:
        full = row
        while full < width and used[full] <= room and full - row < steps:
            full += 1
        if full - row >= steps:
            return row
        row = full + 1
    return NEVER


@compiled_apart
def _replan(arrays: Arrays, run: int, machine: int) -> None:
    """Rebuild the plan of a machine, and start the bound jobs whose planned start is now."""
    jobs, plan, now, used = arrays.jobs, arrays.plan, arrays.now[run], arrays.scene.used
    horizon, reached, bound = used.shape[2], 0, 0
    for job in range(len(arrays.start[run])):
        if not jobs.valid[run, job] or arrays.machine[run, job] != machine:
            continue
        if arrays.start[run, job] == UNSET:
            bound += 1
            continue
        ran = now - arrays.start[run, job]
        if ran < jobs.actual[run, machine, job]:
            last = min(max(jobs.expected[run, machine, job] - ran, 1), 2 * horizon)
            reached = max(reached, last)
            for row in range(last):
                plan[row] += jobs.cores[run, job]
    last_turn = np.int64(-1)
    for _ in range(bound):
        job, turn = -1, np.int64(FAR_FUTURE)
        for each in range(len(arrays.start[run])):
            each_turn = arrays.turn[run, each]
            is_next = arrays.machine[run, each] == machine and last_turn < each_turn < turn
            if is_next and arrays.start[run, each] == UNSET:
                job, turn = each, each_turn
        last_turn = turn
        steps, cores = jobs.expected[run, machine, job], jobs.cores[run, job]
        first = _first_row(plan, len(plan), arrays.most_cores - cores, steps)
        reached = max(reached, first + steps)
        for row in range(first, first + steps):
            plan[row] += cores
        if first == 0:
            arrays.start[run, job] = now
    for row in range(horizon):
        used[run, machine, row] = plan[row]
    for row in range(reached):
        plan[row] = 0


@compiled_apart
def _update_scene(arrays: Arrays, run: int) -> None:
    """Assign waiting jobs to slots, and update the observation except `used`."""
    scene, jobs, now = arrays.scene, arrays.jobs, arrays.now[run]
    slots, newest = arrays.slots[run], np.int64(UNSET)
    free = 0
    for job in range(len(jobs.submit[run])):
        if jobs.submit[run, job] <= now:
            newest = max(newest, jobs.submit[run, job])
            free += arrays.machine[run, job] == UNSET
    _fill_slots(arrays, run)
    valid = 0
    for slot in range(len(slots)):
        job = slots[slot]
        if job == UNSET:
            scene.cores[run, slot] = scene.waited[run, slot] = 0
            for machine in range(scene.rows.shape[1]):
                scene.steps[run, machine, slot], scene.rows[run, machine, slot] = 0, NEVER
            continue
        valid += 1
        cores = jobs.cores[run, job]
        scene.cores[run, slot], scene.waited[run, slot] = cores, now - jobs.submit[run, job]
        for machine in range(scene.rows.shape[1]):
            steps, used = jobs.expected[run, machine, job], scene.used[run, machine]
            scene.steps[run, machine, slot] = steps
            first = _first_row(used, len(used), arrays.most_cores - cores, steps)
            scene.rows[run, machine, slot] = first
    scene.behind[run], scene.since_arrival[run] = free - valid, now - newest
    if arrays.sees_queue:
        _update_queue(arrays, run)


@compiled_apart
def _is_free(arrays: Arrays, run: int, job: int) -> bool:
    """Return whether a job was submitted and is not bound."""
    was_submitted = arrays.jobs.submit[run, job] <= arrays.now[run]
    return bool(was_submitted and arrays.machine[run, job] == UNSET)


@compiled_apart
def _fill_slots(arrays: Arrays, run: int) -> None:
    """Set the job of each slot; see `StepRuns._fill_slots`."""
    slots, count, most = arrays.slots[run], 0, arrays.slots.shape[1] - arrays.newest
    for slot in range(len(slots)):
        slots[slot] = UNSET
    for place in range(len(arrays.jobs.submit[run])):
        job = arrays.by_length[run, place] if arrays.newest > 0 else place
        if count < most and _is_free(arrays, run, job):
            slots[count] = job
            count += 1
    if arrays.newest == 0:
        return
    last = most
    for place in range(len(arrays.jobs.submit[run])):
        job = len(arrays.jobs.submit[run]) - 1 - place
        is_shown = False
        for slot in range(count):
            is_shown = is_shown or slots[slot] == job
        if last < len(slots) and not is_shown and _is_free(arrays, run, job):
            slots[last] = job
            last += 1


@compiled_apart
def _update_queue(arrays: Arrays, run: int) -> None:
    """Update the observation of the whole queue."""
    scene, jobs, slots = arrays.scene, arrays.jobs, arrays.slots[run]
    work = 0
    for slot in range(len(slots)):
        scene.ahead[run, slot] = 0
    for place in range(len(jobs.submit[run])):
        job = arrays.by_length[run, place]
        if _is_free(arrays, run, job):
            for slot in range(len(slots)):
                if slots[slot] == job:
                    scene.ahead[run, slot] = work
            work += arrays.least[run, job] * jobs.cores[run, job]
    scene.work[run] = work
    for column in range(len(WINDOWS)):
        recent = 0
        for job in range(len(jobs.submit[run])):
            ago = arrays.now[run] - jobs.submit[run, job]
            recent += 0 <= ago < WINDOWS[column]
        scene.recent[run, column] = recent


@entry_with(*USES)
def sum_costs(
    arrays: Arrays,
    rates: CostRates,
    selected: Ints,
    steps: Ints,
    costs: Floats,
    stack: Records,
    found: Floats,
) -> None:
    """Write the costs of runs; see `step_runs.accrued_cost`.

    Args:
        costs: float64[jobs], space.
        stack: space for `pairwise_sum`.
        found: float64[selected].
    """
    for place in range(len(selected)):
        run, at = selected[place], steps[place]
        for job in range(len(costs)):
            costs[job] = 0.0
            if not arrays.jobs.valid[run, job]:
                continue
            bound, start, end = arrays.bound[run, job], arrays.start[run, job], at
            machine = arrays.machine[run, job]
            is_bound = bound != UNSET and bound < at
            if is_bound and start != UNSET:
                end = min(start + arrays.jobs.actual[run, machine, job], at)
            lasted = max(end - arrays.jobs.submit[run, job], 0)
            rate = rates.least[run, job]
            if is_bound:
                rate = rates.own[run, machine, job]
            costs[job] = rate * lasted
        found[place] = pairwise_sum(costs, 0, len(costs), stack)
