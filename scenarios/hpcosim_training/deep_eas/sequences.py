"""Sequences of jobs that run side by side, for an agent to learn on.

It is the plan of `StepPlan` and the rounds of `Rounds` in arrays over many runs, without an event
loop, since here all that happens happens at whole steps: a decision costs a tenth of what it does
in the simulator, and the same agent makes the same schedule in both, to the step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.agents.deep_eas.scene import NEVER, Counts, Scene
from hpcosim_client.agents.deep_eas.settings import DeepEas
from hpcosim_client.job import Floats, Ints
from hpcosim_training.deep_eas.esjf import esjf_actions
from hpcosim_training.deep_eas.first_rows import blocks, first_rows
from hpcosim_training.deep_eas.jobs import StepJobs

NOT_YET = -1
LAST = np.iinfo(np.int64).max


class Machines(NamedTuple):
    """What is learned on, whatever the jobs.

    Attributes:
        settings: what is decided.
        watts: of a busy core of each machine, float64[machines].
        scale: by what requested times are multiplied on each, float64[machines].
    """

    settings: DeepEas
    watts: Floats
    scale: Floats


class Sequences:
    """Some runs, each of a sequence of jobs, each at its next decision.

    Args:
        machines: where they run.
        jobs: the sequences, one a run.

    Attributes:
        machines, jobs: as given.
        now: the step of each run, int64[runs].
        machine: where each job is bound, int64[runs, jobs]; `NOT_YET`: nowhere.
        bound, start: when it was, and when it began, likewise.
        done: runs whose every job has begun, bool[runs].
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
            np.full((runs, most), NOT_YET) for _ in range(4)
        )
        self._turns = np.zeros(runs, dtype=np.int64)
        self._idle = np.full(runs, LAST)  # since when a run has held on an idle cluster
        count = len(machines.watts)
        self._used = np.zeros((runs, count, settings.horizon), dtype=np.int16)
        self._slots = np.full((runs, settings.queue), NOT_YET)
        self._rows = np.full((runs, count, settings.queue), NEVER, dtype=np.int16)
        self._behind = np.zeros(runs, dtype=np.int16)
        self._look(np.arange(runs))

    def asked(self) -> Ints:
        """Return the numbers of the runs in which there is something to decide."""
        return np.flatnonzero(~self.done)

    def scene(self, runs: Ints) -> Scene:
        """Return what the agent is told in some runs."""
        slots = self._slots[runs]
        there, jobs = slots != NOT_YET, np.maximum(slots, 0)
        submit = np.take_along_axis(self.jobs.submit[runs], jobs, axis=1)
        cores = np.take_along_axis(self.jobs.cores[runs], jobs, axis=1)
        steps = np.take_along_axis(self.jobs.expected[runs], jobs[:, None], axis=2)
        now = self.now[runs, None]
        came = np.where(self.jobs.submit[runs] <= now, self.jobs.submit[runs], NOT_YET).max(axis=1)
        return Scene(
            self.machines.watts,
            self._used[runs],
            np.where(there, cores, 0).astype(np.int16),
            np.where(there, now - submit, 0).astype(np.int16),
            np.where(there[:, None], steps, 0).astype(np.int16),
            self._rows[runs],
            self._behind[runs],
            (now[:, 0] - came).astype(np.int16),
        )

    def occupancy(self, runs: Ints) -> Floats:
        """Return the share of each machine's plan that is taken, float64[runs, machines]."""
        taken: Floats = self._used[runs].mean(axis=2) / self.machines.settings.cores
        return taken

    def take(self, runs: Ints, actions: Ints) -> None:
        """Carry out an action in each of some runs, and let time pass to their next decisions."""
        settings = self.machines.settings
        helped = np.flatnonzero(self.now[runs] - self._idle[runs] >= settings.horizon)
        if len(helped):
            actions = actions.copy()
            actions[helped] = esjf_actions(self.scene(runs[helped]))
        machine, slot = np.divmod(actions, settings.queue)
        binds = machine < len(self.machines.watts)
        binds[binds] = self._rows[runs[binds], machine[binds], slot[binds]] != NEVER
        self._bind(runs[binds], machine[binds], slot[binds])
        held = runs[~binds]
        idle = held[~self._used[held].any(axis=(1, 2))]
        self._idle[idle] = np.minimum(self._idle[idle], self.now[idle])
        bound = runs[binds]
        self._pass_time(np.concatenate([held, bound[self._nothing_fits(bound)]]))

    def _bind(self, runs: Ints, machine: Ints, slot: Ints) -> None:
        job = self._slots[runs, slot]
        self.machine[runs, job], self.bound[runs, job] = machine, self.now[runs]
        self._turn[runs, job] = self._turns[runs]
        self._turns[runs] += 1
        self._idle[runs] = LAST
        rows = self._rows[runs, machine, slot]
        begins = rows == 0
        self.start[runs[begins], job[begins]] = self.now[runs[begins]]
        steps, cores = self.jobs.expected[runs, machine, job], self.jobs.cores[runs, job]
        self._used[runs, machine] += blocks(rows, steps, cores, self._used.shape[2])
        self._look(runs)

    def _pass_time(self, runs: Ints) -> None:
        """Go on, a step at a time, until there is something to decide, or the run is over."""
        while len(runs):
            self.now[runs] += 1
            self._follow(runs)
            self.done[runs] = ((self.start[runs] != NOT_YET) | ~self.jobs.there[runs]).all(axis=1)
            runs = runs[~self.done[runs]]
            self._look(runs)
            runs = runs[self._nothing_fits(runs)]

    def _nothing_fits(self, runs: Ints) -> NDArray[np.bool_]:
        nothing: NDArray[np.bool_] = (self._rows[runs] == NEVER).all(axis=(1, 2))
        return nothing

    def _look(self, runs: Ints) -> None:
        """Find the jobs of the slots, and where they would start."""
        free = (self.jobs.submit[runs] <= self.now[runs, None]) & (self.machine[runs] == NOT_YET)
        rank = np.cumsum(free, axis=1)
        queue = self.machines.settings.queue
        self._behind[runs] = np.maximum(rank[:, -1] - queue, 0)
        slots = np.full((len(runs), queue), NOT_YET)
        line, job = np.nonzero(free & (rank <= queue))
        slots[line, rank[line, job] - 1] = job
        self._slots[runs] = slots
        jobs = np.maximum(slots, 0)
        room = self.machines.settings.cores - np.take_along_axis(
            self.jobs.cores[runs], jobs, axis=1
        )
        steps = np.take_along_axis(self.jobs.expected[runs], jobs[:, None], axis=2)
        rows = first_rows(self._used[runs], np.broadcast_to(room[:, None], steps.shape), steps)
        self._rows[runs] = np.where(slots[:, None] == NOT_YET, NEVER, rows)

    def _follow(self, runs: Ints) -> None:
        """Lay all out anew, and begin the bound jobs whose turn it is."""
        count, horizon = self._used.shape[1:]
        used = self._running(runs).reshape(len(runs) * count, -1)  # a line a machine
        at = self.machine[runs][:, None] == np.arange(count)[:, None]
        waits = (at & (self.start[runs] == NOT_YET)[:, None]).reshape(len(used), -1)
        turn = np.where(waits, np.repeat(self._turn[runs], count, axis=0), LAST)
        order, bound = turn.argsort(axis=1), waits.sum(axis=1)
        for place in range(bound.max(initial=0)):
            lines = np.flatnonzero(bound > place)
            (number, machine), job = np.divmod(lines, count), order[lines, place]
            run = runs[number]
            steps, cores = self.jobs.expected[run, machine, job], self.jobs.cores[run, job]
            room = (self.machines.settings.cores - cores)[:, None]
            rows = first_rows(used[lines], room, steps[:, None])[:, 0]
            while (rows == NEVER).any():  # where jobs are late, plans are longer than the horizon
                used = np.pad(used, ((0, 0), (0, horizon)))
                rows = first_rows(used[lines], room, steps[:, None])[:, 0]
            used[lines] += blocks(rows, steps, cores, used.shape[1])
            begins = rows == 0
            self.start[run[begins], job[begins]] = self.now[run[begins]]
        self._used[runs] = used[:, :horizon].reshape(len(runs), count, horizon)

    def _running(self, runs: Ints) -> Counts:
        """Return what running jobs take, until they are expected to end, and in this step."""
        count, horizon = self._used.shape[1:]
        line, job = np.nonzero((self.start[runs] != NOT_YET) & self.jobs.there[runs])
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
