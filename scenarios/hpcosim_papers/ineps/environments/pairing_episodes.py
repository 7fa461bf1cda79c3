"""Episodes of `hpcosim/JobNodePairing-v1` on the compiled engine, all in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import asdict

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_compiled.batches import Threads, changed, space_for
from hpcosim_compiled.compiler import load_part, loaded
from hpcosim_compiled.policies import unsupported
from hpcosim_compiled.state import BEGIN, LEAVE, PLACE, State, initial_state, records
from hpcosim_gym.environments.batch_compiled import permits
from hpcosim_papers.ineps.agent.forecast_features import WEIGHTS, Forecast
from hpcosim_papers.ineps.agent.policy import features_of
from hpcosim_papers.ineps.agent.site import Kind
from hpcosim_papers.ineps.environments import pairing_compiled
from hpcosim_papers.ineps.environments.pairing_compiled import (
    COSTS,
    EPISODE,
    GROUP,
    NODE,
    OPTION,
    SHARE,
    SITE,
    SLOT,
    Cluster,
    Forecasts,
    PairingCode,
    Space,
    Steps,
)
from hpcosim_papers.ineps.environments.pairing_task import PairingTask
from hpcosim_protocol import Platform
from hpcosim_sim.engine.engine import Rules
from hpcosim_workloads.table import PLACEMENTS, JobTable

WHOLE_NODES = PLACEMENTS.index("whole_nodes")

PART = "pairing"
"""Part of the compiled code, see `note_warm`."""

OF_STATE = ("g", "jobs", "nodes", "free", "kinds")
OF_PROCESSORS = ("slots", "first_slot", "each", "nodes", "needs", "timers")
"""Arrays whose begin matters; of the others, these count the records."""

UNUSED = ("ends", "keyed", "ended_idle", "profile", "lows", "rows", "keys")
"""Arrays of a state that an agent's simulation does not use."""


def supports(task: PairingTask, jobs: JobTable) -> bool:
    """Return whether the compiled engine supports all of a task."""
    settings = task.settings
    alarms = 0.0 if settings.wait_s is None else settings.most_wait_s / settings.wait_s
    return (
        permits(task.rules, jobs)
        and not unsupported(task.platform, jobs, "fcfs")
        and int(jobs.cores.max()) <= max(task.platform.cores_by_node())
        and not (jobs.placement == WHOLE_NODES).any()
        and alarms < Rules().stuck_after_wakeups / 2
    )


def kinds_of(jobs: JobTable) -> tuple[Ints, list[Kind]]:
    """Return the number of the kind of each job, and the kinds."""
    columns = np.stack([jobs.cores, jobs.requested_s, jobs.memory_volume_mb, jobs.max_energy_j], 1)
    kinds, numbers = np.unique(columns, axis=0, return_inverse=True)
    return numbers.reshape(-1), [Kind(int(cores), *rest) for cores, *rest in kinds.tolist()]


class PairingEpisodes:
    """Episodes of a task that are played together.

    Args:
        task: the task.
        workloads: the jobs of each episode; `supports` permits the task with them.

    Attributes:
        rows: float32[count, actions, columns], the rows of all actions; 0: it is masked.
        mask: int8[count, actions], 1: the action is allowed. After the end only the last is.
        gains: float64[count], reward of the last action of each, without baseline and scale; see
            `reward_between`.
        kinds: the kinds of the jobs of each.
        over: bool[count], whether all jobs are over.

    `rows` and `mask` are written anew by each call of `play`.

    Raises:
        Exception: Numba cannot compile the engine on this machine.
    """

    def __init__(self, task: PairingTask, workloads: Sequence[JobTable]) -> None:
        count, settings, nodes = len(workloads), task.settings, task.platform.node_count
        self._task = task
        most_jobs = max(map(len, workloads))
        different = {id(jobs): jobs for jobs in workloads}
        firsts = {key: _initial(task, jobs) for key, jobs in different.items()}
        kinds = {key: kinds_of(jobs) for key, jobs in different.items()}
        self._firsts = [firsts[id(jobs)] for jobs in workloads]
        longest = max(firsts.values(), key=lambda one: len(one.jobs))
        self._states = space_for(count, longest)
        cores = np.array(task.platform.cores_by_node())
        self._cluster = _cluster(task.platform)
        self.kinds = [kinds[id(jobs)][1] for jobs in workloads]
        self._forecasts = Forecasts(
            space_for(count, records(SITE, nodes)),
            space_for(count, records(SHARE, int(cores.sum()))),
            np.zeros((count, most_jobs), np.int64),
            space_for(count, records(SLOT, settings.window_jobs)),
        )
        for place, jobs in enumerate(workloads):
            self._forecasts.kinds[place, : len(jobs)] = kinds[id(jobs)][0]
        self._episodes = records(EPISODE, count)
        self._code = _code(task)
        actions = settings.window_jobs * nodes + 1
        self.rows = np.zeros((count, actions, features_of(settings)), np.float32)
        self.mask = np.zeros((count, actions), np.int8)
        self._threads = Threads(count)
        self._spaces = [
            Space(
                records(SHARE, int(cores.max()) + 1),
                records(OPTION, nodes),
                np.zeros(nodes, np.int64),
                np.zeros(most_jobs, np.int64),
                records(COSTS, len(WEIGHTS)),
                np.zeros((nodes, len(WEIGHTS))),
            )
            for _ in self._threads.parts
        ]
        self.gains, self._cost, self._now_s = np.zeros(count), np.zeros(count), np.zeros(count)
        load_part(PART, self._load, *pairing_compiled.USES)

    def begin(self, places: Ints) -> None:
        """Put new episodes at places; the action `BEGIN` simulates to their first choices."""
        together: dict[int, list[int]] = {}
        for place in places.tolist():
            together.setdefault(id(self._firsts[place]), []).append(place)
        for some in together.values():
            first, many = self._firsts[some[0]], self._states
            pairs = ((first, many, OF_STATE), (first.processors, many.processors, OF_PROCESSORS))
            for one, all_, names in pairs:
                for name in names:
                    part = getattr(one, name)
                    getattr(all_, name)[some, : len(part)] = part
        sites = records(SITE, 1)
        sites.busy_until_s = -np.inf
        self._forecasts.sites[places] = sites[0]
        episode = records(EPISODE, 1)
        episode.waits_since_s = np.inf
        self._episodes[places] = episode[0]

    def play(self, actions: Ints) -> None:
        """Carry out an action in each episode, and simulate to the next choices.

        Args:
            actions: int64[count], allowed actions, `BEGIN` or `LEAVE`.
        """
        given = actions.astype(np.int64, copy=False)
        self._threads.play(lambda number, part: self._plays[number](given[part]))
        self._episodes.kind[actions == LEAVE] = -1
        begun, before, before_s = actions == BEGIN, self._cost, self._now_s
        self._cost = np.where(begun, 0.0, self._costs())
        self._now_s = np.where(begun, self.start_s, self.now_s)
        self.gains = before - self._cost
        if self._task.reward == "spent" and self._task.settings.objective == "edp":
            self.gains *= self._now_s - before_s

    def _load(self) -> None:
        """Load the compiled code, and bind it to the episodes of each part."""
        pairs = zip(self._spaces, self._threads.parts, strict=True)
        self._plays = [self._bound(space, part) for space, part in pairs]

    def _bound(self, space: Space, part: slice) -> Callable[[Ints], None]:
        arguments = (
            changed(self._states, lambda column: column[part]),
            self._cluster,
            changed(self._forecasts, lambda column: column[part]),
            self._episodes[part],
            space,
            self._code,
            Steps(self.rows[part], self.mask[part]),
        )
        nothing = np.full(part.stop - part.start, LEAVE)
        play = loaded(pairing_compiled.play, *arguments, nothing)
        play(*arguments, nothing)
        return partial(play, *arguments)

    @property
    def over(self) -> Bools:
        """Whether all jobs of each episode are over, bool[count]."""
        over: Bools = self._episodes.is_over != 0
        return over

    @property
    def now_s(self) -> Floats:
        """Simulated time of each, float64[count], s."""
        return np.array(self._states.g.now_s[:, 0])

    @property
    def start_s(self) -> Floats:
        """Begin of each, float64[count], s."""
        return np.array(self._states.jobs.submit_s[:, 0])

    @property
    def placed(self) -> Ints:
        """Kind of the job that the last action of each started, int64[count]; -1: none."""
        return np.array(self._episodes.kind)

    def energies_j(self) -> Floats:
        """Return the energy of all nodes up to the last integration, float64[count], J."""
        kinds = self._states.kinds
        of_kinds = (kinds.computing_j + kinds.idle_j).tolist()
        return np.array([sum(of_one) for of_one in of_kinds])

    def _costs(self) -> Floats:
        """Return the cost of each so far, float64[count]; see `spent_so_far`."""
        task, over = self._task, self.over
        if task.reward == "spent":
            return self.energies_j()
        costs = np.array(self._episodes.cost)
        if over.any():
            costs[over] = self.objectives()[over]
        return costs

    def objectives(self) -> Floats:
        """Return the objective of each that is over, float64[count]."""
        energies_j = self.energies_j()
        if self._task.settings.objective == "energy":
            return energies_j
        objectives: Floats = energies_j * (self.now_s - self.start_s)
        return objectives

    def visible(self, place: int) -> Ints:
        """Return the rows of the visible jobs of an episode, by slot."""
        rows: Ints = self._forecasts.slots.row[place, : self._episodes.slots[place]]
        return rows


def _initial(task: PairingTask, jobs: JobTable) -> State:
    """Return the initial state of an episode, with room for what an agent needs."""
    count, rules = len(jobs), task.rules
    state = initial_state(
        task.platform,
        jobs,
        np.ones(count, np.bool_),
        np.zeros(count, np.int64),
        kill_at_walltime=rules.kill_at_walltime,
        reference_ghz=rules.reference_ghz,
        node_keys=np.zeros(task.platform.node_count),
    )
    unused: dict[str, Any] = {name: getattr(state, name)[:0] for name in UNUSED}
    unused |= dict.fromkeys(("ahead", "said", "power"))
    return state._replace(places=records(PLACE, count), **unused)


def _cluster(platform: Platform) -> Cluster:
    groups, nodes = records(GROUP, len(platform.nodes)), records(NODE, platform.node_count)
    of_node = np.repeat(np.arange(len(groups)), [group.count for group in platform.nodes])
    types = [site.type for site in Forecast(platform).sites]
    for number, group in enumerate(platform.nodes):
        own, about = groups[number], types[int(np.argmax(of_node == number))]
        own.slowness = platform.slowest_ops_per_s / group.ops_per_s
        own.static_w, own.dynamic_w, own.idle_w = group.static_w, group.dynamic_w, group.idle_w
        own.computing_w, own.core_w = about.computing_w, about.core_w
        if about.model is not None:
            own.contends = 1
            for name, constant in asdict(about.model).items():
                own[name] = constant
    cores = np.array(platform.cores_by_node())
    nodes.group, nodes.first = of_node, np.cumsum(cores) - cores
    ops_per_s = np.array([group.ops_per_s for group in platform.nodes])
    columns = {"speed": ops_per_s, "static": groups.static_w, "dynamic": groups.dynamic_w}
    for name, values in columns.items():
        nodes[name] = (values / max(float(values.max()), 1e-12))[of_node]
    nodes.cores = cores / int(cores.max())
    return Cluster(groups, nodes)


def _code(task: PairingTask) -> PairingCode:
    settings, platform = task.settings, task.platform
    static_w = np.array([group.static_w for group in platform.nodes])
    dynamic_w = np.array([group.cores * group.dynamic_w for group in platform.nodes])
    return PairingCode(
        foresees=settings.sees == "foreseen",
        settles=task.reward == "spent",
        window_jobs=settings.window_jobs,
        one_per_event=settings.placements_per_event == "one",
        wait=settings.wait,
        wait_s=np.inf if settings.wait_s is None else float(settings.wait_s),
        most_wait_s=float(settings.most_wait_s),
        is_edp=settings.objective == "edp",
        time_s=float(settings.time_s),
        energy_j=float(settings.energy_j),
        idle_w=float(Forecast(platform).idle_w),
        largest_cores=max(platform.cores_by_node()),
        most_static_w=max(float(static_w.max()), 1e-12),
        most_dynamic_w=max(float(dynamic_w.max()), 1e-12),
    )
