"""Episodes of `hpcosim/BatchScheduling-v1` on the compiled engine, all in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_compiled.batch_rounds import COSTS, EPISODE, play
from hpcosim_compiled.batches import Threads, changed, space_for
from hpcosim_compiled.compiler import load_part, loaded
from hpcosim_compiled.policies import names_nodes, unsupported
from hpcosim_compiled.simulation import infeasible
from hpcosim_compiled.state import LEAVE, PLACE, State, initial_state, records, shares_processors
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
        self._states = space_for(count, self._initial)
        self._episodes = records(EPISODE, count)
        cores = float(task.platform.core_count)
        pairs = zip(jobs.requested_s.tolist(), jobs.cores.tolist(), strict=True)
        self._fixed = np.array([fixed_columns(*pair, cores) for pair in pairs]).astype(np.float32)
        self._cost = COSTS.index(task.reward)
        window = task.window_jobs
        self._seen = np.zeros((count, flat_size(window)), np.float32)
        self._times_s = np.zeros((count, 2, window))
        self._threads = Threads(count)
        load_part("batch", self._load)
        self.choices, self.costs = np.zeros(count, np.int64), np.zeros(count)

    def _load(self) -> None:
        """Load the compiled code, and bind it to the episodes of each part."""
        self._plays = [self._bound(part) for part in self._threads.parts]

    def _bound(self, part: slice) -> Callable[[Ints], None]:
        seen, times_s, window = self._seen[part], self._times_s[part], self._task.window_jobs
        arguments = (
            changed(self._states, lambda column: column[part]),
            self._episodes[part],
            self._fixed,
            self._cost,
            window,
            seen,
            times_s,
        )
        nothing = np.full(len(seen), LEAVE)
        advance = loaded(play, *arguments, nothing)
        advance(*arguments, nothing)
        places = np.arange(seen.size).reshape(seen.shape)[:, len(CLUSTER_COLUMNS) :]
        slots = places.reshape(len(seen), len(SLOT_COLUMNS), window)
        into = slots[:, [1 + WAIT, 1 + EARLIEST_START]].reshape(-1)
        all_seen, all_s = seen.reshape(-1), times_s.reshape(-1)

        def play_part(actions: Ints) -> None:
            advance(*arguments, actions)
            shown = np.flatnonzero(all_s)
            all_seen[into[shown]] = scaled_times(all_s[shown])

        return play_part

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
        given = actions.astype(np.int64, copy=False)
        self._threads.play(lambda number, part: self._plays[number](given[part]))
        self.choices = self._episodes.choices.copy()
        self.costs = self._episodes.cost.copy()
        if COSTS[self._cost] == "energy":
            self.costs = np.array([self.energy_j(place) for place in range(len(actions))])
        return self._seen.copy()

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
