"""Tasks: duration of a job on its hosts, and load of the hosts.

Computation follows Batsim: a task ends when its slowest host has finished. The other hosts compute
at the fraction of their speed with which they finish at the same time, so they draw less than
their full power.

Communication takes no time on a platform without links. Otherwise it overlaps computation and takes
the time of the busiest link, plus the longest latency of a message (`demand`).

A profile that cannot run is an `InputError` that names it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.fair_bottleneck import Amount
from hpcosim_batsim.inputs import workload_model as model
from hpcosim_batsim.inputs.platform_model import BatsimPlatform
from hpcosim_batsim.network import (
    Network,
    Traffic,
    matrix_traffic,
    traffic_of,
    uniform_traffic,
)

NOTHING_SHARED: Mapping[int, Amount] = MappingProxyType({})

Placed = Mapping[str, Sequence[int]]
"""The host of each process of profiles, by their names."""

NOT_PLACED: Placed = MappingProxyType({})

Storage = Mapping[str, str]
"""Name of the storage host for each label."""

NO_STORAGE: Storage = MappingProxyType({})

ParallelProfile = model.Parallel | model.ParallelHomogeneous
StorageProfile = model.StorageTransfer | model.DataStaging

SAME_TIME_S = 1e-9  # phases of hosts that end within this time end together

TCP_GAMMA_BYTES = 4194304.0
"""Largest TCP window, bytes (SimGrid's `network/TCP-gamma`): a message of a route with the latency
`l` has at most half of it in each `l`."""


class SimpleTask(Struct, frozen=True):
    """A task without subtasks.

    Attributes:
        loads: load by host number, the fraction of its speed in use, 0 to 1; default 0.
        latency_s: time at its begin without load and progress, s.
        shared: amounts on resources that other jobs may use at the same time, see `demand`. If
            there are any, duration and loads are those without such jobs.
    """

    profile: str
    duration_s: float
    loads: Mapping[int, float]
    latency_s: float = 0.0
    shared: Mapping[int, Amount] = NOTHING_SHARED
    ret: int = 0


class SequentialTask(Struct, frozen=True):
    """A sequence of tasks."""

    profile: str
    tasks: tuple[HostTask, ...]
    repeat: int
    duration_s: float
    ret: int = 0


class ReplayTask(Struct, frozen=True):
    """A task whose hosts change their loads at fixed times.

    Attributes:
        phases: duration, s, and load by host number.
    """

    profile: str
    phases: tuple[tuple[float, Mapping[int, float]], ...]
    duration_s: float
    ret: int = 0


HostTask = SimpleTask | SequentialTask | ReplayTask


def task_of(
    profile: model.BatsimProfile,
    profiles: Mapping[str, model.BatsimProfile],
    platform: BatsimPlatform,
    hosts: Sequence[int],
    pstates: Sequence[int],
    *,
    share_hosts: bool = False,
    placed: Placed = NOT_PLACED,
    storage: Storage = NO_STORAGE,
) -> HostTask:
    """Return the task of a job on its hosts.

    Args:
        hosts: number of the host of each process, in order; a host may have several processes.
        share_hosts: whether a host may run several jobs.
        placed: profiles that run on other hosts than those.
        storage: storage hosts; default: the only one of the platform for `StorageTransfer`.
    """
    hosts = placed.get(profile.name, hosts)
    if isinstance(profile, model.Composed):
        tasks = (
            task_of(
                _named(profile, name, profiles),
                profiles,
                platform,
                hosts,
                pstates,
                share_hosts=share_hosts,
                placed=placed,
                storage=storage,
            )
            for name in profile.sequence
        )
        return _sequence(profile, tasks)
    if isinstance(profile, model.Delay):
        return SimpleTask(profile.name, profile.delay_s, {}, ret=profile.ret)
    if isinstance(profile, StorageProfile):
        return _storage_task(profile, platform, hosts, storage, share_hosts=share_hosts)
    size = _size_of(profile)
    if size is not None and size != len(hosts):
        raise InputError("", f"profile {profile.name}", f"is for {size} hosts, got {len(hosts)}")
    if isinstance(profile, model.UsageReplay):
        return _replay(profile, platform, hosts, pstates, share_hosts=share_hosts)
    return _parallel_task(profile, platform, hosts, pstates, share_hosts)


def _size_of(profile: model.BatsimProfile) -> int | None:
    """Return the number of processes of a profile; None: any number."""
    if isinstance(profile, model.Parallel):
        return len(profile.cpu_flop)
    return len(profile.phases) if isinstance(profile, model.UsageReplay) else None


def parts(task: HostTask) -> Iterator[SimpleTask]:
    """Yield the simple tasks of a task in order."""
    if isinstance(task, SimpleTask):
        yield task
        return
    if isinstance(task, ReplayTask):
        for duration_s, loads in task.phases:
            yield SimpleTask(task.profile, duration_s, loads)
        return
    for _ in range(task.repeat):
        for part in task.tasks:
            yield from parts(part)


def shares_resources(task: HostTask) -> bool:
    """Tell whether other jobs may slow a task down."""
    if isinstance(task, SimpleTask):
        return bool(task.shared)
    if isinstance(task, ReplayTask):
        return False
    return any(shares_resources(each) for each in task.tasks)


def check_profiles(workload: model.BatsimWorkload, platform: BatsimPlatform) -> None:
    """Check that the profile of every job of a workload is supported on a platform."""
    for job in workload.jobs:
        try:
            _check_profile(workload.profiles[job.profile], workload.profiles, platform, job.res)
        except InputError as error:
            where = f"job {job.full_id}: {error.where}"
            raise InputError(workload.path, where, error.what) from None


def communicating_profile(workloads: Iterable[model.BatsimWorkload]) -> str:
    """Return the location of the first profile that communicates between hosts; "": none does."""
    for workload in workloads:
        seen: dict[bool, set[str]] = {True: set(), False: set()}  # by whether a job has one host
        for job in workload.jobs:
            alone = job.res == 1
            if _has_communication(job.profile, workload.profiles, seen[alone], alone=alone):
                return f"{workload.path}: profile {job.profile}"
    return ""


def _has_communication(
    name: str, profiles: Mapping[str, model.BatsimProfile], seen: set[str], *, alone: bool
) -> bool:
    if name in seen:
        return False
    seen.add(name)
    profile = profiles[name]
    if isinstance(profile, model.Composed):
        parts_of = profile.sequence
        return any(_has_communication(each, profiles, seen, alone=alone) for each in parts_of)
    if isinstance(profile, StorageProfile):
        return True
    return not alone and isinstance(profile, ParallelProfile) and communicates(profile)


def _check_profile(
    profile: model.BatsimProfile,
    profiles: Mapping[str, model.BatsimProfile],
    platform: BatsimPlatform,
    res: int,
) -> None:
    if isinstance(profile, model.Composed):
        for name in dict.fromkeys(profile.sequence):
            _check_profile(profiles[name], profiles, platform, res)
    elif isinstance(profile, model.Parallel) and len(profile.cpu_flop) != res:
        raise InputError(
            "",
            f"profile {profile.name}",
            f"is for {len(profile.cpu_flop)} hosts, but the job requests {res}",
        )
    elif isinstance(profile, StorageProfile):
        if not platform.storage:
            what = f"needs a storage host; {platform.path} has none"
            raise InputError("", f"profile {profile.name}", what)
        check_network(profile, platform)
    elif res > 1 and isinstance(profile, ParallelProfile) and communicates(profile):
        check_network(profile, platform)


def _sequence(profile: model.Composed, tasks: Iterable[HostTask]) -> SequentialTask:
    """Return a sequence of tasks. As in Batsim, it ends with the first task that fails."""
    done: list[HostTask] = []
    repeat, ret = profile.repeat, profile.ret
    for task in tasks:
        done.append(task)
        if task.ret:
            repeat, ret = 1, task.ret
            break
    duration_s = repeat * math.fsum(task.duration_s for task in done)
    return SequentialTask(profile.name, tuple(done), repeat, duration_s, ret)


def _parallel_task(
    profile: ParallelProfile,
    platform: BatsimPlatform,
    hosts: Sequence[int],
    pstates: Sequence[int],
    share_hosts: bool,
) -> SimpleTask:
    demand = demand_of(profile, platform, hosts, pstates, share_hosts=share_hosts)
    loads = {
        host: min(flop.total / platform.hosts[host].flops(pstates[host]) / demand.alone_s, 1.0)
        for host, flop in demand.flop.items()
        if flop.total > 0
    }
    duration_s = demand.latency_s + demand.alone_s
    return SimpleTask(profile.name, duration_s, loads, demand.latency_s, demand.shared, profile.ret)


def _storage_task(
    profile: StorageProfile,
    platform: BatsimPlatform,
    hosts: Sequence[int],
    storage: Storage,
    *,
    share_hosts: bool,
) -> SimpleTask:
    """Return the task of transfers from and to storage hosts."""
    where = f"profile {profile.name}"
    if isinstance(profile, model.DataStaging):
        labels = [profile.source, profile.target]
    else:
        labels = [profile.storage]
        if not storage and len(platform.storage) == 1:
            storage = {profile.storage: platform.storage[0].name}
    if missing := [label for label in labels if label not in storage]:
        known = ", ".join(map(repr, storage)) or "no label"
        what = f"needs a storage host for {missing[0]!r}; storage_mapping has {known}"
        raise InputError("", where, what)
    messages: list[tuple[str, str, float]] = []
    if isinstance(profile, model.DataStaging):
        messages.append((storage[profile.source], storage[profile.target], profile.size_bytes))
    else:
        name = storage[profile.storage]
        for host in hosts:
            messages.append((name, platform.hosts[host].name, profile.read_bytes))
            messages.append((platform.hosts[host].name, name, profile.write_bytes))
    if platform.no_network:
        return SimpleTask(profile.name, 0.0, {}, ret=profile.ret)
    check_network(profile, platform)
    try:
        traffic = traffic_of(platform.network, messages)
    except ValueError as error:
        raise InputError(platform.path, where, str(error)) from None
    shared = _shared_links(platform.network, traffic, share_hosts=share_hosts)
    for name in {storage[label] for label in labels}:  # other jobs use their links, too
        place = platform.network.place(name)
        for link in {*place.up, *place.down} & traffic.link_bytes.keys():
            size = traffic.link_bytes[link]
            shared[link] = Amount(size, size)
    duration_s = traffic.latency_s + _transfer_s(traffic, platform.network)
    return SimpleTask(profile.name, duration_s, {}, traffic.latency_s, shared, profile.ret)


def _replay(
    profile: model.UsageReplay,
    platform: BatsimPlatform,
    hosts: Sequence[int],
    pstates: Sequence[int],
    *,
    share_hosts: bool,
) -> ReplayTask:
    """Return the task that replays the usage of hosts.

    As in Batsim, a phase takes the time that one core needs for its computation, and uses at least
    one core.
    """
    where = f"profile {profile.name}"
    if share_hosts or len(set(hosts)) < len(hosts):
        raise InputError("", where, "replays the usage of hosts; each process needs a host alone")
    steps: list[tuple[float, int, float]] = []  # time, host, its load from then on
    for number, phases in zip(hosts, profile.phases, strict=True):
        host, at_s = platform.hosts[number], 0.0
        for usage, flop in phases:
            cores = max(math.floor(usage * host.cores + 0.5), 1)
            steps.append((at_s, number, cores / host.cores))
            at_s += flop / host.speeds[pstates[number]]
        steps.append((at_s, number, 0.0))
    steps.sort(key=lambda step: step[0])
    whole: list[tuple[float, Mapping[int, float]]] = []
    loads: dict[int, float] = {}
    begin_s = 0.0
    for at_s, number, load in steps:
        if at_s - begin_s > SAME_TIME_S:
            whole.append((at_s - begin_s, dict(loads)))
            begin_s = at_s
        loads[number] = load
    return ReplayTask(profile.name, tuple(whole), begin_s, profile.ret)


def _named(
    above: model.Composed, name: str, profiles: Mapping[str, model.BatsimProfile]
) -> model.BatsimProfile:
    if name not in profiles:
        raise InputError("", f"profile {above.name}", f"there is no profile {name!r}")
    return profiles[name]


class Demand(Struct):
    """Demand of a parallel task.

    Attributes:
        latency_s: time before it begins to compute and to transfer, s.
        alone_s: time for its computations and transfers if no other job uses its hosts and links,
            s; they overlap.
        flop: computations on each host, flop; their parts are processes.
        shared: amount on each resource that other jobs may use at the same time. A resource is a
            number: the index of a link in the network, or -1 minus the number of a host.
    """

    latency_s: float
    alone_s: float
    flop: dict[int, Amount]
    shared: dict[int, Amount]


def demand_of(
    profile: ParallelProfile,
    platform: BatsimPlatform,
    hosts: Sequence[int],
    pstates: Sequence[int],
    *,
    share_hosts: bool,
) -> Demand:
    """Return the demand of a profile on hosts.

    Args:
        share_hosts: whether a host may run several jobs.
    """
    flop = _computations(profile, hosts)
    cpu_s = _compute_s(flop, platform, pstates, many=len(flop) < len(hosts))
    demand = Demand(0.0, cpu_s, flop, {})
    traffic = _traffic(profile, platform, hosts)
    if traffic is not None:
        demand.latency_s = traffic.latency_s
        demand.alone_s = max(cpu_s, _transfer_s(traffic, platform.network))
        demand.shared = _shared_links(platform.network, traffic, share_hosts=share_hosts)
    if share_hosts:
        demand.shared |= {-1 - host: amount for host, amount in flop.items() if amount.total > 0}
    return demand


def capacity_of(resource: int, platform: BatsimPlatform, pstates: Sequence[int]) -> float:
    """Return the capacity of a resource, bytes/s of a link or flop/s of a host."""
    if resource >= 0:
        return platform.network.links[resource].bytes_per_s
    host = -1 - resource
    return platform.hosts[host].flops(pstates[host])


def communicates(profile: ParallelProfile) -> bool:
    """Tell whether a profile has messages, between hosts or within them."""
    if isinstance(profile, model.Parallel):
        return any(profile.com_bytes)
    return profile.com_bytes > 0


def check_network(profile: ParallelProfile | StorageProfile, platform: BatsimPlatform) -> None:
    """Check that the network of a platform supports a profile that communicates."""
    why = platform.network.unsupported
    if why and not platform.no_network:
        raise InputError(
            "",
            f"profile {profile.name}",
            f"communicates, but hpcosim does not simulate the network of {platform.path}: {why}",
        )


def _traffic(
    profile: ParallelProfile, platform: BatsimPlatform, hosts: Sequence[int]
) -> Traffic | None:
    """Return the traffic of a profile; None: there is none."""
    if platform.no_network or len(hosts) == 1 or not communicates(profile):
        return None  # as in SimGrid, a task with one process has no messages
    check_network(profile, platform)
    names = [platform.hosts[host].name for host in hosts]
    try:
        if isinstance(profile, model.Parallel):
            return matrix_traffic(platform.network, names, profile.com_bytes)
        size = profile.com_bytes
        if profile.total:
            size /= len(hosts) * (len(hosts) - 1) if profile.per_pair else len(hosts)
        return uniform_traffic(platform.network, names, size)
    except ValueError as error:
        raise InputError(platform.path, f"profile {profile.name}", str(error)) from None


def _transfer_s(traffic: Traffic, network: Network) -> float:
    """Return the time of the slowest transfer without other jobs, s."""
    tcp_s = traffic.latency_bytes * 2.0 / TCP_GAMMA_BYTES
    times_s = (size / network.links[link].bytes_per_s for link, size in traffic.link_bytes.items())
    return max(tcp_s, max(times_s, default=0.0))


def _shared_links(network: Network, traffic: Traffic, *, share_hosts: bool) -> dict[int, Amount]:
    """Return the traffic on links that other jobs may use at the same time and that they share."""
    return {
        link: Amount(size, size)
        for link, size in traffic.link_bytes.items()
        if not network.links[link].fatpipe and (share_hosts or link not in network.own)
    }


def _compute_s(
    flop: Mapping[int, Amount], platform: BatsimPlatform, pstates: Sequence[int], *, many: bool
) -> float:
    """Return the time of the computations, s: each process has one core."""
    hosts = platform.hosts
    core_s = max(
        amount.largest / hosts[host].speeds[pstates[host]] for host, amount in flop.items()
    )
    if not many:
        return core_s
    host_s = (amount.total / hosts[host].flops(pstates[host]) for host, amount in flop.items())
    return max(core_s, *host_s)


def _computations(profile: ParallelProfile, hosts: Sequence[int]) -> dict[int, Amount]:
    """Return the computations on each host; parts are the processes with any."""
    count = len(hosts)
    if isinstance(profile, model.ParallelHomogeneous):
        each = profile.cpu_flop / count if profile.total else profile.cpu_flop
        flop = dict.fromkeys(hosts, Amount(each, each))
        if len(flop) < count:
            for host, processes in Counter(hosts).items():
                flop[host] = Amount(processes * each, each, processes)
        return flop
    amounts: dict[int, list[float]] = {host: [] for host in hosts}
    for host, amount in zip(hosts, profile.cpu_flop, strict=True):
        amounts[host] += [amount] if amount > 0 else []
    return {
        host: Amount(math.fsum(found), max(found, default=0.0), len(found))
        for host, found in amounts.items()
    }


def progress(task: HostTask, elapsed_s: float) -> dict[str, Any]:
    """Return the progress of a task after `elapsed_s` seconds, in the form of `JOB_KILLED`."""
    if isinstance(task, SimpleTask):
        work_s = task.duration_s - task.latency_s
        done_s = max(elapsed_s - task.latency_s, 0.0)
        share = min(done_s / work_s, 1.0) if work_s else 1.0
        return {"profile_name": task.profile, "progress": share}
    if isinstance(task, ReplayTask):
        share = min(elapsed_s / task.duration_s, 1.0) if task.duration_s else 1.0
        return {"profile_name": task.profile, "progress": share}
    times, index, rest_s = _position(task, min(elapsed_s, task.duration_s))
    return {
        "profile_name": task.profile,
        "current_task_index": times * len(task.tasks) + index,
        "current_task": progress(task.tasks[index], rest_s),
    }


def part_at(task: HostTask, elapsed_s: float) -> tuple[int, float]:
    """Return the number of the current part `elapsed_s` after the start, and its elapsed time, s.

    Parts are those of `parts`; those of a `ReplayTask` count as one.
    """
    number = 0
    while isinstance(task, SequentialTask):
        times, index, elapsed_s = _position(task, min(elapsed_s, task.duration_s))
        counts = [_count_of_parts(each) for each in task.tasks]
        number += times * sum(counts) + sum(counts[:index])
        task = task.tasks[index]
    return number, elapsed_s


def replays(task: HostTask) -> bool:
    """Tell whether a part of a task replays the usage of hosts."""
    if isinstance(task, SequentialTask):
        return any(replays(each) for each in task.tasks)
    return isinstance(task, ReplayTask)


def progress_of_part(task: HostTask, part: int, share: float) -> dict[str, Any]:
    """Return the progress of a task in the form of `JOB_KILLED`.

    Args:
        part: number of its current simple task, in the order of `parts`.
        share: progress of that simple task, 0 to 1.
    """
    if isinstance(task, SimpleTask):
        return {"profile_name": task.profile, "progress": share}
    if isinstance(task, ReplayTask):
        before_s = math.fsum(duration_s for duration_s, _ in task.phases[:part])
        return progress(task, before_s + share * task.phases[part][0])
    counts = [_count_of_parts(each) for each in task.tasks]
    times, rest = divmod(part, sum(counts))
    index = 0
    while rest >= counts[index]:
        rest -= counts[index]
        index += 1
    return {
        "profile_name": task.profile,
        "current_task_index": times * len(task.tasks) + index,
        "current_task": progress_of_part(task.tasks[index], rest, share),
    }


def _count_of_parts(task: HostTask) -> int:
    if isinstance(task, SimpleTask):
        return 1
    if isinstance(task, ReplayTask):
        return len(task.phases)
    return task.repeat * sum(_count_of_parts(each) for each in task.tasks)


def _position(series: SequentialTask, elapsed_s: float) -> tuple[int, int, float]:
    """Return the complete repetitions, the index of the current task, and its elapsed time, s."""
    once_s = series.duration_s / series.repeat
    times = min(int(elapsed_s // once_s), series.repeat - 1) if once_s else series.repeat - 1
    rest_s = max(elapsed_s - times * once_s, 0.0)
    for index, task in enumerate(series.tasks[:-1]):
        if rest_s < task.duration_s:
            return times, index, rest_s
        rest_s -= task.duration_s
    return times, len(series.tasks) - 1, min(rest_s, series.tasks[-1].duration_s)
