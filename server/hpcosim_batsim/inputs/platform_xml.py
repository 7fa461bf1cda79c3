"""Reader of SimGrid platform files.

It supports hosts, clusters and cabinets in nested zones, speeds and pstates, properties of hosts
and zones, and their network (`network_xml`). Traces of availability or speed and included files
are errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.platform_model import BatsimPlatform, Host, SleepState, Watts
from hpcosim_batsim.inputs.xml_tree import BANDWIDTHS, FLOPS, TIMES, Element, read_xml
from hpcosim_batsim.network import (
    Attachment,
    Link,
    Links,
    Network,
    RouteEntry,
    Zone,
    ZoneKind,
)
from hpcosim_batsim.topologies import Cable, Parts, TopologyError, dragonfly, fat_tree, torus

POWER, OLD_POWER = "wattage_per_state", "watt_per_state"
_CHANGING = ("availability_file", "speed_file", "state_file")

SPLIT = ("SPLITDUPLEX", "FULLDUPLEX")
_POLICIES = ("SHARED", "FATPIPE", *SPLIT)

ZONES = {"zone", "AS"}
GROUPS = {"cluster", "cabinet"}
_ROUTES = {"route", "zoneRoute", "ASroute"}
_BYPASSES = {"bypassRoute", "bypassZoneRoute", "bypassASroute"}
NETWORK = _ROUTES | _BYPASSES | {"link", "backbone", "host_link", "link_ctn", "router"}
"""Elements that exist only in a platform with a network."""

_KINDS: dict[str, ZoneKind] = {
    "Full": "full",
    "Floyd": "floyd",
    "Dijkstra": "dijkstra",
    "DijkstraCache": "dijkstra",
    "Cluster": "star",
    "None": "none",
}

_TOPOLOGIES = ("TORUS", "FAT_TREE", "DRAGONFLY")

MAX_HOSTS = 1_000_000
MAX_FLOYD_MEMBERS = 2000  # the time for their paths grows with the third power
MASTER = "master_host"
NO_ROLES: Mapping[str, str] = MappingProxyType({})
_IGNORED = {"config", "prop", "disk", "storage_type", "storage", "mount", "random"}
_UNSUPPORTED = {
    "include": "included files",
    "peer": "hosts with changing links",
    "trace": "traces of availability or speed",
    "trace_connect": "traces of availability or speed",
    "process": "SimGrid programs",
    "actor": "SimGrid programs",
}
_ROLES = ("", "compute_node", "master", "storage")


def host_of(
    element: Element, name: str, zone_properties: Mapping[str, str], *, energy: bool
) -> Host:
    """Return the host that an element describes.

    Args:
        energy: read power and sleep pstates; otherwise, as in Batsim, they are only properties.
    """
    for changing in _CHANGING:
        if changing in element.attributes:
            raise element.error(f"{changing} is not supported: hosts have constant properties")
    given = element.properties()
    speeds = tuple(
        element.amount("speed", text, FLOPS, "1Gf") for text in element.required("speed").split(",")
    )
    power = given.get(POWER, given.get(OLD_POWER))
    sent = {"role": "", **given}
    if power is not None:
        sent = {**sent, POWER: given.get(POWER, power), OLD_POWER: given.get(OLD_POWER, power)}
    host = Host(
        name=name,
        speeds=speeds,
        cores=element.count("core", 1, 1),
        pstate=element.count("pstate", 0, 0),
        watts=_watts(element, power, len(speeds)) if energy and power is not None else (),
        sleep_states=_sleep_states(
            element, given.get("sleep_pstates") if energy else None, len(speeds)
        ),
        properties=sent,
        zone_properties=zone_properties,
    )
    _check(element, host, range(len(speeds)) if energy else (host.pstate,))
    return host


def _check(element: Element, host: Host, pstates: Iterable[int]) -> None:
    """Check the pstate at the start, and the speeds of the pstates that the host may enter."""
    name = host.name or "each host"
    if not host.computes_in(host.pstate):
        raise element.error(
            f"{name} starts in pstate {host.pstate}, which is not one of its computation pstates; "
            f"it has {len(host.speeds)} pstates",
        )
    for pstate in pstates:
        speed = host.speeds[pstate]
        if speed <= 0 and pstate not in host.sleep_states:
            raise element.error(
                f"{name} has a speed of {speed:g} in pstate {pstate}; it must be > 0",
            )


def _watts(element: Element, text: str, count: int) -> tuple[Watts, ...]:
    states = tuple(_state_watts(element, state) for state in text.split(","))
    if len(states) != count:
        raise element.error(
            f"{POWER} has {len(states)} pstates, but speed has {count}; expected the same number"
        )
    return states


def _state_watts(element: Element, text: str) -> Watts:
    parts = [_watt(element, part) for part in text.split(":")]
    if len(parts) == 2:
        return Watts(parts[0], parts[0], parts[1])
    if len(parts) != 3:
        raise element.error(f"{POWER}: expected idle:epsilon:all in W, got {text.strip()!r}")
    return Watts(*parts)


def _watt(element: Element, text: str) -> float:
    return element.amount(POWER, text, {"W": 1.0}, "95.0")


def _sleep_states(element: Element, text: str | None, count: int) -> dict[int, SleepState]:
    found: dict[int, SleepState] = {}
    for triplet in [] if text is None else text.split(","):
        try:
            state = SleepState(*(int(part) for part in triplet.split(":")))
        except (ValueError, TypeError):
            raise element.error(
                f"sleep_pstates: expected sleep:off:on such as 13:14:15, got {triplet.strip()!r}",
            ) from None
        for pstate in (state.sleep, state.off, state.on):
            if not 0 <= pstate < count:
                raise element.error(
                    f"sleep_pstates: expected pstates from 0 to {count - 1}, got {pstate}",
                )
        found[state.sleep] = state
    passed = {pstate for state in found.values() for pstate in (state.off, state.on)}
    if both := sorted(passed & found.keys()):
        raise element.error(
            f"sleep_pstates: pstate {both[0]} is a sleep pstate and a transition pstate",
        )
    return found


def read_platform(
    path: Path,
    *,
    master: str = MASTER,
    roles: Mapping[str, str] = NO_ROLES,
    limit: int = 0,
    energy: bool = True,
    numeric_order: bool = False,
) -> BatsimPlatform:
    """Return the platform of a file.

    Args:
        master: name of the master host; a host with the role `master` is the master host, too.
        roles: roles of hosts by name, in addition to those of the file.
        limit: maximum number of compute hosts, the first by number; 0: all.
        numeric_order: hosts are numbered by name with numbers as such (`a2` before `a10`), as in
            Batsim 5; otherwise as text, as in Batsim 4.2.1.
    """
    reader = _Reader(str(path), read_xml(path), energy=energy, numeric_order=numeric_order)
    return reader.platform(master, roles, limit)


def _numeric(name: str) -> tuple[list[tuple[int, int]], str]:
    """Return the sort key of a name in numeric order."""
    return [
        (ord("0"), int(part)) if part.isdigit() else (ord(part), 0)
        for part in re.findall(r"[0-9]+|[^0-9]", name)
    ], name


class _Reader:
    def __init__(self, path: str, root: Element, *, energy: bool, numeric_order: bool) -> None:
        self._path = path
        self._order = _numeric if numeric_order else str
        self._energy = energy
        self._root = root
        self._hosts: dict[str, Host] = {}
        self._linked = False

    def platform(self, master: str, roles: Mapping[str, str], limit: int) -> BatsimPlatform:
        if self._root.tag != "platform":
            raise self._root.error(f"expected the root element <platform>, got <{self._root.tag}>")
        self._read_children(self._root, {})
        for name in roles:
            if name not in self._hosts:
                what = f"has no host {name}; --add-role-to-hosts (-r) names it"
                raise InputError(self._path, "", what)
        masters, compute, storage = self._by_role(master, roles)
        if len(masters) != 1:
            raise InputError(self._path, "", _one_master(masters, master))
        if limit > len(compute):
            raise InputError(
                self._path, "", f"has {len(compute)} compute hosts; --mmax requests {limit}"
            )
        if not compute:
            raise InputError(self._path, "", "has no compute host, only the master host")
        return BatsimPlatform(
            path=self._path,
            hosts=tuple(compute[: limit or None]),
            master=masters[0],
            storage=tuple(storage),
            no_network=not self._linked,
            network=read_network(self._root),
        )

    def _by_role(
        self, master: str, roles: Mapping[str, str]
    ) -> tuple[list[Host], list[Host], list[Host]]:
        """Return the master hosts, the compute hosts and the storage hosts, each by name."""
        found: tuple[list[Host], list[Host], list[Host]] = ([], [], [])
        for each in sorted(self._hosts, key=self._order):
            host = self._hosts[each]
            names = [host.properties["role"], roles.get(host.name, "")]
            names += ["master"] if host.name == master else []
            role = ",".join(dict.fromkeys(filter(None, names)))
            parts = {part.strip() for part in role.split(",")}
            if unknown := sorted(parts - set(_ROLES)):
                raise InputError(
                    self._path,
                    f"host {host.name}",
                    f"has the unknown role {unknown[0]!r}; expected {', '.join(_ROLES[1:])}",
                )
            which = 0 if "master" in parts else 2 if "storage" in parts else 1
            found[which].append(_with_role(host, role))
        return found

    def _read_children(self, parent: Element, zone_properties: Mapping[str, str]) -> None:
        for child in parent.children:
            if child.tag in ZONES:
                self._read_children(child, {**zone_properties, **child.properties()})
            elif child.tag == "host":
                name = child.required("id")
                self._add(child, host_of(child, name, zone_properties, energy=self._energy))
            elif child.tag in GROUPS:
                self._add_group(child, zone_properties)
            elif child.tag in NETWORK:
                self._linked = True
            elif child.tag in _UNSUPPORTED:
                what = _UNSUPPORTED[child.tag]
                raise child.error(f"<{child.tag}>: hpcosim does not support {what}")
            elif child.tag not in _IGNORED:
                raise child.error(f"<{child.tag}> is not an element of a SimGrid platform")

    def _add_group(self, group: Element, zone_properties: Mapping[str, str]) -> None:
        self._linked = True
        if group.tag == "cluster":  # it is a zone, too
            zone_properties = {**zone_properties, **group.properties()}
        like = host_of(group, "", zone_properties, energy=self._energy)
        for name in hosts_of(group):
            self._add(group, replace(like, name=name))

    def _add(self, element: Element, host: Host) -> None:
        if host.name in self._hosts:
            raise element.error(f"a second host has the name {host.name}; names must be unique")
        if len(self._hosts) >= MAX_HOSTS:
            raise element.error(f"the platform has more than {MAX_HOSTS} hosts, the maximum")
        self._hosts[host.name] = host


def _with_role(host: Host, role: str) -> Host:
    if role == host.properties["role"]:
        return host
    return replace(host, properties={**host.properties, "role": role})


def _one_master(masters: list[Host], wanted: str) -> str:
    if masters:
        names = ", ".join(host.name for host in masters[:5])
        return f"has {len(masters)} master hosts ({names}); expected one"
    return (
        f"has no master host; expected a host named {wanted} (--master-host), or a host with the "
        'property role="master"'
    )


def hosts_of(group: Element) -> Iterator[str]:
    """Yield the names of the hosts of a cluster or cabinet, in the order of its `radical`."""
    prefix, suffix = group.attributes.get("prefix", ""), group.attributes.get("suffix", "")
    return (f"{prefix}{number}{suffix}" for number in _numbers_of(group))


def router_of(cluster: Element) -> str:
    """Return the name of the router of a cluster."""
    prefix, suffix = cluster.attributes.get("prefix", ""), cluster.attributes.get("suffix", "")
    default = f"{prefix}{cluster.attributes.get('id', '')}_router{suffix}"
    return cluster.attributes.get("router_id") or default


def unsupported_cluster(cluster: Element) -> str:
    """Return why messages in a cluster cannot be simulated; "": they can."""
    topology = cluster.attributes.get("topology", "FLAT")
    if topology not in ("FLAT", *_TOPOLOGIES):
        return f"line {cluster.line}: a cluster with the topology {topology}"
    return "" if "bw" in cluster.attributes else f"line {cluster.line}: a cluster without bw"


def attach_cluster(cluster: Element, table: LinkTable) -> dict[str, Attachment]:
    """Add the links of a cluster and return how its hosts and its router are attached.

    As in SimGrid 3.32, both directions of a host's link share it with any `sharing_policy` but
    `SPLITDUPLEX`, the default.
    """
    attributes = cluster.attributes
    name = attributes.get("id", "")
    split = attributes.get("sharing_policy", "SPLITDUPLEX") in SPLIT
    link = Link("", bandwidth(cluster, "bw"), latency(cluster, "lat"))
    limiter = bandwidth(cluster, "limiter_link") if "limiter_link" in attributes else None
    loopback = None
    if "loopback_bw" in attributes:
        loop_s = latency(cluster, "loopback_lat")
        loopback = Link("", bandwidth(cluster, "loopback_bw"), loop_s, fatpipe=True)
    centre = _backbone(cluster, table)
    found = {router_of(cluster): Attachment(centre, centre)}
    for host in hosts_of(cluster):
        prefix = f"{name}_link_{host}"
        limit: Links = ()
        if limiter is not None:
            limit = (table.add(Link(f"{prefix}_limiter", limiter)).up,)
        ends = table.add(_named(link, prefix), split=split)
        loop = None if loopback is None else table.add(_named(loopback, f"{prefix}_loopback")).up
        found[host] = Attachment(
            (*limit, ends.up, *centre),
            (*centre, ends.down, *limit),
            None if loop is None else (loop,),
        )
    return found


def topology_of(
    cluster: Element, table: LinkTable, fat_tree_hosts: int
) -> Callable[[str, str], Links]:
    """Add the links of a cluster with a topology and return its routes between hosts.

    Args:
        fat_tree_hosts: number of hosts of the fat trees before, which SimGrid counts together.
    """
    attributes, name = cluster.attributes, cluster.attributes.get("id", "")
    hosts = {host: number for number, host in enumerate(hosts_of(cluster))}
    split = attributes.get("sharing_policy", "SPLITDUPLEX") in SPLIT
    bytes_per_s, latency_s = bandwidth(cluster, "bw"), latency(cluster, "lat")
    limit = bandwidth(cluster, "limiter_link") if "limiter_link" in attributes else None

    def cable(part: str, strands: int) -> Cable:
        link = Link(f"{name}_{part}", bytes_per_s * strands, latency_s)
        ends = table.add(link, split=split)
        return Cable(ends.up, ends.down)

    def limiter(part: str) -> Links:
        return () if limit is None else (table.add(Link(f"{name}_{part}", limit)).up,)

    kind, parameters = attributes["topology"], cluster.required("topo_parameters")
    parts = Parts(cable, limiter)
    try:
        if kind == "FAT_TREE":
            route = fat_tree(parameters, len(hosts), parts, fat_tree_hosts)
        else:
            route = (torus if kind == "TORUS" else dragonfly)(parameters, len(hosts), parts)
    except TopologyError as error:
        raise cluster.error(f"topo_parameters: {error}") from None
    loops: dict[str, Links] = {}
    if "loopback_bw" in attributes:
        loop_s, loop = latency(cluster, "loopback_lat"), bandwidth(cluster, "loopback_bw")
        for host in hosts:
            link = Link(f"{name}_link_{host}_loopback", loop, loop_s, fatpipe=True)
            loops[host] = (table.add(link).up,)

    def route_of(source: str, target: str) -> Links:
        if source == target and source in loops:
            return loops[source]
        return route(hosts[source], hosts[target])

    return route_of


def attach_cabinet(cabinet: Element, table: LinkTable) -> dict[str, Attachment]:
    """Add the links of a cabinet and return how its hosts are attached."""
    link = Link("", bandwidth(cabinet, "bw"), latency(cabinet, "lat"))
    found = {}
    for host in hosts_of(cabinet):
        ends = table.add(_named(link, f"link_{host}"), split=True)
        found[host] = Attachment((ends.up,), (ends.down,))
    return found


def _backbone(cluster: Element, table: LinkTable) -> Links:
    if "bb_bw" not in cluster.attributes:
        return ()
    policy = cluster.attributes.get("bb_sharing_policy", "SHARED")
    name = f"{cluster.attributes.get('id', '')}_backbone"
    bytes_per_s, latency_s = bandwidth(cluster, "bb_bw"), latency(cluster, "bb_lat")
    return (table.add(Link(name, bytes_per_s, latency_s, policy == "FATPIPE")).up,)


def _named(link: Link, name: str) -> Link:
    return Link(name, link.bytes_per_s, link.latency_s, link.fatpipe)


def _numbers_of(group: Element) -> Iterator[int]:
    text = group.required("radical")
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            begin, end = int(first), int(last if dash else first)
        except ValueError:
            raise group.error(f"radical: expected a list such as 0-127,130, got {text!r}") from None
        if end < begin:
            raise group.error(f"radical: expected ascending intervals, got {part.strip()!r}")
        yield from range(begin, end + 1)


class Ends(Struct, frozen=True):
    """The index of a link in each direction: two links if its directions do not share it."""

    up: int
    down: int

    @property
    def is_split(self) -> bool:
        """Whether the directions are two links."""
        return self.up != self.down


class LinkTable:
    """The links of a platform.

    Attributes:
        unsupported: why a link is not supported; "": all are.
    """

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.unsupported = ""
        self._by_name: dict[str, Ends] = {}

    def add(self, link: Link, *, split: bool = False) -> Ends:
        """Add a link.

        Args:
            split: whether each direction has the whole bandwidth.
        """
        number = len(self.links)
        if not split:
            self.links.append(link)
            ends = Ends(number, number)
        else:
            names = f"{link.name}_UP", f"{link.name}_DOWN"
            self.links += [Link(name, link.bytes_per_s, link.latency_s) for name in names]
            ends = Ends(number, number + 1)
            for place, name in enumerate(names, start=number):
                self._by_name[name] = Ends(place, place)
        self._by_name[link.name] = ends
        return ends

    def read(self, element: Element) -> Ends:
        """Add the link of an element `link` or `backbone`."""
        name = element.required("id")
        if name in self._by_name:
            raise element.error(f"a second link has the name {name}; names must be unique")
        policy = element.attributes.get("sharing_policy", "SHARED")
        if policy not in _POLICIES:
            self.unsupported = f"line {element.line}: a link with sharing_policy {policy}"
        for changing in ("bandwidth_file", "latency_file", "state_file"):
            if changing in element.attributes:
                self.unsupported = f"line {element.line}: a link with a {changing}"
        bytes_per_s = bandwidth(element, "bandwidth")
        link = Link(name, bytes_per_s, latency(element, "latency"), policy == "FATPIPE")
        return self.add(link, split=policy in SPLIT)

    def find(self, element: Element, name: str) -> Ends:
        """Return a link by the name that an element contains."""
        ends = self._by_name.get(name)
        if ends is None:
            raise element.error(f"there is no link {name}")
        return ends

    def route(self, element: Element) -> tuple[Links, Links]:
        """Return the links of a route, and those of the route back.

        Raises:
            InputError: a link is unknown or has no direction; names the line.
        """
        there, back = [], []
        for part in element.all("link_ctn"):
            ends = self.find(part, part.required("id"))
            direction = part.attributes.get("direction", "NONE")
            if ends.is_split and direction not in ("UP", "DOWN"):
                raise part.error(
                    f"direction: expected UP or DOWN for the split link {part.required('id')}"
                )
            down = direction == "DOWN"
            there.append(ends.down if down else ends.up)
            back.append(ends.up if down else ends.down)
        return tuple(there), tuple(reversed(back))


def bandwidth(element: Element, name: str) -> float:
    """Return the bandwidth in an attribute, bytes/s."""
    text = element.required(name)
    bytes_per_s = element.amount(name, text, BANDWIDTHS, "125MBps")
    if bytes_per_s <= 0:
        raise element.error(f"{name}: expected a bandwidth > 0, got {text!r}")
    return bytes_per_s


def latency(element: Element, name: str) -> float:
    """Return the latency in an attribute, s; default 0."""
    return element.amount(name, element.attributes.get(name, "0s"), TIMES, "50us")


def read_network(root: Element) -> Network:
    """Return the network of a platform.

    What hpcosim cannot simulate is noted in `Network.unsupported`, because it matters only to
    jobs that communicate.

    Raises:
        InputError: a link or a route is invalid; names the line.
    """
    reader = _NetworkReader()
    reader.read_members(root, _Members("", "", "full"))
    return reader.network()


class _Members(Struct):
    """A zone while it is read."""

    name: str
    parent: str
    kind: ZoneKind
    members: list[str] = field(default_factory=list)
    attachments: dict[str, Attachment] = field(default_factory=dict)
    centre: Links = ()
    route: Callable[[str, str], Links] | None = None


class _NetworkReader:
    def __init__(self) -> None:
        self._table = LinkTable()
        self._zones: dict[str, Zone] = {}
        self._zone_of: dict[str, str] = {}
        self._routes: list[tuple[str, Element]] = []
        self._unsupported = ""
        self._fat_tree_hosts = 0

    def network(self) -> Network:
        """Return the network after all members are read."""
        pairs: dict[str, dict[tuple[str, str], RouteEntry]] = {}
        for zone, element in self._routes:
            self._read_route(element, pairs.setdefault(zone, {}))
        zones = {
            name: replace(zone, pairs=pairs.get(name, {})) for name, zone in self._zones.items()
        }
        unsupported = self._unsupported or self._table.unsupported
        return Network(self._table.links, zones, self._zone_of, unsupported)

    def read_members(self, parent: Element, zone: _Members) -> None:
        """Read the members, the links and the zones in an element."""
        for child in parent.children:
            tag = child.tag
            if tag in ZONES:
                self._read_zone(child, zone)
            elif tag == "cluster":
                self._read_cluster(child, zone)
            elif tag == "cabinet":
                self._read_cabinet(child, zone)
            elif tag in ("host", "router"):
                self._zone_of[child.required("id")] = zone.name
                zone.members.append(child.required("id"))
            elif tag in _ROUTES:
                self._routes.append((zone.name, child))
            elif tag in ("link", "backbone"):
                ends = self._table.read(child)
                if tag == "backbone":
                    zone.centre = (ends.up,)
            elif tag == "host_link":
                up = self._table.find(child, child.required("up")).up
                down = self._table.find(child, child.required("down")).down
                zone.attachments[child.required("id")] = Attachment((up,), (down,))
            elif tag in _BYPASSES:
                self._note(child, f"<{tag}>")

    def _read_zone(self, element: Element, above: _Members) -> None:
        routing = element.attributes.get("routing", "")
        if routing not in _KINDS:
            self._note(element, f"a zone with the routing {routing!r}")
        name = element.attributes.get("id", f"line {element.line}")
        zone = _Members(name, above.name, _KINDS.get(routing, "none"))
        above.members.append(name)
        self.read_members(element, zone)
        if zone.kind == "floyd" and len(zone.members) > MAX_FLOYD_MEMBERS:
            self._note(
                element, f"a zone with the routing Floyd and over {MAX_FLOYD_MEMBERS} members"
            )
        if zone.kind == "star":
            members = [member for member, place in self._zone_of.items() if place == name]
            for member in members:
                at = zone.attachments.get(member, Attachment((), ()))
                zone.attachments[member] = Attachment(at.up + zone.centre, zone.centre + at.down)
        self._add_zone(element, zone)

    def _read_cluster(self, element: Element, above: _Members) -> None:
        name = element.attributes.get("id", f"line {element.line}")
        zone = _Members(name, above.name, "star")
        above.members.append(name)
        hosts = list(hosts_of(element))
        members: Iterable[str] = hosts
        if why := unsupported_cluster(element):
            self._unsupported = self._unsupported or why
            zone.attachments = {host: Attachment((), ()) for host in hosts}
        elif element.attributes.get("topology", "FLAT") == "FLAT":
            members = zone.attachments = attach_cluster(element, self._table)
        else:
            zone.kind = "topology"
            zone.route = topology_of(element, self._table, self._fat_tree_hosts)
            is_fat_tree = element.attributes["topology"] == "FAT_TREE"
            self._fat_tree_hosts += len(hosts) if is_fat_tree else 0
        self._zone_of |= dict.fromkeys(members, name)
        self._add_zone(element, zone)

    def _read_cabinet(self, element: Element, zone: _Members) -> None:
        self._zone_of |= dict.fromkeys(hosts_of(element), zone.name)
        if zone.kind != "star":
            self._note(element, '<cabinet> outside a zone with the routing "Cluster"')
        elif "bw" not in element.attributes:
            self._note(element, "a cabinet without bw")
        else:
            zone.attachments |= attach_cabinet(element, self._table)

    def _add_zone(self, element: Element, zone: _Members) -> None:
        if zone.name in self._zones:
            raise element.error(f"a second zone has the name {zone.name}; names must be unique")
        self._zones[zone.name] = Zone(
            zone.name,
            zone.parent,
            zone.kind,
            tuple(zone.members),
            attachments=zone.attachments,
            route=zone.route,
        )

    def _read_route(self, element: Element, pairs: dict[tuple[str, str], RouteEntry]) -> None:
        source, target = element.required("src"), element.required("dst")
        between_zones = element.tag != "route"
        known = self._zones if between_zones else self._zone_of
        leaves = element.required("gw_src") if between_zones else ""
        enters = element.required("gw_dst") if between_zones else ""
        for name, names in ((source, known), (target, known)):
            if name not in names:
                what = "zone" if between_zones else "host or router"
                raise element.error(f"<{element.tag}>: there is no {what} {name}")
        for name in (leaves, enters) if between_zones else ():
            if name not in self._zone_of:
                raise element.error(f"<{element.tag}>: there is no host or router {name}")
        there, back = self._table.route(element)
        found = {(source, target): RouteEntry(there, leaves, enters)}
        if element.attributes.get("symmetrical", "YES").upper() in ("YES", "TRUE", "1"):
            found.setdefault((target, source), RouteEntry(back, enters, leaves))
        for pair, entry in found.items():
            if pair in pairs:
                raise element.error(
                    f"a second route from {pair[0]} to {pair[1]}; routes are symmetrical by default"
                )
            pairs[pair] = entry

    def _note(self, element: Element, what: str) -> None:
        self._unsupported = self._unsupported or f"line {element.line}: {what}"
