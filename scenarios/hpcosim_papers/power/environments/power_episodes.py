"""Episodes of `hpcosim/NodePower-v1` on the compiled engine, all in one call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hpcosim_client.job import Bools, Ints
from hpcosim_compiled.batches import Threads, changed, space_for
from hpcosim_compiled.compiler import load_part, loaded
from hpcosim_compiled.policies import (
    family_of,
    policy_code,
    puts_on_first,
    ranks,
    unsupported,
    unsupported_power,
)
from hpcosim_compiled.simulation import infeasible, metered_by_state
from hpcosim_compiled.state import (
    CHANGES_PER_NODE,
    LEAVE,
    MANY_PLACES,
    NO_MANAGER,
    POWER_CHANGE,
    TIMED,
    ManagerCode,
    State,
    initial_state,
    lines_needed,
    records,
)
from hpcosim_gym.environments.batch_compiled import permits
from hpcosim_papers.power.environments import power_compiled
from hpcosim_papers.power.environments.power_compiled import (
    EPISODE,
    GOES_ON,
    PLAY,
    Accounts,
    PowerCode,
    Steps,
)
from hpcosim_papers.power.environments.power_task import PowerTask
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.power.account import POWER_CODES, EnergyAccount, Watts
from hpcosim_schedulers.power.settings import Awareness, Timeout
from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_workloads.table import JobTable

MANAGED = Timeout(0.0)
"""Settings of some power manager, in the place of which the agent decides."""

STACK = 64
"""Space for a sum of any number of values."""


def scheduler_of(task: PowerTask) -> tuple[str, Awareness]:
    """Return name and awareness of the job scheduler; an empty name: it is another function."""
    factory = task.scheduler
    if isinstance(factory, partial) and factory.func is make_policy and not factory.keywords:
        name, *rest = factory.args
        if len(rest) < 2:
            return name, rest[0] if rest else "unaware"
    return "", "unaware"


def supports(task: PowerTask, jobs: JobTable) -> bool:
    """Return whether the compiled engine supports all of a task."""
    platform, (name, awareness) = task.platform, scheduler_of(task)
    states = [group.power_states for group in platform.nodes if group.power_states is not None]
    return (
        permits(task.rules, jobs)
        and task.rules.wake_on_allocation
        and family_of(name, awareness) in PLAY
        and not unsupported(platform, jobs, name, power=MANAGED, awareness=awareness)
        and not unsupported_power(platform, MANAGED)
        and not any(each.switch_on_sd_s or each.switch_off_sd_s for each in states)
        and not infeasible(platform, jobs)
        and int(np.minimum(jobs.cores, platform.node_count).sum()) < MANY_PLACES
    )


class PowerEpisodes:
    """Episodes of a task that are played together.

    Args:
        task: the task, which `supports` permits.
        jobs: the workload.
        count: number of episodes.

    Attributes:
        rows: float32[count, nodes, columns], the observations; without the calendar.
        mask: int8[count, nodes, 2].
        switches: int64[count, nodes], the actions of the next call of `play`.
        episodes: the `EPISODE` of each.

    `rows` and `mask` are written anew by each call of `play`.

    Raises:
        Exception: Numba cannot compile the engine on this machine.
    """

    def __init__(self, task: PowerTask, jobs: JobTable, count: int) -> None:
        nodes, (name, awareness) = task.platform.node_count, scheduler_of(task)
        policy, account = policy_code(name, awareness), EnergyAccount(task.platform)
        assert policy is not None
        states = [POWER_CODES[each] for each in POWER_STATES if each != "down"]
        on_w = account.on_w
        resting_w = Watts(task.platform).by_state[:, states]
        self._code = PowerCode(
            policy,
            float(task.interval_s),
            np.ascontiguousarray(resting_w),
            on_w,
            float(on_w.sum()),
        )
        self._play = PLAY[family_of(name, awareness)]
        self._first = _initial(task, jobs, name, awareness)
        self._states: State = space_for(count, self._first)
        self.episodes = records(EPISODE, count)
        self._accounts = Accounts(
            wasted_j=np.zeros((count, nodes)),
            switching_s=np.zeros((count, nodes)),
            idle_since_s=np.zeros((count, nodes)),
            power_state=np.zeros((count, nodes), np.int64),
            wasting_w=np.zeros((count, nodes)),
            is_switching=np.zeros((count, nodes), np.bool_),
            waiting=np.zeros((count, len(jobs)), np.int64),
            interval=np.zeros((count, len(jobs)), np.int64),
            release_s=np.zeros((count, nodes)),
            stack=space_for(count, records(TIMED, STACK)),
        )
        self.rows = np.zeros((count, nodes, task.columns), np.float32)
        self.mask = np.zeros((count, nodes, 2), np.int8)
        self.switches = np.zeros((count, nodes), np.int64)
        self._threads = Threads(count)
        load_part(f"node power, {family_of(name, awareness)}", self._load, *power_compiled.USES)

    def _load(self) -> None:
        """Load the compiled code, and bind it to the episodes of each part."""
        self._plays = [self._bound(part) for part in self._threads.parts]

    def _bound(self, part: slice) -> Callable[[Ints], None]:
        arguments = (
            changed(self._states, lambda column: column[part]),
            self.episodes[part],
            changed(self._accounts, lambda column: column[part]),
            self._code,
            Steps(self.rows[part], self.mask[part], self.switches[part]),
        )
        nothing = np.full(part.stop - part.start, LEAVE)
        play = loaded(self._play, *arguments, nothing)
        play(*arguments, nothing)
        return partial(play, *arguments)

    def begin(self, place: int) -> None:
        """Put a new episode at a place; the action `BEGIN` simulates to its first decision."""
        _put(self._states, place, self._first)
        for column in self._accounts:
            column[place] = np.zeros(1, column.dtype)[0]
        self._accounts.idle_since_s[place] = np.nan
        episode = records(EPISODE, 1)
        episode.start_s, episode.next_s = np.nan, -np.inf
        self.episodes[place] = episode[0]

    def play(self, actions: Ints) -> None:
        """Switch nodes in each episode, and simulate to the next decisions.

        Args:
            actions: int64[count], `DECIDES`, `BEGIN` or `LEAVE`.
        """
        while True:
            given = actions
            self._threads.play(lambda number, part: self._plays[number](given[part]))  # noqa: B023
            short = (actions != LEAVE) & (self.episodes.is_short != 0)
            if not short.any():
                return
            self._make_room()
            actions = np.where(short, GOES_ON, LEAVE)

    def _make_room(self) -> None:
        """Make the free cores in future longer, which some episode found too short."""
        ahead, power = self._states.ahead, self._states.power
        assert ahead is not None
        assert power is not None
        g, nodes_off = self._states.g[:, 0], power.g.nodes_off[:, 0]
        needed = max(map(lines_needed, g, nodes_off.tolist()))
        lines = max(needed, 2 * ahead.lines.shape[1])
        longer = {}
        for name in ("free", "lines"):
            column = getattr(ahead, name)
            longer[name] = np.zeros((len(column), lines, *column.shape[2:]), column.dtype)
            longer[name][:, : column.shape[1]] = column
        self._states = self._states._replace(ahead=ahead._replace(**longer))
        self._load()

    @property
    def over(self) -> Bools:
        """Whether all jobs of each episode are over, bool[count]."""
        over: Bools = self.episodes.is_over != 0
        return over

    def now_s(self, place: int) -> float:
        """Return the simulated time of an episode, s."""
        return float(self._states.g.now_s[place, 0])

    def metrics(self, place: int) -> dict[str, float]:
        """Return the metrics of an episode that is over."""
        state = changed(self._states, lambda column: column[place])
        energy_j = sum(map(sum, metered_by_state(state, ["computing_j", "idle_j"], "energy_j")))
        makespan_s = float(state.g.now_s[0] - state.jobs.submit_s[0])
        return {"energy_j": energy_j, "edp_js": energy_j * makespan_s, "makespan_s": makespan_s}


def _initial(task: PowerTask, jobs: JobTable, name: str, awareness: Awareness) -> State:
    """Return the initial state of an episode."""
    state = initial_state(
        task.platform,
        jobs,
        np.ones(len(jobs), np.bool_),
        ranks(name, jobs),
        kill_at_walltime=task.rules.kill_at_walltime,
        reference_ghz=task.rules.reference_ghz,
        names_nodes=family_of(name, awareness) == "aware",
        manager=ManagerCode(NO_MANAGER),
        on_first=puts_on_first(name, awareness),
    )
    assert state.power is not None
    changes = records(POWER_CHANGE, 2 * CHANGES_PER_NODE * task.platform.node_count)
    return state._replace(power=state.power._replace(changes=changes))


def _put(many: Any, place: int, one: Any) -> None:
    """Write a state in the place of one of many."""
    for column, part in zip(many, one, strict=True):
        if isinstance(part, tuple):
            _put(column, place, part)
        elif part is not None:
            column[place][: len(part)] = part
