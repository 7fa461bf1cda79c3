"""Changes of a cluster, and what they would do to waits, energy and cost over the same futures."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace

from hpcosim_client import PolicyError
from hpcosim_client.arrays import Floats
from hpcosim_experiments.executors import ParallelMap
from hpcosim_experiments.statistics.bootstrap import Bootstrap, estimate, paired_difference
from hpcosim_protocol import Platform
from hpcosim_protocol.errors import HostListError
from hpcosim_protocol.hosts import NodeNames, expand
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.overrides import apply
from hpcosim_schedulers.catalogue.power import Beside, check_together
from hpcosim_schedulers.catalogue.schedulers import scheduler_names
from hpcosim_schedulers.power.settings import PATHS, AlwaysOn, parse_power
from hpcosim_twin.cluster.observation import (
    DrawnRunTimes,
    ForecastError,
    JobRunTimes,
    Observation,
    learned,
)
from hpcosim_twin.cluster.queue_state import (
    AdoptedState,
    ManagedScheduler,
    NamedScheduler,
    QueuedJob,
    QueueState,
    adopted,
)
from hpcosim_twin.futures.compiled import outcomes_of
from hpcosim_twin.futures.forecast import Submissions, drawn_run_times, map_in_batches
from hpcosim_twin.futures.reference import Outcome

DAY_S = 86_400.0
MOST_ADDED = 100_000
MOST_SUBMISSIONS = 200_000
CONFIDENCE = 0.95
"""Probability that all intervals of an answer hold together."""
ALL = "all"


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of a cluster; what is not given stays.

    Attributes:
        settings: settings of the scheduler `slurm` by dotted path, such as
            `{"scheduler.bf_interval_s": 60}`.
        scheduler: another scheduler, by name.
        power: a power manager with its settings, such as `{"name": "timeout", "timeout_s": 900}`.
        drain: host list of nodes on which no further job starts.
        add: number of further nodes, by the name of a node that they are like.
    """

    settings: dict[str, Any] = {}
    scheduler: Annotated[str, Meta(max_length=100)] = ""
    power: dict[str, Any] = {}
    drain: Annotated[str, Meta(max_length=10_000)] = ""
    add: dict[str, Annotated[int, Meta(ge=1, le=MOST_ADDED)]] = {}


class Difference(NamedTuple):
    """A figure now and after a change: means over the futures, paired.

    Attributes:
        low, high: interval of `difference`; all of an answer hold together with probability
            `CONFIDENCE` (a BCa bootstrap over the futures, with Bonferroni's correction). NaN: one
            future has no interval.
        least, most: the range of the difference that one such time will show: quantiles over the
            futures, with probability `CONFIDENCE` between them.
    """

    now: float
    changed: float
    difference: float
    low: float
    high: float
    least: float
    most: float

    @property
    def is_shown(self) -> bool:
        """Whether the futures show a difference: the interval does not contain 0."""
        return self.low > 0.0 or self.high < 0.0


class AccountWaits(NamedTuple):
    """Waits of the jobs of an account, s.

    Attributes:
        account: its name; `all`: the jobs of all accounts.
        jobs: mean number of jobs that wait now or are submitted in the time, and start both ways.
        unstarted_now, unstarted_changed: mean number of jobs that do not start.
    """

    account: str
    jobs: float
    wait_s: Difference
    unstarted_now: float
    unstarted_changed: float


class Effect(NamedTuple):
    """What a change would do.

    Attributes:
        energy_j: energy of all nodes in the time, J.
    """

    waits: list[AccountWaits]
    energy_j: Difference


def changed(seen: Observation, change: Change) -> Observation:
    """Return a cluster after a change of its nodes and settings.

    Raises:
        ForecastError: a node or a setting does not exist, or a value is invalid.
    """
    try:
        settings = msgspec.to_builtins(seen.settings)
        apply(settings, change.settings)
    except ScenarioError as error:
        raise ForecastError(f"settings: {error}") from None
    seen = replace(seen, settings=settings)
    for like, count in change.add.items():
        seen = _with_nodes(seen, like, count)
    return _drained(seen, change.drain) if change.drain else seen


def _with_nodes(seen: Observation, like: str, count: int) -> Observation:
    platform, live = seen.platform, seen.state
    number = _numbers(platform, like, "add")[0]
    if like not in live.nodes:
        raise ForecastError(f"add: Slurm does not know the node {like[:100]!r}")
    first = platform.node_count
    group = next(
        group
        for group, end in zip(
            platform.nodes, np.cumsum([each.count for each in platform.nodes]), strict=True
        )
        if number < end
    )
    prefix = f"{like}-added-"
    names = f"{prefix}[1-{count}]"
    further = replace(group, count=count, names=names)
    ranges = ((first, first + count - 1),)

    def grown(nodes: Any) -> Any:
        return (*nodes, *ranges) if any(a <= number <= b for a, b in nodes) else nodes

    nodes = {name: dataclasses.replace(live.nodes[like], name=name) for name in expand(names)}
    idle = {
        name: dataclasses.replace(
            each, is_available=True, cpus_allocated=0, memory_allocated_mb=0, reason=""
        )
        for name, each in nodes.items()
    }
    return replace(
        seen,
        platform=replace(
            platform,
            nodes=(*platform.nodes, further),
            partitions=tuple(replace(p, nodes=grown(p.nodes)) for p in platform.partitions),
            switches=tuple(replace(s, nodes=grown(s.nodes)) for s in platform.switches),
        ),
        state=dataclasses.replace(live, nodes={**live.nodes, **idle}),
    )


def _drained(seen: Observation, hosts: str) -> Observation:
    live, names = seen.state, NodeNames(seen.platform)
    nodes = dict(live.nodes)
    for number in _numbers(seen.platform, hosts, "drain"):
        name = names.name_of(number)
        if name in nodes:
            nodes[name] = dataclasses.replace(nodes[name], is_available=False)
    return replace(seen, state=dataclasses.replace(live, nodes=nodes))


def _numbers(platform: Platform, hosts: str, field: str) -> list[int]:
    try:
        return NodeNames(platform).numbers(hosts)
    except HostListError as error:
        raise ForecastError(f"{field}: {error}") from None


def effect_of(
    change: Change,
    seen: Observation,
    present: AdoptedState,
    duration_s: float,
    futures: int,
    seed: int,
    parallel: ParallelMap | None = None,
) -> Effect:
    """Return what a change would do in some time from now on.

    Each future has the same submissions, run times and draws of the scheduler with the change and
    without it. Submissions end with the time; waits are those of all jobs that are submitted until
    then, whenever they start.

    Args:
        present: the state of `seen`, as `adopted` returns it.
        seed: seed of all draws. The result is the same for any number of workers.
        parallel: runs the simulations; None: one after another, in this process.

    Raises:
        ForecastError: the change does not fit the cluster.
        PolicyError: its scheduler does not fit.
    """
    if change == Change():
        raise ForecastError("no change is given; expected settings, scheduler, power, drain or add")
    try:
        other = adopted(changed(seen, change)).state
    except PolicyError as error:
        raise ForecastError(f"settings: {error}") from None
    other = _with_policy(other, change)
    plan = _Plan(
        (present.state, other), learned(seen.history), Submissions(present.state), duration_s
    )
    seeds = np.random.SeedSequence(seed).spawn(futures)
    pairs = map_in_batches(parallel, partial(_pair, plan), seeds)
    accounts = sorted({name for pair in pairs for name in pair[0].account.values()})
    groups = [ALL, *accounts] if len(accounts) > 1 else [ALL]
    level = 1.0 - (1.0 - CONFIDENCE) / (len(groups) + 1)
    energy = np.array([[each.energy_j for each in pair] for pair in pairs])
    waits = [found for name in groups if (found := _waits(name, pairs, level)) is not None]
    return Effect(waits, _difference(energy, level))


def _with_policy(state: QueueState, change: Change) -> QueueState:
    """Return a state with the scheduler and the power manager of a change.

    No file is read that a change names: questions come over the network.
    """
    if change.scheduler and change.scheduler not in scheduler_names():
        known = ", ".join(scheduler_names()[:8])
        raise ForecastError(f"scheduler: expected one without a file, such as {known}")
    policy = state.new_policy
    if change.scheduler not in ("", "slurm"):
        policy = NamedScheduler(change.scheduler)
    manager = _manager(change, state.platform) if change.power else None
    if manager is not None:
        policy = ManagedScheduler(policy, manager)
    policy(np.random.default_rng(0))  # raises now what it would raise later
    return dataclasses.replace(state, new_policy=policy)


def _manager(change: Change, platform: Platform) -> Beside | None:
    """Return the power manager of a change; None: all nodes stay on."""
    if any(name in change.power for name in PATHS):
        raise ForecastError("power: expected a manager and settings without a file")
    try:
        power = parse_power(change.power)
        check_together(change.scheduler or "slurm", power, "unaware")
    except PolicyError as error:
        raise ForecastError(str(error)) from None
    if isinstance(power, AlwaysOn):
        return None
    if not isinstance(power, Beside):
        raise ForecastError("power: expected a manager that switches nodes beside a scheduler")
    if all(group.power_states is None for group in platform.nodes):
        raise ForecastError(
            "power: no node has power states; add `power_states` to the scenario of the site"
        )
    return power


class _Plan(NamedTuple):
    """What all futures have in common.

    Attributes:
        states: the cluster without and with the change.
    """

    states: tuple[QueueState, QueueState]
    run_times: JobRunTimes
    submissions: Submissions
    duration_s: float


class _Outcome(NamedTuple):
    """What one simulation shows of jobs that wait or are submitted in the time.

    Attributes:
        account: account of each job, by number.
        wait_s: wait of each job that starts, by number, s.
    """

    account: Mapping[int, str]
    wait_s: Mapping[int, float]
    energy_j: float


def _pair(plan: _Plan, seed: np.random.SeedSequence) -> tuple[_Outcome, _Outcome]:
    """Return the outcomes of one future without and with the change."""
    generator = np.random.default_rng(seed)
    state, run_times = plan.states[0], DrawnRunTimes(plan.run_times, generator)
    future = plan.submissions.drawn(plan.duration_s, generator, plan.duration_s, MOST_SUBMISSIONS)
    run_s = drawn_run_times(run_times, [*state.jobs, *future], state.now_s)
    of_policy = int(generator.integers(1 << 62))
    found = outcomes_of(plan.states, run_s, of_policy, future, plan.duration_s)
    now, other = map(partial(_with_waits, future), plan.states, found)
    return now, other


def _with_waits(future: Sequence[QueuedJob], state: QueueState, found: Outcome) -> _Outcome:
    jobs = {job.spec.job_id: job.spec for job in (*state.waiting, *future)}
    waits_s = {number: start_s - jobs[number].submit_s for number, start_s in found.start_s.items()}
    return _Outcome({n: job.account for n, job in jobs.items()}, waits_s, found.energy_j)


def _waits(
    account: str, pairs: Iterable[tuple[_Outcome, _Outcome]], level: float
) -> AccountWaits | None:
    """Return the waits of an account; None: none of its jobs starts both ways."""
    means, counts, left = [], [], []
    for now, other in pairs:
        jobs = [n for n, name in now.account.items() if account in (ALL, name)]
        both = [n for n in jobs if n in now.wait_s and n in other.wait_s]
        counts.append(len(both))
        left.append([sum(n not in each.wait_s for n in jobs) for each in (now, other)])
        if both:
            means.append([np.mean([each.wait_s[n] for n in both]) for each in (now, other)])
    if not means:
        return None
    unstarted = np.mean(left, axis=0).tolist()
    return AccountWaits(
        account, float(np.mean(counts)), _difference(np.array(means), level), *unstarted
    )


def _difference(pairs: Floats, level: float) -> Difference:
    """Return the mean difference of pairs, float64[futures, 2], with interval and range."""
    found = estimate([pairs[:, ::-1]], paired_difference, Bootstrap(level, "bca"))
    tail = (1.0 - CONFIDENCE) / 2
    least, most = np.quantile(pairs[:, 1] - pairs[:, 0], (tail, 1.0 - tail)).tolist()
    now, other = pairs.mean(axis=0).tolist()
    return Difference(now, other, found.value, found.low, found.high, least, most)
