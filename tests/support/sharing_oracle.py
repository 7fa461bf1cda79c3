"""Slow reference of tasks that share hosts and links: every pair, every resource, every event.

It follows SimGrid's sources literally. Each task is a variable, each host and each link a
constraint, and all rates are solved again at each event. See `hpcosim_batsim.network`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpcosim_batsim.inputs.platform_model import BatsimPlatform
from hpcosim_batsim.inputs.tasks import ParallelProfile
from hpcosim_batsim.inputs.workload_model import Parallel
from support.simgrid_tasks import MeasuredTask

TCP_GAMMA_BYTES = 4194304.0


class Variable:
    """A task.

    Attributes:
        latency_s: remaining latency, s.
        bound: largest rate, tasks per second.
        weights: amounts on each constraint, by its name: one for a link, one for each process on
            a host.
        left: share of the task that is left.
        rate: tasks per second.
    """

    def __init__(self, platform: BatsimPlatform, hosts: Sequence[int], profile: ParallelProfile):
        network = platform.network
        flop, sizes = matrices(profile, len(hosts))
        self.latency_s, self.bound = 0.0, math.inf
        self.weights: dict[str, list[float]] = {}
        self.capacity: dict[str, float] = {}
        self.left, self.rate = 1.0, 0.0
        for host, amount in zip(hosts, flop, strict=True):
            if amount > 0:
                speed = platform.hosts[host].speeds[0]
                self.bound = min(self.bound, speed / amount)
                self.capacity[f"host {host}"] = platform.hosts[host].flops(0)
                self.weights.setdefault(f"host {host}", []).append(amount)
        if len(hosts) == 1:
            sizes = []
        for i, size in enumerate(sizes):
            if size <= 0:
                continue
            pair = hosts[i // len(hosts)], hosts[i % len(hosts)]
            route = network.route(*(platform.hosts[host].name for host in pair))
            latency_s = sum(network.links[link].latency_s for link in route)
            self.latency_s = max(self.latency_s, latency_s)
            if latency_s > 0:
                self.bound = min(self.bound, TCP_GAMMA_BYTES / (2 * latency_s * size))
            for link in route:
                if network.links[link].fatpipe:
                    self.bound = min(self.bound, network.links[link].bytes_per_s / size)
                else:
                    self.capacity[f"link {link}"] = network.links[link].bytes_per_s
                    self.weights.setdefault(f"link {link}", [0.0])[0] += size
        if math.isinf(self.bound) and not self.weights:
            self.left = 0.0  # nothing to do


def matrices(profile: ParallelProfile, count: int) -> tuple[list[float], list[float]]:
    """Return flop per process, and bytes from each process to each process."""
    if isinstance(profile, Parallel):
        return list(profile.cpu_flop), list(profile.com_bytes)
    scale = 1 / count if profile.total else 1.0
    com = [0.0 if i == j else profile.com_bytes * scale for i in range(count) for j in range(count)]
    return [profile.cpu_flop * scale] * count, com


def solve(variables: Sequence[Variable]) -> None:
    """Set the rate of each variable."""
    open_ = list(variables)
    step: dict[Variable, float] = {}
    remaining = {name: cap for each in variables for name, cap in each.capacity.items()}
    for each in variables:
        each.rate = 0.0
    while open_:
        usage = {}
        for name in list(remaining):
            count = sum(len(each.weights.get(name, ())) for each in open_)
            if count:
                usage[name] = remaining[name] / count
            else:
                del remaining[name]
        for each in list(open_):
            increments = [usage[name] / max(parts) for name, parts in each.weights.items()]
            step[each] = min([*increments, each.bound - each.rate])
            each.rate += step[each]
            if each.rate >= each.bound * (1 - 1e-12):
                open_.remove(each)
        for name in list(remaining):
            for each in variables:
                remaining[name] -= sum(each.weights.get(name, ())) * step[each]
            if remaining[name] < 1e-5:
                del remaining[name]
                open_ = [each for each in open_ if name not in each.weights]


def end_times_s(platform: BatsimPlatform, tasks: Sequence[MeasuredTask]) -> dict[str, float]:
    """Return the end of each task, s."""
    waiting = sorted(tasks, key=lambda task: task.start_s)
    running: dict[str, Variable] = {}
    ends_s: dict[str, float] = {}
    now_s = 0.0
    while waiting or running:
        active = [each for each in running.values() if each.latency_s == 0.0]
        solve([each for each in active if each.left])
        delays = [each.left / each.rate if each.left else 0.0 for each in active]
        delays += [each.latency_s for each in running.values() if each.latency_s]
        delays += [waiting[0].start_s - now_s] if waiting else []
        delay_s = min(delays)
        now_s += delay_s
        for name, each in list(running.items()):
            if each.latency_s:
                each.latency_s = rest_of(each.latency_s - delay_s)
                continue
            each.left = rest_of(each.left - each.rate * delay_s) if each.left else 0.0
            if not each.left:
                ends_s[name] = now_s
                del running[name]
        while waiting and waiting[0].start_s <= now_s + 1e-9:
            task = waiting.pop(0)
            running[task.name] = Variable(platform, task.hosts, task.profile)
    return ends_s


def rest_of(value: float) -> float:
    """Return a remaining amount, without float dust."""
    return value if value > 1e-10 else 0.0
