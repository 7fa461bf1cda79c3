"""Demand of a parallel task: what it needs of hosts and links, and how fast it is alone.

The model is SimGrid's `ptask_L07`. All computations and messages of a task progress together, each
in proportion to its amount. The task waits for the longest latency of its messages, and then runs
as fast as its slowest part permits: a process on one core, all processes of a host on its cores,
a link, and each message by the limit of TCP.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.platform_model import BatsimPlatform
from hpcosim_batsim.inputs.workload_model import Parallel, ParallelHomogeneous
from hpcosim_batsim.network.fair_bottleneck import Amount
from hpcosim_batsim.network.routes import Network
from hpcosim_batsim.network.traffic import Traffic, matrix_traffic, uniform_traffic

ParallelProfile = Parallel | ParallelHomogeneous

TCP_GAMMA_BYTES = 4194304.0
"""Largest TCP window, bytes (SimGrid's `network/TCP-gamma`): a message of a route with the latency
`l` has at most half of it in each `l`."""


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
        profile: the profile.
        platform: the platform.
        hosts: number of the host of each process, in order.
        pstates: pstate of every host of the platform.
        share_hosts: whether a host may run several jobs.

    Raises:
        InputError: the profile communicates, and the network is not supported or has no route.
    """
    flop = _computations(profile, hosts)
    cpu_s = _compute_s(flop, platform, pstates, many=len(flop) < len(hosts))
    traffic = _traffic(profile, platform, hosts)
    link_s = max(
        (
            size / platform.network.links[link].bytes_per_s
            for link, size in traffic.link_bytes.items()
        ),
        default=0.0,
    )
    tcp_s = traffic.latency_bytes * 2.0 / TCP_GAMMA_BYTES
    shared = _shared_links(platform.network, traffic, share_hosts=share_hosts)
    if share_hosts:
        shared |= {-1 - host: amount for host, amount in flop.items() if amount.total > 0}
    return Demand(traffic.latency_s, max(cpu_s, link_s, tcp_s), flop, shared)


def capacity_of(resource: int, platform: BatsimPlatform, pstates: Sequence[int]) -> float:
    """Return the capacity of a resource, bytes/s of a link or flop/s of a host."""
    if resource >= 0:
        return platform.network.links[resource].bytes_per_s
    host = -1 - resource
    return platform.hosts[host].flops(pstates[host])


def communicates(profile: ParallelProfile) -> bool:
    """Tell whether a profile has messages, between hosts or within them."""
    if isinstance(profile, Parallel):
        return any(profile.com_bytes)
    return profile.com_bytes > 0


def check_network(profile: ParallelProfile, platform: BatsimPlatform) -> None:
    """Check that the network of a platform supports a profile that communicates.

    Raises:
        InputError: it does not; names the profile.
    """
    why = platform.network.unsupported
    if why and not platform.no_network:
        raise InputError(
            "",
            f"profile {profile.name}",
            f"communicates, but hpcosim does not simulate the network of {platform.path}: {why}",
        )


def _traffic(profile: ParallelProfile, platform: BatsimPlatform, hosts: Sequence[int]) -> Traffic:
    if platform.no_network or len(hosts) == 1 or not communicates(profile):
        return Traffic({})  # as in SimGrid, a task with one process has no messages
    check_network(profile, platform)
    names = [platform.hosts[host].name for host in hosts]
    try:
        if isinstance(profile, Parallel):
            return matrix_traffic(platform.network, names, profile.com_bytes)
        size = profile.com_bytes / len(hosts) if profile.total else profile.com_bytes
        return uniform_traffic(platform.network, names, size)
    except ValueError as error:
        raise InputError(platform.path, f"profile {profile.name}", str(error)) from None


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
    """Return the time of the computations, s: each process has one core.

    Args:
        flop: computations on each host, flop.
        platform: the platform.
        pstates: pstate of every host of the platform.
        many: whether a host has several processes.
    """
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
    if isinstance(profile, ParallelHomogeneous):
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
