"""How long a job takes on its hosts, and how it loads them.

Computation is as in Batsim: a task is done when its slowest host is, and until then every host
computes at such a share of its speed that all end together. So a host that could be faster draws
less than its full power.

Communication is a simple model. Where a platform has no links it takes no time. On the hosts of
one cluster it takes as long as the link or the backbone that is busiest with it, besides
computation, and the latency of the way on top; other jobs on the same links slow nothing down. On
all other platforms a job that communicates is refused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.platform_model import Platform, Star
from hpcosim_batsim.inputs.workload_model import (
    Composed,
    Delay,
    Parallel,
    ParallelHomogeneous,
    Profile,
    Workload,
)


class Leaf(Struct, frozen=True):
    """A task that is not made of others.

    Attributes:
        profile: the name of its profile.
        duration_s: how long it takes.
        loads: of each host, by its number, the share of its speed that is used all the time, from
            0 to 1; a host that is not named has none.
    """

    profile: str
    duration_s: float
    loads: Mapping[int, float]


class Series(Struct, frozen=True):
    """Tasks one after the other.

    Attributes:
        profile: the name of their profile.
        tasks: each of them, in order.
        repeat: how often all are done.
        duration_s: how long all that takes.
    """

    profile: str
    tasks: tuple[Task, ...]
    repeat: int
    duration_s: float


Task = Leaf | Series


def task_of(
    profile: Profile,
    profiles: Mapping[str, Profile],
    platform: Platform,
    hosts: Sequence[int],
    pstates: Sequence[int],
) -> Task:
    """Return what a job does on hosts.

    Args:
        profile: its profile.
        profiles: all of its workload, by name.
        platform: where it runs.
        hosts: by number, that of each of its processes in order; a host may have several.
        pstates: the power state of every host of the platform.

    Raises:
        InputError: it can't run there; names the profile.
    """
    if isinstance(profile, Composed):
        tasks = tuple(
            task_of(_named(profile, name, profiles), profiles, platform, hosts, pstates)
            for name in profile.sequence
        )
        once_s = math.fsum(task.duration_s for task in tasks)
        return Series(profile.name, tasks, profile.repeat, profile.repeat * once_s)
    if isinstance(profile, Delay):
        return Leaf(profile.name, profile.delay_s, {})
    if isinstance(profile, Parallel) and len(profile.cpu_flop) != len(hosts):
        raise InputError(
            "",
            f"profile {profile.name}",
            f"is for {len(profile.cpu_flop)} hosts and can't run on {len(hosts)}",
        )
    return _compute(profile, platform, hosts, pstates)


def progress(task: Task, elapsed_s: float) -> dict[str, Any]:
    """Return how far a task is after so many seconds, as `JOB_KILLED` tells it."""
    if isinstance(task, Leaf):
        share = min(elapsed_s / task.duration_s, 1.0) if task.duration_s else 1.0
        return {"profile_name": task.profile, "progress": share}
    times, index, rest_s = _place(task, min(elapsed_s, task.duration_s))
    return {
        "profile_name": task.profile,
        "current_task_index": times * len(task.tasks) + index,
        "current_task": progress(task.tasks[index], rest_s),
    }


def check_profiles(workload: Workload, platform: Platform) -> None:
    """Make sure that every job of a workload could run on some hosts of a platform.

    Raises:
        InputError: one could not; names the job.
    """
    for job in workload.jobs:
        try:
            _check_profile(workload.profiles[job.profile], workload.profiles, platform, job.res)
        except InputError as error:
            where = f"job {job.full_id}: {error.where}"
            raise InputError(workload.path, where, error.what) from None


def _check_profile(
    profile: Profile, profiles: Mapping[str, Profile], platform: Platform, res: int
) -> None:
    if isinstance(profile, Composed):
        for name in dict.fromkeys(profile.sequence):
            _check_profile(profiles[name], profiles, platform, res)
    elif isinstance(profile, Parallel) and len(profile.cpu_flop) != res:
        raise InputError(
            "",
            f"profile {profile.name}",
            f"is for {len(profile.cpu_flop)} hosts, and the job asks for {res}",
        )
    elif res > 1 and _communicates(profile):
        _check_network(profile, platform)


def _compute(
    profile: Parallel | ParallelHomogeneous,
    platform: Platform,
    hosts: Sequence[int],
    pstates: Sequence[int],
) -> Leaf:
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
    return Leaf(profile.name, duration_s, loads)


def _flop(profile: Parallel | ParallelHomogeneous, process: int, processes: int) -> float:
    if isinstance(profile, Parallel):
        return profile.cpu_flop[process]
    return profile.cpu_flop / processes if profile.total else profile.cpu_flop


def _traffic(
    profile: Parallel | ParallelHomogeneous, hosts: Sequence[int]
) -> tuple[dict[int, float], dict[int, float]]:
    """Return how many bytes each host sends to others, and how many it gets from them."""
    sent, got = dict.fromkeys(hosts, 0.0), dict.fromkeys(hosts, 0.0)
    count = len(hosts)
    if isinstance(profile, Parallel):
        for pair, size in enumerate(profile.com_bytes):
            source, target = hosts[pair // count], hosts[pair % count]
            if source != target:
                sent[source] += size
                got[target] += size
        return sent, got
    size = profile.com_bytes / count if profile.total else profile.com_bytes
    for host, processes in Counter(hosts).items():
        sent[host] = got[host] = size * processes * (count - processes)
    return sent, got


def _transfer_s(star: Star, sent: Mapping[int, float], got: Mapping[int, float]) -> float:
    """Return for how long the busiest link is busy."""
    if star.split:
        most = max(*sent.values(), *got.values())
    else:
        most = max(sent[host] + got[host] for host in sent)
    link_s = most / star.bytes_per_s
    if star.backbone_bytes_per_s is None:
        return link_s
    return max(link_s, math.fsum(sent.values()) / star.backbone_bytes_per_s)


def _communicates(profile: Profile) -> bool:
    if isinstance(profile, Parallel):
        return any(profile.com_bytes)
    return isinstance(profile, ParallelHomogeneous) and profile.com_bytes > 0


def _check_network(profile: Profile, platform: Platform) -> Star | None:
    """Return the star on which a profile can communicate; None: it does so in no time."""
    if platform.free or platform.star is not None:
        return platform.star
    raise InputError(
        "",
        f"profile {profile.name}",
        f"communicates, and {platform.path} has a network that is not modelled: there must be "
        "no links, or one cluster with all hosts",
    )


def _named(above: Composed, name: str, profiles: Mapping[str, Profile]) -> Profile:
    if name not in profiles:
        raise InputError("", f"profile {above.name}", f"there is no profile {name!r}")
    return profiles[name]


def _place(series: Series, elapsed_s: float) -> tuple[int, int, float]:
    """Return how often all is done, which task it is at, and for how many seconds it is."""
    once_s = series.duration_s / series.repeat
    times = min(int(elapsed_s // once_s), series.repeat - 1) if once_s else series.repeat - 1
    rest_s = max(elapsed_s - times * once_s, 0.0)
    for index, task in enumerate(series.tasks[:-1]):
        if rest_s < task.duration_s:
            return times, index, rest_s
        rest_s -= task.duration_s
    return times, len(series.tasks) - 1, min(rest_s, series.tasks[-1].duration_s)
