"""Tasks: duration of a job on its hosts, and load of the hosts.

Computation follows Batsim: a task ends when its slowest host has finished. The other hosts compute
at the fraction of their speed with which they finish at the same time, so they draw less than
their full power.

Communication is a simple model. On a platform without links it takes no time. On the hosts of one
cluster it overlaps computation and takes the time of its busiest link or of the backbone, plus the
latency of the path. Jobs do not slow each other down. On other platforms a job that communicates
is an error.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.platform_model import BatsimPlatform, Star
from hpcosim_batsim.inputs.workload_model import (
    BatsimProfile,
    BatsimWorkload,
    Composed,
    Delay,
    Parallel,
    ParallelHomogeneous,
)


class SimpleTask(Struct, frozen=True):
    """A task without subtasks.

    Attributes:
        profile: name of its profile.
        duration_s: duration, s.
        loads: load by host number, the fraction of its speed in use, 0 to 1; default 0.
    """

    profile: str
    duration_s: float
    loads: Mapping[int, float]


class SequentialTask(Struct, frozen=True):
    """A sequence of tasks.

    Attributes:
        profile: name of its profile.
        tasks: the tasks, in order.
        repeat: number of repetitions of the sequence.
        duration_s: duration of all repetitions, s.
    """

    profile: str
    tasks: tuple[HostTask, ...]
    repeat: int
    duration_s: float


HostTask = SimpleTask | SequentialTask


def task_of(
    profile: BatsimProfile,
    profiles: Mapping[str, BatsimProfile],
    platform: BatsimPlatform,
    hosts: Sequence[int],
    pstates: Sequence[int],
) -> HostTask:
    """Return the task of a job on its hosts.

    Args:
        profile: profile of the job.
        profiles: all profiles of its workload, by name.
        platform: the platform.
        hosts: number of the host of each process, in order; a host may have several processes.
        pstates: pstate of every host of the platform.

    Raises:
        InputError: the profile cannot run on these hosts; names the profile.
    """
    if isinstance(profile, Composed):
        tasks = tuple(
            task_of(_named(profile, name, profiles), profiles, platform, hosts, pstates)
            for name in profile.sequence
        )
        once_s = math.fsum(task.duration_s for task in tasks)
        return SequentialTask(profile.name, tasks, profile.repeat, profile.repeat * once_s)
    if isinstance(profile, Delay):
        return SimpleTask(profile.name, profile.delay_s, {})
    if isinstance(profile, Parallel) and len(profile.cpu_flop) != len(hosts):
        raise InputError(
            "",
            f"profile {profile.name}",
            f"is for {len(profile.cpu_flop)} hosts, got {len(hosts)}",
        )
    return _compute(profile, platform, hosts, pstates)


def progress(task: HostTask, elapsed_s: float) -> dict[str, Any]:
    """Return the progress of a task after `elapsed_s` seconds, in the form of `JOB_KILLED`."""
    if isinstance(task, SimpleTask):
        share = min(elapsed_s / task.duration_s, 1.0) if task.duration_s else 1.0
        return {"profile_name": task.profile, "progress": share}
    times, index, rest_s = _position(task, min(elapsed_s, task.duration_s))
    return {
        "profile_name": task.profile,
        "current_task_index": times * len(task.tasks) + index,
        "current_task": progress(task.tasks[index], rest_s),
    }


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
    return _communicates(profile)


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
    elif res > 1 and _communicates(profile):
        _check_network(profile, platform)


def _compute(
    profile: Parallel | ParallelHomogeneous,
    platform: BatsimPlatform,
    hosts: Sequence[int],
    pstates: Sequence[int],
) -> SimpleTask:
    flop = dict.fromkeys(hosts, 0.0)
    for process, host in enumerate(hosts):
        flop[host] += _flop(profile, process, len(hosts))
    flops = {host: platform.hosts[host].flops(pstates[host]) for host in flop}
    duration_s = max(flop[host] / flops[host] for host in flop)
    star = _check_network(profile, platform) if _communicates(profile) else None
    if star is not None and len(flop) > 1:
        duration_s = max(duration_s, _transfer_s(star, *_traffic(profile, hosts)))
        duration_s += 2 * star.latency_s + star.backbone_latency_s
    busy = [host for host in flop if flop[host] > 0]
    loads = {host: min(flop[host] / flops[host] / duration_s, 1.0) for host in busy}
    return SimpleTask(profile.name, duration_s, loads)


def _flop(profile: Parallel | ParallelHomogeneous, process: int, processes: int) -> float:
    if isinstance(profile, Parallel):
        return profile.cpu_flop[process]
    return profile.cpu_flop / processes if profile.total else profile.cpu_flop


def _traffic(
    profile: Parallel | ParallelHomogeneous, hosts: Sequence[int]
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the bytes that each host sends to other hosts, and those that it receives."""
    sent, received = dict.fromkeys(hosts, 0.0), dict.fromkeys(hosts, 0.0)
    count = len(hosts)
    if isinstance(profile, Parallel):
        for pair, size in enumerate(profile.com_bytes):
            source, target = hosts[pair // count], hosts[pair % count]
            if source != target:
                sent[source] += size
                received[target] += size
        return sent, received
    size = profile.com_bytes / count if profile.total else profile.com_bytes
    for host, processes in Counter(hosts).items():
        sent[host] = received[host] = size * processes * (count - processes)
    return sent, received


def _transfer_s(star: Star, sent: Mapping[int, float], received: Mapping[int, float]) -> float:
    """Return the transfer time of the busiest link or of the backbone, s."""
    if star.split:
        busiest_bytes = max(*sent.values(), *received.values())
    else:
        busiest_bytes = max(sent[host] + received[host] for host in sent)
    link_s = busiest_bytes / star.bytes_per_s
    if star.backbone_bytes_per_s is None:
        return link_s
    return max(link_s, math.fsum(sent.values()) / star.backbone_bytes_per_s)


def _communicates(profile: BatsimProfile) -> bool:
    if isinstance(profile, Parallel):
        return any(profile.com_bytes)
    return isinstance(profile, ParallelHomogeneous) and profile.com_bytes > 0


def _check_network(profile: BatsimProfile, platform: BatsimPlatform) -> Star | None:
    """Return the star network for a profile's communication; None: it takes no time."""
    if platform.no_network or platform.star is not None:
        return platform.star
    raise InputError(
        "",
        f"profile {profile.name}",
        f"communicates, but the network of {platform.path} is not supported; expected a platform "
        "without links, or with all hosts in one cluster",
    )


def _named(above: Composed, name: str, profiles: Mapping[str, BatsimProfile]) -> BatsimProfile:
    if name not in profiles:
        raise InputError("", f"profile {above.name}", f"there is no profile {name!r}")
    return profiles[name]


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
