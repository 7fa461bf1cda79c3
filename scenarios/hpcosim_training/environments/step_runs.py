"""Runs of job sequences side by side, as arrays.

This is the client's `StepPlan` and `DeepEasRounds` for many runs, without an event loop: all events
happen at whole steps. A decision takes a tenth of the time of the simulator. The same agent
produces the same schedule in both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.agents.deep_eas.scene import NEVER, Counts, Scene
from hpcosim_client.job import Floats, Ints
from hpcosim_training.environments.esjf import esjf_actions
from hpcosim_training.environments.step_jobs import StepJobs
from hpcosim_training.environments.step_machines import Machines

UNSET = -1
FAR_FUTURE = np.iinfo(np.int64).max


class StepRuns:
    """Runs of one job sequence each, each stopped at its next decision.

    Args:
        machines: the machines.
        jobs: the sequences, one for each run.

    Attributes:
        machines, jobs: the arguments.
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
        self.scene = Scene(
            machines.watts,
            used=np.zeros((runs, count, settings.horizon), dtype=np.int16),
            cores=np.zeros((runs, queue), dtype=np.int16),
            waited=np.zeros((runs, queue), dtype=np.int16),
            steps=np.zeros((runs, count, queue), dtype=np.int16),
            rows=np.full((runs, count, queue), NEVER, dtype=np.int16),
            behind=np.zeros(runs, dtype=np.int16),
            since_arrival=np.zeros(runs, dtype=np.int16),
        )
        self._update_scene(np.arange(runs))

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
        stalled = np.flatnonzero(self.now[runs] - self._idle[runs] >= settings.horizon)
        if len(stalled):
            actions = actions.copy()
            actions[stalled] = esjf_actions(self.scene.some(runs[stalled]))
        machine, slot = np.divmod(actions, settings.queue)
        binds = machine < len(self.machines.watts)
        binds[binds] = rows[runs[binds], machine[binds], slot[binds]] != NEVER
        self._bind(runs[binds], machine[binds], slot[binds])
        held = runs[~binds]
        idle = held[~self.scene.used[held].any(axis=(1, 2))]
        self._idle[idle] = np.minimum(self._idle[idle], self.now[idle])
        bound = runs[binds]
        self._advance_time(np.concatenate([held, bound[self._none_fits(bound)]]))

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
        rank = np.cumsum(free, axis=1)
        queue = self.machines.settings.queue
        slots = np.full((len(runs), queue), UNSET)
        line, job = np.nonzero(free & (rank <= queue))
        slots[line, rank[line, job] - 1] = job
        self._slots[runs] = slots
        valid, jobs = slots != UNSET, np.maximum(slots, 0)
        cores = np.take_along_axis(self.jobs.cores[runs], jobs, axis=1)
        steps = np.take_along_axis(self.jobs.expected[runs], jobs[:, None], axis=2)
        room = np.broadcast_to((self.machines.settings.cores - cores)[:, None], steps.shape)
        rows = first_rows(scene.used[runs], room, steps)
        scene.cores[runs] = np.where(valid, cores, 0)
        scene.waited[runs] = np.where(valid, now - np.take_along_axis(submit, jobs, axis=1), 0)
        scene.steps[runs] = np.where(valid[:, None], steps, 0)
        scene.rows[runs] = np.where(valid[:, None], rows, NEVER)
        scene.behind[runs] = np.maximum(rank[:, -1] - queue, 0)
        scene.since_arrival[runs] = now[:, 0] - np.where(came, submit, UNSET).max(axis=1)

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
    until = np.zeros((*full.shape[:-1], rows + 1), dtype=np.int16)
    np.cumsum(full, axis=-1, dtype=np.int16, out=until[..., 1:])  # full rows before each
    ends = np.arange(rows) + steps[..., None]
    before_end = np.take_along_axis(until, np.minimum(ends, rows).astype(np.int64), axis=-1)
    fits = (ends <= rows) & (before_end == until[..., :-1])
    first = fits.argmax(axis=-1)
    found = np.take_along_axis(fits, first[..., None], axis=-1)[..., 0]
    return np.where(found, first, NEVER).astype(np.int16)


def core_blocks(first: Counts, steps: Counts, cores: Counts, rows: int) -> Counts:
    """Return the cores of each job in each row, int16[jobs, rows], from its first row on."""
    row = np.arange(rows)
    first, steps, cores = first[:, None], steps[:, None], cores[:, None]
    return np.where((row >= first) & (row < first + steps), cores, 0).astype(np.int16)
