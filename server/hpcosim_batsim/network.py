"""Routes between the hosts of a network.

The rules are those of SimGrid 3.32. Two hosts of one zone use the route of that zone. Otherwise
the innermost zone that contains both has a route between the zones of the hosts, from one gateway
to another, and the hosts reach their gateways by the same rules.

Without a route between two zones, functions raise `ValueError`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Literal, NamedTuple

from msgspec import Struct

from hpcosim_batsim.shortest_paths import Paths, dijkstra_paths, floyd_paths

Links = tuple[int, ...]
"""Links of a route in order, by their index in `Network.links`."""
ZoneKind = Literal["full", "star", "none", "floyd", "dijkstra", "topology"]


class Group(Struct, frozen=True, eq=False):
    """A group of hosts: the routes from or to them differ only in the hosts' own links.

    A network has one object for each group.

    Attributes:
        name: the zone of the hosts; of a host that is alone in its group, also the host.
        up: links from the hosts to the centre of their zone, without those of one host.
        down: links from the centre to the hosts, without those of one host.
        up_latency_s: latency of each host's own links to the centre, s.
    """

    name: str
    up: Links = ()
    down: Links = ()
    up_latency_s: float = 0.0
    down_latency_s: float = 0.0


class Place(Struct, frozen=True):
    """Where a host is in the network.

    Attributes:
        up: its own links to the centre of its zone, which only its messages use.
        down: its own links from the centre.
    """

    group: Group
    up: Links
    down: Links


class Path(NamedTuple):
    """Links in order, and their latency, s."""

    links: Links
    latency_s: float


class Network:
    """The network of a platform.

    Attributes:
        links: the links, and `LOOPBACK` as the last one.
        own: links, other than fatpipes, that only the messages of one host use.
        unsupported: why messages cannot be simulated; "": they can.
    """

    def __init__(
        self,
        links: Sequence[Link] = (),
        zones: Mapping[str, Zone] | None = None,
        zone_of: Mapping[str, str] | None = None,
        unsupported: str = "",
    ) -> None:
        self.links = (*links, LOOPBACK)
        self.unsupported = unsupported
        self._zones = zones or {}
        self._zone_of = zone_of or {}
        self._gateways = {
            gateway
            for zone in self._zones.values()
            for entry in zone.pairs.values()
            for gateway in (entry.leaves, entry.enters)
        }
        self.own = frozenset(self._find_own())
        self._places: dict[str, Place] = {}
        self._paths: dict[str, Paths] = {}  # by zone
        self._groups: dict[tuple[str, Links, Links, float, float], Group] = {}
        self._between: dict[tuple[Group, Group], Path] = {}

    def route(self, source: str, target: str) -> Links:
        """Return the links of a message between two hosts or routers."""
        zone, other = self._zone_of[source], self._zone_of[target]
        if zone == other:
            return self._local(self._zones[zone], source, target)
        above, first, second = self._fork(zone, other)
        entry = self._entry(self._zones[above], first, second)
        if entry is None:
            raise ValueError(f"zone {above} has no route from zone {first} to zone {second}")
        links = entry.links
        if source != entry.leaves:
            links = self.route(source, entry.leaves) + links
        if entry.enters != target:
            links += self.route(entry.enters, target)
        return links

    def latency_s(self, links: Links) -> float:
        """Return the latency of a route, s."""
        return sum(self.links[link].latency_s for link in links)

    def place(self, host: str) -> Place:
        """Return where a host is."""
        place = self._places.get(host)
        if place is None:
            place = self._places[host] = self._find_place(host)
        return place

    def between(self, source: str, target: str) -> Path:
        """Return the path between two different hosts, without `Place.up` and `Place.down`."""
        first, second = self.place(source), self.place(target)
        path = self._between.get((first.group, second.group))
        if path is None:
            own = {*first.up, *second.down}
            links = tuple(link for link in self.route(source, target) if link not in own)
            path = Path(links, self.latency_s(links))
            self._between[first.group, second.group] = path
        return path

    def _local(self, zone: Zone, source: str, target: str) -> Links:
        """Return the route between two members of a zone that are not zones."""
        if zone.kind == "none":
            return ()
        if zone.kind == "topology":
            assert zone.route is not None
            return zone.route(source, target)
        if zone.kind != "star":
            entry = self._entry(zone, source, target)
            if entry is None and source == target:
                return (len(self.links) - 1,)
            if entry is None and zone.kind != "full":
                raise ValueError(f"zone {zone.name} has no route from {source} to {target}")
            return () if entry is None else entry.links
        first, second = zone.attachments[source], zone.attachments[target]
        if source == target and first.loopback is not None:
            return first.loopback
        return tuple(dict.fromkeys(first.up + second.down))  # a link that both have is used once

    def _entry(self, zone: Zone, first: str, second: str) -> RouteEntry | None:
        """Return the route between two members of a zone; None: there is none."""
        entry = zone.pairs.get((first, second))
        if zone.kind not in ("floyd", "dijkstra") or first == second:
            return entry
        path = self._paths_of(zone)(first, second)
        if not path:
            return None
        hops = [zone.pairs[pair] for pair in path]
        links = hops[0].links
        for before, after in pairwise(hops):
            if before.enters != after.leaves:
                if zone.kind == "dijkstra":
                    ways = f"at {before.enters} and {after.leaves}"
                    raise ValueError(f"zone {zone.name}: a path enters and leaves a zone {ways}")
                links += self.route(before.enters, after.leaves)
            links += after.links
        return RouteEntry(links, hops[0].leaves, hops[-1].enters)

    def _paths_of(self, zone: Zone) -> Paths:
        paths = self._paths.get(zone.name)
        if paths is None:
            lengths = {pair: len(entry.links) for pair, entry in zone.pairs.items()}
            is_floyd = zone.kind == "floyd"
            paths = floyd_paths(zone.members, lengths) if is_floyd else dijkstra_paths(lengths)
            self._paths[zone.name] = paths
        return paths

    def _fork(self, zone: str, other: str) -> tuple[str, str, str]:
        """Return the innermost zone that contains two zones, and its members on the way to each."""
        first, second = self._path(zone), self._path(other)
        depth = 0
        while depth < min(len(first), len(second)) and first[depth] == second[depth]:
            depth += 1
        if not 0 < depth < min(len(first), len(second)):
            raise ValueError(f"there is no route from zone {zone} to zone {other}")
        return first[depth - 1], first[depth], second[depth]

    def _path(self, zone: str) -> list[str]:
        """Return the zones from the outermost one to this one."""
        path = []
        while zone:
            path.append(zone)
            zone = self._zones[zone].parent
        return path[::-1]

    def _find_own(self) -> Iterable[int]:
        uses: Counter[int] = Counter()
        candidates: set[int] = set()
        for zone in self._zones.values():
            for entry in zone.pairs.values():
                uses.update(set(entry.links))
            for member, attached in zone.attachments.items():
                links = {*attached.up, *attached.down, *(attached.loopback or ())}
                uses.update(links)
                if member not in self._gateways:
                    candidates |= links
        return (link for link in candidates if uses[link] == 1 and not self.links[link].fatpipe)

    def _find_place(self, host: str) -> Place:
        name = self._zone_of[host]
        zone = self._zones[name]
        if zone.kind != "star" or host in self._gateways:
            return Place(self._group(f"{name} {host}"), (), ())
        attached = zone.attachments[host]
        up, common_up = self._split(attached.up)
        down, common_down = self._split(attached.down)
        latencies_s = self.latency_s(up), self.latency_s(down)
        return Place(self._group(name, common_up, common_down, *latencies_s), up, down)

    def _group(
        self,
        name: str,
        up: Links = (),
        down: Links = (),
        up_latency_s: float = 0.0,
        down_latency_s: float = 0.0,
    ) -> Group:
        values = name, up, down, up_latency_s, down_latency_s
        return self._groups.setdefault(values, Group(*values))

    def _split(self, links: Links) -> tuple[Links, Links]:
        """Return the links that are in `own`, and the others."""
        return (
            tuple(link for link in links if link in self.own),
            tuple(link for link in links if link not in self.own),
        )


class Link(Struct, frozen=True):
    """A link.

    Attributes:
        fatpipe: each message has the whole bandwidth; otherwise all messages share it.
    """

    name: str
    bytes_per_s: float
    latency_s: float = 0.0
    fatpipe: bool = False


class RouteEntry(Struct, frozen=True):
    """A route between two members of a zone.

    Attributes:
        leaves: the host or router at which it leaves its first member, if that is a zone.
        enters: the host or router at which it enters its second member, if that is a zone.
    """

    links: Links
    leaves: str = ""
    enters: str = ""


class Attachment(Struct, frozen=True):
    """Links between a member of a star and the star's centre.

    Attributes:
        loopback: links of the member's messages to itself; None: they go to the centre and back.
    """

    up: Links
    down: Links
    loopback: Links | None = None


class Zone(Struct, frozen=True):
    """A zone of a platform.

    Attributes:
        parent: the zone that contains it; "": none does.
        kind: `full`: a route for each pair of members. `floyd`, `dijkstra`: the shortest path over
            the routes, see `shortest_paths`; as in SimGrid, a path of `dijkstra` leaves each zone
            where it has entered it. `star`: members are attached to a centre. `none`: messages take
            no time. `topology`: routes between hosts follow a rule.
        members: hosts, routers and zones in it, in the order of the file.
        route: returns the route between two hosts of a topology.
    """

    name: str
    parent: str
    kind: ZoneKind
    members: tuple[str, ...] = ()
    pairs: Mapping[tuple[str, str], RouteEntry] = MappingProxyType({})
    attachments: Mapping[str, Attachment] = MappingProxyType({})
    route: Callable[[str, str], Links] | None = None


LOOPBACK = Link("__loopback__", 1e10, 0.0, fatpipe=True)
"""Link of a host's messages to itself in a `full` zone without a route for them (SimGrid 3.32)."""


class Traffic(Struct):
    """Traffic of a parallel task.

    Attributes:
        link_bytes: bytes on each link; on a link with `fatpipe` the largest message.
        latency_bytes: the largest product of the latency and the bytes of a message, s * bytes.
    """

    link_bytes: dict[int, float]
    latency_s: float = 0.0
    latency_bytes: float = 0.0


def uniform_traffic(network: Network, hosts: Sequence[str], size: float) -> Traffic:
    """Return the traffic of a task whose processes send each other messages of equal size.

    The time is proportional to the number of hosts, plus the number of pairs of their groups.
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
    """Return the traffic of a task with a communication matrix."""
    count = len(hosts)
    pairs = ((hosts[pair // count], hosts[pair % count]) for pair in range(count * count))
    return traffic_of(network, ((*pair, size) for pair, size in zip(pairs, sizes, strict=True)))


def traffic_of(network: Network, messages: Iterable[tuple[str, str, float]]) -> Traffic:
    """Return the traffic of messages.

    Args:
        messages: source, target and size, bytes, of each.
    """
    meter = _Meter(network)
    for source, target, size in messages:
        if size > 0:
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
