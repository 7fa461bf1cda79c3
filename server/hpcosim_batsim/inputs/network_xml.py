"""Reader of the network in SimGrid platform files: zones, clusters and routes."""

from __future__ import annotations

from msgspec import Struct, field

from hpcosim_batsim.inputs.cluster_xml import (
    attach_cabinet,
    attach_cluster,
    hosts_of,
    unsupported_cluster,
)
from hpcosim_batsim.inputs.link_xml import LinkTable
from hpcosim_batsim.inputs.xml_tree import Element
from hpcosim_batsim.network.model import Attachment, Links, RouteEntry, Zone, ZoneKind
from hpcosim_batsim.network.routes import Network

ZONES = {"zone", "AS"}
GROUPS = {"cluster", "cabinet"}
_ROUTES = {"route", "zoneRoute", "ASroute"}
_BYPASSES = {"bypassRoute", "bypassZoneRoute", "bypassASroute"}
NETWORK = _ROUTES | _BYPASSES | {"link", "backbone", "host_link", "link_ctn", "router"}
"""Elements that exist only in a platform with a network."""

_KINDS: dict[str, ZoneKind] = {"Full": "full", "Cluster": "star", "None": "none"}


def read_network(root: Element) -> Network:
    """Return the network of a platform.

    What hpcosim cannot simulate is noted in `Network.unsupported`, because it matters only to
    jobs that communicate.

    Raises:
        InputError: a link or a route is invalid; names the line.
    """
    reader = _Reader()
    reader.read_members(root, _Members("", "", "full"))
    return reader.network()


class _Members(Struct):
    """A zone while it is read."""

    name: str
    parent: str
    kind: ZoneKind
    attachments: dict[str, Attachment] = field(default_factory=dict)
    centre: Links = ()


class _Reader:
    def __init__(self) -> None:
        self._table = LinkTable()
        self._zones: dict[str, Zone] = {}
        self._zone_of: dict[str, str] = {}
        self._routes: list[tuple[str, Element]] = []
        self._unsupported = ""

    def network(self) -> Network:
        """Return the network after all members are read."""
        pairs: dict[str, dict[tuple[str, str], RouteEntry]] = {}
        for zone, element in self._routes:
            self._read_route(element, pairs.setdefault(zone, {}))
        zones = {
            name: Zone(zone.name, zone.parent, zone.kind, pairs.get(name, {}), zone.attachments)
            for name, zone in self._zones.items()
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
        self.read_members(element, zone)
        if zone.kind == "star":
            members = [member for member, place in self._zone_of.items() if place == name]
            for member in members:
                at = zone.attachments.get(member, Attachment((), ()))
                zone.attachments[member] = Attachment(at.up + zone.centre, zone.centre + at.down)
        self._add_zone(element, zone)

    def _read_cluster(self, element: Element, above: _Members) -> None:
        name = element.attributes.get("id", f"line {element.line}")
        zone = _Members(name, above.name, "star")
        if why := unsupported_cluster(element):
            self._unsupported = self._unsupported or why
            zone.attachments = {host: Attachment((), ()) for host in hosts_of(element)}
        else:
            zone.attachments = attach_cluster(element, self._table)
        self._zone_of |= dict.fromkeys(zone.attachments, name)
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
            zone.name, zone.parent, zone.kind, attachments=zone.attachments
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
