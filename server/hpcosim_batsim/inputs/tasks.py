"""Tasks: duration of a job on its hosts, and load of the hosts.

Computation follows Batsim: a task ends when its slowest host has finished. The other hosts compute
at the fraction of their speed with which they finish at the same time, so they draw less than
their full power.

Communication takes no time on a platform without links. Otherwise it overlaps computation and takes
the time of the busiest link, plus the longest latency of a message (`demand`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.demand import (
    ParallelProfile,
    check_network,
    communicates,
    demand_of,
)
from hpcosim_batsim.inputs.platform_model import BatsimPlatform
from hpcosim_batsim.inputs.workload_model import (
    BatsimProfile,
    BatsimWorkload,
    Composed,
    Delay,
    Parallel,
)
from hpcosim_batsim.network.fair_bottleneck import Amount

NOTHING_SHARED: Mapping[int, Amount] = MappingProxyType({})


class SimpleTask(Struct, frozen=True):
    """A task without subtasks.

    Attributes:
        profile: name of its profile.
        duration_s: duration, s.
        loads: load by host number, the fraction of its speed in use, 0 to 1; default 0.
        latency_s: time at its begin without load and progress, s.
        shared: amounts on resources that other jobs may use at the same time, see `demand`. If
            there are any, duration and loads are those without such jobs.
        ret: its return code.
    """

    profile: str
    duration_s: float
    loads: Mapping[int, float]
    latency_s: float = 0.0
    shared: Mapping[int, Amount] = NOTHING_SHARED
    ret: int = 0


class SequentialTask(Struct, frozen=True):
    """A sequence of tasks.

    Attributes:
        profile: name of its profile.
        tasks: the tasks, in order.
        repeat: number of repetitions of the sequence.
        duration_s: duration of all repetitions, s.
        ret: its return code.
    """

    profile: str
    tasks: tuple[HostTask, ...]
    repeat: int
    duration_s: float
    ret: int = 0


HostTask = SimpleTask | SequentialTask


def task_of(
    profile: BatsimProfile,
    profiles: Mapping[str, BatsimProfile],
    platform: BatsimPlatform,
    hosts: Sequence[int],
    pstates: Sequence[int],
    *,
    share_hosts: bool = False,
) -> HostTask:
    """Return the task of a job on its hosts.

    Args:
        profile: profile of the job.
        profiles: all profiles of its workload, by name.
        platform: the platform.
        hosts: number of the host of each process, in order; a host may have several processes.
        pstates: pstate of every host of the platform.
        share_hosts: whether a host may run several jobs.

    Raises:
        InputError: the profile cannot run on these hosts; names the profile.
    """
    if isinstance(profile, Composed):
        tasks = (
            task_of(
                _named(profile, name, profiles),
                profiles,
                platform,
                hosts,
                pstates,
                share_hosts=share_hosts,
            )
            for name in profile.sequence
        )
        return _sequence(profile, tasks)
    if isinstance(profile, Delay):
        return SimpleTask(profile.name, profile.delay_s, {}, ret=profile.ret)
    if isinstance(profile, Parallel) and len(profile.cpu_flop) != len(hosts):
        raise InputError(
            "",
            f"profile {profile.name}",
            f"is for {len(profile.cpu_flop)} hosts, got {len(hosts)}",
        )
    return _parallel_task(profile, platform, hosts, pstates, share_hosts)


def parts(task: HostTask) -> Iterator[SimpleTask]:
    """Yield the simple tasks of a task in order."""
    if isinstance(task, SimpleTask):
        yield task
        return
    for _ in range(task.repeat):
        for part in task.tasks:
            yield from parts(part)


def shares_resources(task: HostTask) -> bool:
    """Tell whether other jobs may slow a task down."""
    if isinstance(task, SimpleTask):
        return bool(task.shared)
    return any(shares_resources(each) for each in task.tasks)


def check_profiles(workload: BatsimWorkload, platform: BatsimPlatform) -> None:
    """Check that the profile of every job of a workload is supported on a platform.

    Raises:
        InputError: a profile is not; names the job.
    """
    for job in workload.jobs:
        try:
            _check_profile(workload.profiles[job.profile], workload.profiles, platform, job.res)
        except InputError as error:
            where = f"job {job.full_id}: {error.where}"
            raise InputError(workload.path, where, error.what) from None


def communicating_profile(workloads: Iterable[BatsimWorkload]) -> str:
    """Return the location of the first profile that communicates between hosts; "": none does."""
    for workload in workloads:
        seen: set[str] = set()
        for job in workload.jobs:
            if job.res > 1 and _has_communication(job.profile, workload.profiles, seen):
                return f"{workload.path}: profile {job.profile}"
    return ""


def _has_communication(name: str, profiles: Mapping[str, BatsimProfile], seen: set[str]) -> bool:
    if name in seen:
        return False
    seen.add(name)
    profile = profiles[name]
    if isinstance(profile, Composed):
        return any(_has_communication(each, profiles, seen) for each in profile.sequence)
    return not isinstance(profile, Delay) and communicates(profile)


def _check_profile(
    profile: BatsimProfile,
    profiles: Mapping[str, BatsimProfile],
    platform: BatsimPlatform,
    res: int,
) -> None:
    if isinstance(profile, Composed):
        for name in dict.fromkeys(profile.sequence):
            _check_profile(profiles[name], profiles, platform, res)
    elif isinstance(profile, Parallel) and len(profile.cpu_flop) != res:
        raise InputError(
            "",
            f"profile {profile.name}",
            f"is for {len(profile.cpu_flop)} hosts, but the job requests {res}",
        )
    elif res > 1 and not isinstance(profile, Delay) and communicates(profile):
        check_network(profile, platform)


def _sequence(profile: Composed, tasks: Iterable[HostTask]) -> SequentialTask:
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


def _named(above: Composed, name: str, profiles: Mapping[str, BatsimProfile]) -> BatsimProfile:
    if name not in profiles:
        raise InputError("", f"profile {above.name}", f"there is no profile {name!r}")
    return profiles[name]
