"""Episodes of `hpcosim/BatchScheduling-v1` on the compiled engine, all in one call."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_compiled.batch_rounds import COSTS, EPISODE, LEAVE, play
from hpcosim_compiled.compiler import clear_cache
from hpcosim_compiled.policies import names_nodes, unsupported
from hpcosim_compiled.simulation import infeasible
from hpcosim_compiled.state import PLACE, State, initial_state, records, shares_processors
from hpcosim_gym.environments.batch_task import BatchTask
from hpcosim_schedulers.agents.batch.scene import (
    CLUSTER_COLUMNS,
    EARLIEST_START,
    SLOT_COLUMNS,
    WAIT,
    Rows,
    fixed_columns,
    flat_size,
    scaled_times,
)
from hpcosim_sim.engine.engine import Rules
from hpcosim_workloads.table import JobTable

SHARED = 32
"""Least number of episodes that two threads share."""

FREE = (
    "kill_at_walltime",
    "reference_ghz",
    "wake_on_allocation",
    "stuck_after_wakeups",
    "max_jobs",
)
"""Rules that may have other values than by default."""


def supports(task: BatchTask, jobs: JobTable) -> bool:
    """Return whether the compiled engine supports all of a task."""
    return (
        task.reward in COSTS
        and permits(task.rules, jobs)
        and not unsupported(task.platform, jobs, "easy")
        and not shares_processors(task.platform)
        and not names_nodes(task.platform, jobs, "easy")
    )


def permits(rules: Rules, jobs: JobTable) -> bool:
    """Return whether the compiled engine supports the rules of a task."""
    default = Rules()
    return (
        replace(rules, **{name: getattr(default, name) for name in FREE}) == default
        and rules.stuck_after_wakeups >= default.stuck_after_wakeups
        and rules.max_jobs >= len(jobs)
    )


class CompiledEpisodes:
    """Episodes of a task that are played together.

    Args:
        task: the task, which `supports` permits.
        jobs: the workload.
        count: number of episodes.

    Attributes:
        choices: int64[count], visible jobs of each; 0: the episode is over or has not begun.
        costs: float64[count], cost of each so far.

    Raises:
        Exception: Numba cannot compile the engine on this machine.
    """

    choices: Ints
    costs: Floats

    def __init__(self, task: BatchTask, jobs: JobTable, count: int) -> None:
        self._task = task
        self._jobs = len(jobs) if task.episode_jobs is None else task.episode_jobs
        feasible = np.ones(len(jobs), np.bool_)
        feasible[list(infeasible(task.platform, jobs))] = False
        ranks = np.zeros(len(jobs), np.int64)
        kill, clock_ghz = task.rules.kill_at_walltime, task.rules.reference_ghz
        first = initial_state(
            task.platform, jobs, feasible, ranks, kill_at_walltime=kill, reference_ghz=clock_ghz
        )
        self._workload, self._initial = first.jobs, _of_jobs(first, self._jobs, jobs)
        self._states = State._make(_repeated(column, count) for column in self._initial)
        self._episodes = records(EPISODE, count)
        cores = float(task.platform.core_count)
        pairs = zip(jobs.requested_s.tolist(), jobs.cores.tolist(), strict=True)
        self._fixed = np.array([fixed_columns(*pair, cores) for pair in pairs]).astype(np.float32)
        self._cost = COSTS.index(task.reward)
        self._pool = None
        if count >= SHARED and (os.cpu_count() or 1) > 1:
            self._pool = ThreadPoolExecutor(1)
        try:
            self._leave()
        except Exception:  # of damaged files of the cache: Numba raises what unpickling raises
            clear_cache()
            self._leave()

    def _leave(self) -> None:
        """Compile the engine or load its code."""
        self.play(np.full(len(self._episodes), LEAVE))

    def begin(self, place: int, first: int) -> None:
        """Put a new episode at a place; the action `BEGIN` simulates to its first choice.

        Args:
            first: its first job in the workload.
        """
        for name in ("g", "kinds", "nodes", "free"):  # counts of records in the others are in `g`
            getattr(self._states, name)[place] = getattr(self._initial, name)
        jobs = self._states.jobs[place]
        jobs[:] = self._workload[first : first + self._jobs]
        if self._task.episode_jobs is not None:
            jobs.submit_s -= float(jobs.submit_s[0])
        begin_s = jobs.submit_s[0]
        g, kinds = self._states.g[place], self._states.kinds[place]
        g.now_s = g.changed_s = kinds.settled_s = begin_s
        episode = records(EPISODE, 1)
        episode.first, episode.head = first, -1
        self._episodes[place] = episode[0]

    def play(self, actions: Ints) -> Rows:
        """Choose a job in each episode, and simulate to the next choices.

        Args:
            actions: int64[count], places of visible jobs, `BEGIN` or `LEAVE`.

        Returns:
            float32[count, values], the flat observations; zeros for `LEAVE`.
        """
        count, window = len(actions), self._task.window_jobs
        seen = np.zeros((count, flat_size(window)), np.float32)
        if self._pool is None:
            self._play(actions, seen, 0, count)
        else:
            middle = count // 2
            other = self._pool.submit(self._play, actions, seen, 0, middle)
            self._play(actions, seen, middle, count)
            other.result()
        self.choices = self._episodes.choices.copy()
        self.costs = self._episodes.cost.copy()
        if COSTS[self._cost] == "energy":
            self.costs = np.array([self.energy_j(place) for place in range(count)])
        return seen

    def _play(self, actions: Ints, all_seen: Rows, first: int, last: int) -> None:
        window, part = self._task.window_jobs, slice(first, last)
        seen, times_s = all_seen[part], np.zeros((last - first, 2, window))
        states = State._make(None if each is None else each[part] for each in self._states)
        episodes, fixed = self._episodes[part], self._fixed
        play(states, episodes, fixed, self._cost, window, actions[part], seen, times_s)
        slots = seen[:, len(CLUSTER_COLUMNS) :].reshape(last - first, len(SLOT_COLUMNS), window)
        slots[:, [1 + WAIT, 1 + EARLIEST_START]] = scaled_times(times_s)

    def energy_j(self, place: int) -> float:
        """Return the energy of all nodes, J."""
        kinds = self._states.kinds[place]
        return sum(map(sum, kinds[["computing_j", "idle_j"]].tolist()))

    def longest_wait_s(self, place: int) -> float:
        """Return the longest wait of the jobs of an episode that is over, s."""
        jobs = self._states.jobs[place][: self._jobs]
        return float(np.nanmax(jobs.start_s - jobs.submit_s, initial=0.0))

    def metrics(self, place: int) -> dict[str, float]:
        """Return the metrics of an episode that is over."""
        episode, energy_j = self._episodes[place], self.energy_j(place)
        jobs, g = self._states.jobs[place], self._states.g[place]
        makespan_s = float(g.now_s[0] - jobs.submit_s[0])
        return {
            "mean_wait_s": float(episode.mean_wait_s),
            "mean_bounded_slowdown": float(episode.mean_bounded_slowdown),
            "energy_j": energy_j,
            "edp_js": energy_j * makespan_s,
            "makespan_s": makespan_s,
        }


def _of_jobs(state: State, count: int, jobs: JobTable) -> State:
    """Return the initial state for any `count` consecutive jobs of a workload."""
    nodes = len(state.nodes)
    most = np.concatenate(([0], np.minimum(jobs.cores, nodes).cumsum()))
    places = int((most[count:] - most[:-count]).max()) + nodes
    short = {
        "places": records(PLACE, places),
        "changes": state.changes[: 2 * count],
        **{name: getattr(state, name)[: 8 * count + 8] for name in ("profile", "lows")},
        **{
            name: getattr(state, name)[:count]
            for name in (
                *("jobs", "ends", "due", "queue", "sizes", "keyed", "periods", "ended_idle"),
                *("rows", "keys"),
            )
        },
    }
    g = state.g.copy()
    g.jobs = count
    return state._replace(g=g, **short)


def _repeated(column: Any, count: int) -> Any:
    """Return an array for many simulations, with the class of that for one; None for None."""
    if column is None:
        return None
    many = np.zeros((count, *column.shape), column.dtype)
    return many.view(np.recarray) if isinstance(column, np.recarray) else many
