"""Runs of job sequences side by side, as arrays, and their cost: for training and for look-ahead.

This is `StepPlan` and `DeepEasRounds` for many runs, without an event loop: all events happen at
whole steps. A decision takes a tenth of the time of the simulator. The same agent produces the same
schedule in both. The cost is the normalised energy-delay product (paper, section II-A).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints
from hpcosim_papers.deep_eas.agent.network import NEVER, WINDOWS, Scene
from hpcosim_papers.deep_eas.agent.step_jobs import Counts, Machines, StepJobs


def esjf_actions(scene: Scene) -> Ints:
    """Return the action of `hpcosim_schedulers.heuristics.esjf.least` for each run, int64[runs].

    The action is to hold where no job fits. Sums and products have the same order as in `least`, so
    that ties are equal in both implementations.
    """
    runs, machines, queue = scene.rows.shape
    steps, rows = scene.steps.astype(np.float64), scene.rows.astype(np.float64)
    least = np.maximum(steps.min(axis=1, keepdims=True), 1.0)
    energy = scene.cores[:, None].astype(np.float64) * scene.watts[:, None] * steps / least
    values = energy * (scene.waited[:, None] + rows + steps) / least
    values[scene.rows == NEVER] = np.inf
    by_slot = values.swapaxes(1, 2).reshape(runs, -1)  # argmin breaks ties by the earliest job
    slot, machine = np.divmod(by_slot.argmin(axis=1), machines)
    hold = machines * queue
    actions: Ints = np.where(np.isfinite(by_slot.min(axis=1)), machine * queue + slot, hold)
    return actions


UNSET = -1
FAR_FUTURE = np.iinfo(np.int64).max


class Moment(NamedTuple):
    """The state of runs, from which they can go on.

    Attributes:
        now: int64[runs], the current step.
        machine, start, turn: int64[runs, jobs], the machine of a bound job, the step of its start,
            and its place in the order of binding; `UNSET`: none.
        idle: int64[runs], first step of holding on an idle cluster, or `FAR_FUTURE`.
    """

    jobs: StepJobs
    now: Ints
    machine: Ints
    start: Ints
    turn: Ints
    idle: Ints

    def take(self, which: Ints) -> Moment:
        """Return the selected runs; an index may occur several times."""
        return Moment(self.jobs.take(which), *(part[which] for part in self[1:]))


class StepRuns:
    """Runs of one job sequence each, each stopped at its next decision.

    Args:
        jobs: the sequences, one for each run.

    Attributes:
        now: int64[runs], the current step of each run.
        machine: int64[runs, jobs], the machine that each job is bound to; `UNSET`: not bound.
        bound, start: int64[runs, jobs], the steps at which a job was bound and started, or `UNSET`.
        done: bool[runs], all jobs of the run have started.
        scene: the observation of each run; the last one of a finished run.
    """

    machine: Ints
    bound: Ints
    start: Ints

    def __init__(self, machines: Machines, jobs: StepJobs) -> None:
        self.machines, self.jobs = machines, jobs
        runs, most = jobs.submit.shape
        settings = machines.settings
        self.now = jobs.submit[:, 0].copy()
        self.done = np.zeros(runs, dtype=np.bool_)
        self.machine, self.bound, self.start, self._turn = (
            np.full((runs, most), UNSET) for _ in range(4)
        )
        self._turns = np.zeros(runs, dtype=np.int64)
        self._idle = np.full(runs, FAR_FUTURE)  # first step of holding on an idle cluster
        count, queue = len(machines.watts), settings.queue
        self._slots = np.full((runs, queue), UNSET)
        self._least = jobs.expected.min(axis=1)
        self._by_length = self._least.argsort(axis=1, kind="stable")
        self.scene = Scene(
            machines.watts,
            used=np.zeros((runs, count, settings.horizon), dtype=np.int16),
            cores=np.zeros((runs, queue), dtype=np.int16),
            waited=np.zeros((runs, queue), dtype=np.int16),
            steps=np.zeros((runs, count, queue), dtype=np.int16),
            rows=np.full((runs, count, queue), NEVER, dtype=np.int16),
            behind=np.zeros(runs, dtype=np.int16),
            since_arrival=np.zeros(runs, dtype=np.int16),
            ahead=np.zeros((runs, queue), dtype=np.int32),
            work=np.zeros(runs, dtype=np.int32),
            recent=np.zeros((runs, len(WINDOWS)), dtype=np.int16),
        )
        self._update_scene(np.arange(runs))

    @classmethod
    def resumed(cls, machines: Machines, moment: Moment) -> StepRuns:
        """Return runs that go on from a moment; `bound` is unset for the jobs bound before."""
        runs = cls(machines, moment.jobs)
        runs.now, runs._idle = moment.now.copy(), moment.idle.copy()
        runs.machine, runs.start, runs._turn = (
            part.copy() for part in (moment.machine, moment.start, moment.turn)
        )
        runs._turns = moment.turn.max(axis=1) + 1
        every = np.arange(len(runs.now))
        runs._replan(every)
        runs._update_scene(every)
        return runs

    def moment(self, runs: Ints) -> Moment:
        """Return the state of the selected runs."""
        parts = (self.now, self.machine, self.start, self._turn, self._idle)
        return Moment(self.jobs.take(runs), *(part[runs] for part in parts))

    def active(self) -> Ints:
        """Return the indices of the runs that are not done."""
        return np.flatnonzero(~self.done)

    def take(self, runs: Ints, actions: Ints) -> None:
        """Execute an action in the selected runs, and advance them to their next decisions.

        Args:
            runs: int64[selected], indices of runs that are not done.
            actions: int64[selected], machine x queue + slot: bind that job to that machine; an
                infeasible or any other action: hold.
        """
        settings, rows = self.machines.settings, self.scene.rows
        machine, slot = np.divmod(self._chosen(runs, actions), settings.queue)
        binds = machine < len(self.machines.watts)
        binds[binds] = rows[runs[binds], machine[binds], slot[binds]] != NEVER
        self._bind(runs[binds], machine[binds], slot[binds])
        held = runs[~binds]
        idle = held[~self.scene.used[held].any(axis=(1, 2))]
        self._idle[idle] = np.minimum(self._idle[idle], self.now[idle])
        bound = runs[binds]
        self._advance_time(np.concatenate([held, bound[self._none_fits(bound)]]))

    def accrued_cost(self, rates: CostRates, selected: Ints, steps: Ints) -> Floats:
        """Return the cost of the selected runs before a step; see `accrued_cost`."""
        return accrued_cost(self, rates, selected, steps)

    def _chosen(self, runs: Ints, actions: Ints) -> Ints:
        """Return the actions; those of energy-aware shortest job first where a run is stalled."""
        stalled = np.flatnonzero(
            self.now[runs] - self._idle[runs] >= self.machines.settings.horizon
        )
        if len(stalled):
            actions = actions.copy()
            actions[stalled] = esjf_actions(self.scene.some(runs[stalled]))
        return actions

    def _bind(self, runs: Ints, machine: Ints, slot: Ints) -> None:
        job = self._slots[runs, slot]
        self.machine[runs, job], self.bound[runs, job] = machine, self.now[runs]
        self._turn[runs, job] = self._turns[runs]
        self._turns[runs] += 1
        self._idle[runs] = FAR_FUTURE
        used, rows = self.scene.used, self.scene.rows[runs, machine, slot]
        begins = rows == 0
        self.start[runs[begins], job[begins]] = self.now[runs[begins]]
        steps, cores = self.jobs.expected[runs, machine, job], self.jobs.cores[runs, job]
        used[runs, machine] += core_blocks(rows, steps, cores, used.shape[2])
        self._update_scene(runs)

    def _advance_time(self, runs: Ints) -> None:
        """Advance step by step until an action is feasible or the run is done."""
        while len(runs):
            self.now[runs] += 1
            self._replan(runs)
            self.done[runs] = ((self.start[runs] != UNSET) | ~self.jobs.valid[runs]).all(axis=1)
            runs = runs[~self.done[runs]]
            self._update_scene(runs)
            runs = runs[self._none_fits(runs)]

    def _none_fits(self, runs: Ints) -> NDArray[np.bool_]:
        nothing: NDArray[np.bool_] = (self.scene.rows[runs] == NEVER).all(axis=(1, 2))
        return nothing

    def _update_scene(self, runs: Ints) -> None:
        """Assign waiting jobs to slots, and update the observation except `used`."""
        scene, now = self.scene, self.now[runs, None]
        submit = self.jobs.submit[runs]
        came = submit <= now
        free = came & (self.machine[runs] == UNSET)
        slots = self._fill_slots(runs, free)
        self._slots[runs] = slots
        valid, jobs = slots != UNSET, np.maximum(slots, 0)
        line, machine = runs[:, None], np.arange(len(self.machines.watts))[:, None]
        cores = self.jobs.cores[line, jobs]
        steps = self.jobs.expected[line[:, None], machine, jobs[:, None]]
        room = np.broadcast_to((self.machines.settings.cores - cores)[:, None], steps.shape)
        rows = first_rows(scene.used[runs], room, steps)
        scene.cores[runs] = np.where(valid, cores, 0)
        scene.waited[runs] = np.where(valid, now - self.jobs.submit[line, jobs], 0)
        scene.steps[runs] = np.where(valid[:, None], steps, 0)
        scene.rows[runs] = np.where(valid[:, None], rows, NEVER)
        scene.behind[runs] = free.sum(axis=1) - valid.sum(axis=1)
        scene.since_arrival[runs] = now[:, 0] - np.where(came, submit, UNSET).max(axis=1)
        if self.machines.settings.sees == "queue":
            self._update_queue(runs, free, slots)

    def _fill_slots(self, runs: Ints, free: NDArray[np.bool_]) -> Ints:
        """Return the job of each slot, int64[selected, queue], or `UNSET`."""
        settings = self.machines.settings
        slots = np.full((len(runs), settings.queue), UNSET)
        if not settings.newest:
            line, job, rank = _first(free, settings.queue)
            slots[line, rank] = job
            return slots
        shortest, order = settings.queue - settings.newest, self._by_length[runs]
        line, at, rank = _first(free[np.arange(len(runs))[:, None], order], shortest)
        slots[line, rank] = job = order[line, at]
        rest = free.copy()
        rest[line, job] = False
        line, at, rank = _first(rest[:, ::-1], settings.newest)
        slots[line, shortest + rank] = rest.shape[1] - 1 - at
        return slots

    def _update_queue(self, runs: Ints, free: NDArray[np.bool_], slots: Ints) -> None:
        """Update the observation of the whole queue; for the arguments see `_fill_slots`."""
        scene, order = self.scene, self._by_length[runs]
        work = np.where(free, self._least[runs].astype(np.int32) * self.jobs.cores[runs], 0)
        line = np.arange(len(runs))[:, None]
        sorted_work = work[line, order]
        ahead = np.empty_like(work)
        ahead[line, order] = np.cumsum(sorted_work, axis=1, dtype=np.int32) - sorted_work
        scene.ahead[runs] = np.where(slots != UNSET, ahead[line, np.maximum(slots, 0)], 0)
        scene.work[runs] = work.sum(axis=1)
        ago = self.now[runs, None] - self.jobs.submit[runs]
        for column, window in enumerate(WINDOWS):
            scene.recent[runs, column] = ((ago >= 0) & (ago < window)).sum(axis=1)

    def _replan(self, runs: Ints) -> None:
        """Rebuild the plan, and start the bound jobs whose planned start is now."""
        count, horizon = self.scene.used.shape[1:]
        used = self._running(runs).reshape(len(runs) * count, -1)  # one line for each machine
        at = self.machine[runs][:, None] == np.arange(count)[:, None]
        waits = (at & (self.start[runs] == UNSET)[:, None]).reshape(len(used), -1)
        turn = np.where(waits, np.repeat(self._turn[runs], count, axis=0), FAR_FUTURE)
        order, bound = turn.argsort(axis=1), waits.sum(axis=1)
        for place in range(bound.max(initial=0)):
            lines = np.flatnonzero(bound > place)
            (number, machine), job = np.divmod(lines, count), order[lines, place]
            run = runs[number]
            steps, cores = self.jobs.expected[run, machine, job], self.jobs.cores[run, job]
            room = (self.machines.settings.cores - cores)[:, None]
            rows = first_rows(used[lines], room, steps[:, None])[:, 0]
            while (rows == NEVER).any():  # jobs that overrun extend the plan beyond the horizon
                used = np.pad(used, ((0, 0), (0, horizon)))
                rows = first_rows(used[lines], room, steps[:, None])[:, 0]
            used[lines] += core_blocks(rows, steps, cores, used.shape[1])
            begins = rows == 0
            self.start[run[begins], job[begins]] = self.now[run[begins]]
        self.scene.used[runs] = used[:, :horizon].reshape(len(runs), count, horizon)

    def _running(self, runs: Ints) -> Counts:
        """Return the cores of running jobs in each step, from now until their expected ends."""
        count, horizon = self.scene.used.shape[1:]
        line, job = np.nonzero((self.start[runs] != UNSET) & self.jobs.valid[runs])
        run = runs[line]
        machine, ran = self.machine[run, job], self.now[run] - self.start[run, job]
        runs_on = ran < self.jobs.actual[run, machine, job]
        line, job, run, machine, ran = (part[runs_on] for part in (line, job, run, machine, ran))
        left = np.maximum(self.jobs.expected[run, machine, job] - ran, 1)
        cores = self.jobs.cores[run, job]
        change = np.zeros((len(runs), count, 2 * horizon + 1), dtype=np.int16)
        np.add.at(change[:, :, 0], (line, machine), cores)
        np.subtract.at(change, (line, machine, np.minimum(left, 2 * horizon)), cores)
        return np.cumsum(change, axis=2, dtype=np.int16)[:, :, :-1]


def _first(flags: NDArray[np.bool_], most: int) -> tuple[Ints, Ints, Ints]:
    """Return line, column and rank of the first `most` flags of each line; ranks count from 0."""
    rank = np.cumsum(flags, axis=1)
    line, column = np.nonzero(flags & (rank <= most))
    return line, column, rank[line, column] - 1


def plan_occupancy(runs: StepRuns, selected: Ints) -> Floats:
    """Return the fraction of each machine's plan that is occupied, float64[selected, machines]."""
    occupied: Floats = runs.scene.used[selected].mean(axis=2) / runs.machines.settings.cores
    return occupied


def first_rows(used: Counts, room: Counts, steps: Counts) -> Counts:
    """Return the first row at which each job fits for all its steps, int16[..., jobs]; or `NEVER`.

    Args:
        used: int16[..., rows], occupied cores.
        room: int16[..., jobs], occupied cores beside which the job still fits.
        steps: int16[..., jobs], the steps of each job.
    """
    rows = used.shape[-1]
    full = used[..., None, :] > room[..., None]
    row = np.arange(rows, dtype=np.int16)
    # Row of the next full one, from each row on; a job fits where it ends before that.
    next_full = np.where(full, row, np.int16(rows))[..., ::-1]
    np.minimum.accumulate(next_full, axis=-1, out=next_full)
    fits = next_full[..., ::-1] - row >= steps[..., None]
    first = fits.argmax(axis=-1)
    return np.where(fits.any(axis=-1), first, NEVER).astype(np.int16)


def core_blocks(first: Counts, steps: Counts, cores: Counts, rows: int) -> Counts:
    """Return the cores of each job in each row, int16[jobs, rows], from its first row on."""
    row = np.arange(rows)
    first, steps, cores = first[:, None], steps[:, None], cores[:, None]
    return np.where((row >= first) & (row < first + steps), cores, 0).astype(np.int16)


def normalised_edps(runs: StepRuns) -> Floats:
    """Return the normalised energy-delay product of each job, float64[runs, jobs]; 0 for padding.

    Requires that all runs are done.
    """
    each, end = weights(runs.machines, runs.jobs), _end(runs)
    own = np.take_along_axis(each, _machine(runs), axis=1)[:, 0]
    return np.where(runs.jobs.valid, own * (end - runs.jobs.submit), 0.0)


def mean_edp(runs: StepRuns) -> float:
    """Return the mean normalised energy-delay product over all jobs of all runs."""
    return float(normalised_edps(runs).sum() / runs.jobs.valid.sum())


def weights(machines: Machines, jobs: StepJobs) -> Floats:
    """Return the cost per step of each job on each machine, float64[runs, machines, jobs].

    The cost per step, multiplied by the steps from submission to end, is the job's normalised
    energy-delay product.
    """
    least = np.maximum(jobs.expected.min(axis=1), 1)[:, None].astype(np.float64)
    energy = jobs.cores[:, None] * machines.watts[:, None] * jobs.actual
    return np.asarray(energy / least**2)


class CostRates(NamedTuple):
    """Cost per step of each job.

    Attributes:
        own: float64[runs, machines, jobs], on each machine, see `weights`.
        least: float64[runs, jobs], on the cheapest machine.
    """

    own: Floats
    least: Floats


def cost_rates(runs: StepRuns) -> CostRates:
    """Return the cost per step of each job."""
    own = weights(runs.machines, runs.jobs)
    return CostRates(own, own.min(axis=1))


def accrued_cost(runs: StepRuns, rates: CostRates, selected: Ints, steps: Ints) -> Floats:
    """Return the cost of the selected runs before a step, float64[selected].

    This is equation 2 of the paper, summed over the steps. Each step costs the sum of the rates of
    all jobs in the system. An unbound job has the rate of its cheapest machine. The step in which a
    job is bound adds the difference to the rate of its actual machine since submission. The total
    of a run is the sum of its normalised energy-delay products.

    Args:
        rates: their `cost_rates`.
        selected: int64[selected], indices of runs.
        steps: int64[selected], the step of each; not after `runs.now`, unless the run is done.
    """
    at, bound, start = steps[:, None], runs.bound[selected], runs.start[selected]
    place = selected[:, None], np.maximum(runs.machine[selected], 0), np.arange(bound.shape[1])
    is_bound = (bound != UNSET) & (bound < at)
    ends = np.where(is_bound & (start != UNSET), start + runs.jobs.actual[place], at)
    lasted = np.maximum(np.minimum(ends, at) - runs.jobs.submit[selected], 0)
    cost = np.where(is_bound, rates.own[place], rates.least[selected]) * lasted
    total: Floats = np.where(runs.jobs.valid[selected], cost, 0.0).sum(axis=1)
    return total


def costs_to_go(runs: StepRuns) -> Floats:
    """Return the remaining cost of each run at each step, float64[runs, steps]; 0 after its end.

    Requires that all runs are done.
    """
    rates, every = cost_rates(runs), np.arange(len(runs.now))
    last = last_end(runs) + 1
    costs = [runs.accrued_cost(rates, every, np.full(len(every), at)) for at in range(last + 1)]
    return costs[-1][:, None] - np.stack(costs, axis=1)


def last_end(runs: StepRuns) -> int:
    """Return the step at which the last job of all runs ends. Requires that all runs are done."""
    return int(_end(runs)[runs.jobs.valid].max())


def _machine(runs: StepRuns) -> Ints:
    machine: Ints = np.maximum(runs.machine, 0)[:, None]
    return machine


def _end(runs: StepRuns) -> Ints:
    actual = np.take_along_axis(runs.jobs.actual, _machine(runs), axis=1)[:, 0]
    end: Ints = runs.start + actual
    return end
