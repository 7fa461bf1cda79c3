"""Routes between the hosts of a network.

The rules are those of SimGrid 3.32. Two hosts of one zone use the route of that zone. Otherwise
the innermost zone that contains both has a route between the zones of the hosts, from one gateway
to another, and the hosts reach their gateways by the same rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from hpcosim_batsim.network.model import LOOPBACK, Link, Links, RouteEntry, Zone


class Group(Struct, frozen=True, eq=False):
    """A group of hosts: the routes from or to them differ only in the hosts' own links.

    A network has one object for each group.

    Attributes:
        name: the zone of the hosts; of a host that is alone in its group, also the host.
        up: links from the hosts to the centre of their zone, without those of one host.
        down: links from the centre to the hosts, without those of one host.
        up_latency_s: latency of each host's own links to the centre, s.
        down_latency_s: latency of the own links from the centre, s.
    """

    name: str
    up: Links = ()
    down: Links = ()
    up_latency_s: float = 0.0
    down_latency_s: float = 0.0


class Place(Struct, frozen=True):
    """Where a host is in the network.

    Attributes:
        group: its group.
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

    Args:
        links: the links.
        zones: the zones by name.
        zone_of: name of the zone of each host and router.
        unsupported: why messages cannot be simulated; "": they can.

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
        self._groups: dict[tuple[str, Links, Links, float, float], Group] = {}
        self._between: dict[tuple[Group, Group], Path] = {}

    def route(self, source: str, target: str) -> Links:
        """Return the links of a message between two hosts or routers.

        Raises:
            ValueError: there is no route between their zones.
        """
        zone, other = self._zone_of[source], self._zone_of[target]
        if zone == other:
            return self._local(self._zones[zone], source, target)
        above, first, second = self._fork(zone, other)
        entry = self._zones[above].pairs.get((first, second))
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
        """Return the path between two different hosts, without `Place.up` and `Place.down`.

        Raises:
            ValueError: there is no route between their zones.
        """
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
        if zone.kind == "full":
            default = RouteEntry((len(self.links) - 1,) if source == target else ())
            return zone.pairs.get((source, target), default).links
        first, second = zone.attachments[source], zone.attachments[target]
        if source == target and first.loopback is not None:
            return first.loopback
        return tuple(dict.fromkeys(first.up + second.down))  # a link that both have is used once

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
