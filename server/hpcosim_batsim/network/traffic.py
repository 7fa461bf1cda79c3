"""Traffic of a parallel task: bytes on each link, and latency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct

from hpcosim_batsim.network.model import Links
from hpcosim_batsim.network.routes import Group, Network


class Traffic(Struct):
    """Traffic of a parallel task.

    Attributes:
        link_bytes: bytes on each link; on a link with `fatpipe` the largest message.
        latency_s: the longest latency of a message, s.
        latency_bytes: the largest product of the latency and the bytes of a message, s * bytes.
    """

    link_bytes: dict[int, float]
    latency_s: float = 0.0
    latency_bytes: float = 0.0


def uniform_traffic(network: Network, hosts: Sequence[str], size: float) -> Traffic:
    """Return the traffic of a task whose processes send each other messages of equal size.

    The time is proportional to the number of hosts, plus the number of pairs of their groups.

    Args:
        network: the network.
        hosts: host of each process.
        size: size of each message, bytes.

    Raises:
        ValueError: there is no route between two of the hosts.
    """
    meter, total = _Meter(network), len(hosts)
    link_bytes = meter.traffic.link_bytes
    groups: dict[Group, list[str]] = {}
    processes = Counter(hosts)
    for host, count in processes.items():
        place = network.place(host)
        groups.setdefault(place.group, []).append(host)
        if count < total:
            for link in place.up + place.down:  # no other host uses them
                link_bytes[link] = link_bytes.get(link, 0.0) + size * count * (total - count)
        if count > 1:
            meter.add_message(network.route(host, host), size, count * (count - 1))
    sizes = {group: sum(processes[host] for host in each) for group, each in groups.items()}
    routes: dict[int, list[Links]] = {}  # by number of messages
    longest_s = 0.0
    for source, target, pair in _pairs(groups):
        messages = sizes[pair[0]] * sizes[pair[1]]
        if pair[0] is pair[1]:
            messages -= sum(processes[host] ** 2 for host in groups[pair[0]])
        path = network.between(source, target)
        routes.setdefault(messages, []).append(path.links)
        longest_s = max(longest_s, pair[0].up_latency_s + path.latency_s + pair[1].down_latency_s)
    for messages, alike in routes.items():
        for link, count in Counter(chain.from_iterable(alike)).items():
            meter.add((link,), size, messages * count)
    meter.note_latency(longest_s, size)
    return meter.traffic


def matrix_traffic(network: Network, hosts: Sequence[str], sizes: Sequence[float]) -> Traffic:
    """Return the traffic of a task with a communication matrix.

    Args:
        network: the network.
        hosts: host of each process.
        sizes: bytes from each process to each process, row by row.

    Raises:
        ValueError: there is no route between two of the hosts.
    """
    meter, count = _Meter(network), len(hosts)
    for pair, size in enumerate(sizes):
        if size > 0:
            source, target = hosts[pair // count], hosts[pair % count]
            if source == target:
                meter.add_message(network.route(source, target), size, 1)
                continue
            first, second = network.place(source), network.place(target)
            links = first.up + network.between(source, target).links + second.down
            meter.add_message(links, size, 1)
    return meter.traffic


class _Meter:
    def __init__(self, network: Network) -> None:
        self._network = network
        self.traffic = Traffic({})

    def add_message(self, links: Links, size: float, messages: int) -> None:
        """Add equal messages along a route."""
        self.add(links, size, messages)
        self.note_latency(self._network.latency_s(links), size)

    def add(self, links: Links, size: float, messages: int) -> None:
        """Add the bytes of equal messages to links."""
        link_bytes = self.traffic.link_bytes
        for link in links:
            if self._network.links[link].fatpipe:
                link_bytes[link] = max(link_bytes.get(link, 0.0), size)
            else:
                link_bytes[link] = link_bytes.get(link, 0.0) + size * messages

    def note_latency(self, latency_s: float, size: float) -> None:
        """Note the latency of a message."""
        traffic = self.traffic
        traffic.latency_s = max(traffic.latency_s, latency_s)
        traffic.latency_bytes = max(traffic.latency_bytes, latency_s * size)


def _pairs(groups: dict[Group, list[str]]) -> Iterator[tuple[str, str, tuple[Group, Group]]]:
    """Yield two different hosts of each pair of groups, and the pair."""
    for group, hosts in groups.items():
        for other, others in groups.items():
            target = others[0] if other is not group else others[-1]
            if target != hosts[0]:
                yield hosts[0], target, (group, other)
