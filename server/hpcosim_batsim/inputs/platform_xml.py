"""SimGrid's platform files, as Batsim reads them.

Read: hosts, clusters and cabinets, in zones however deep; speeds and power states; properties of
hosts and of zones. Of the network only what `profiles` needs to know: whether there is one, and
the stars that clusters are. What changes while the simulation runs (traces of availability or of
speed) is refused by name, and so is what lies in another file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import replace

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.cluster_xml import numbers_of, star_of
from hpcosim_batsim.inputs.host_xml import host_of
from hpcosim_batsim.inputs.platform_model import Host, Platform, Star
from hpcosim_batsim.inputs.xml_tree import Element, read_xml

MAX_HOSTS = 1_000_000
MASTER = "master_host"
NO_ROLES: Mapping[str, str] = MappingProxyType({})

_ZONES = {"zone", "AS"}
_GROUPS = {"cluster", "cabinet"}
_NETWORK = {
    "link",
    "route",
    "zoneRoute",
    "ASroute",
    "bypassRoute",
    "bypassZoneRoute",
    "bypassASroute",
}
_NETWORK |= {"backbone", "host_link", "link_ctn", "router"}
_PASSED_OVER = {"config", "prop", "disk", "storage_type", "storage", "mount", "random"}
_REFUSED = {
    "include": "lies in another file",
    "peer": "is a host whose links change",
    "trace": "changes while the simulation runs",
    "trace_connect": "changes while the simulation runs",
    "process": "starts a program of SimGrid's",
    "actor": "starts a program of SimGrid's",
}
_ROLES = ("", "compute_node", "master", "storage")


def read_platform(
    path: Path, *, master: str = MASTER, roles: Mapping[str, str] = NO_ROLES, limit: int = 0
) -> Platform:
    """Return the platform of a file.

    Args:
        path: the file.
        master: the name of the host the scheduler is on; one with the role `master` is, too.
        roles: roles of hosts by their names, beside those the file gives.
        limit: take only so many of the hosts that jobs run on, the first by number; 0: all.

    Raises:
        InputError: it can't be read, or asks for what can't be had; names the line.
    """
    return _Reader(str(path), read_xml(path)).platform(master, roles, limit)


class _Reader:
    def __init__(self, path: str, root: Element) -> None:
        self._path = path
        self._root = root
        self._hosts: dict[str, Host] = {}
        self._stars: dict[str, Star] = {}
        self._linked = False

    def platform(self, master: str, roles: Mapping[str, str], limit: int) -> Platform:
        if self._root.tag != "platform":
            raise self._root.wrong(f"begins with <{self._root.tag}>, not with <platform>")
        self._read_children(self._root, {})
        for name in roles:
            if name not in self._hosts:
                raise InputError(self._path, "", f"has no host {name}, which is to have a role")
        masters, compute, storage = self._by_role(master, roles)
        if len(masters) != 1:
            raise InputError(self._path, "", _one_master(masters, master))
        if limit > len(compute):
            raise InputError(
                self._path, "", f"has {len(compute)} hosts that jobs run on; {limit} were asked for"
            )
        if not compute:
            raise InputError(self._path, "", "has no host that jobs run on, only the master")
        return Platform(
            path=self._path,
            hosts=tuple(compute[: limit or None]),
            master=masters[0],
            storage=tuple(storage),
            free=not self._linked,
            star=self._common_star(compute),
        )

    def _by_role(
        self, master: str, roles: Mapping[str, str]
    ) -> tuple[list[Host], list[Host], list[Host]]:
        """Return the masters, the hosts jobs run on, and those of storage, by name."""
        found: tuple[list[Host], list[Host], list[Host]] = ([], [], [])
        for _, host in sorted(self._hosts.items()):
            names = [host.properties["role"], roles.get(host.name, "")]
            names += ["master"] if host.name == master else []
            role = ",".join(dict.fromkeys(filter(None, names)))
            parts = {part.strip() for part in role.split(",")}
            if strange := sorted(parts - set(_ROLES)):
                raise InputError(
                    self._path,
                    f"host {host.name}",
                    f"has the role {strange[0]!r}; there are {', '.join(_ROLES[1:])}",
                )
            which = 0 if "master" in parts else 2 if "storage" in parts else 1
            found[which].append(_with_role(host, role))
        return found

    def _common_star(self, hosts: list[Host]) -> Star | None:
        first = self._stars.get(hosts[0].name)
        same = all(self._stars.get(host.name) is first for host in hosts)
        return first if same else None

    def _read_children(self, parent: Element, zone_properties: Mapping[str, str]) -> None:
        for child in parent.children:
            if child.tag in _ZONES:
                self._read_children(child, {**zone_properties, **child.properties()})
            elif child.tag == "host":
                self._add(child, host_of(child, child.need("id"), zone_properties))
            elif child.tag in _GROUPS:
                self._add_group(child, zone_properties)
            elif child.tag in _NETWORK:
                self._linked = True
            elif child.tag in _REFUSED:
                raise child.wrong(f"<{child.tag}> is not supported: it {_REFUSED[child.tag]}")
            elif child.tag not in _PASSED_OVER:
                raise child.wrong(f"<{child.tag}> is not known in a SimGrid platform")

    def _add_group(self, group: Element, zone_properties: Mapping[str, str]) -> None:
        self._linked = True
        prefix, suffix = group.attributes.get("prefix", ""), group.attributes.get("suffix", "")
        star, like = star_of(group), host_of(group, "", zone_properties)
        for number in numbers_of(group):
            name = f"{prefix}{number}{suffix}"
            self._add(group, replace(like, name=name))
            if star is not None:
                self._stars[name] = star

    def _add(self, element: Element, host: Host) -> None:
        if host.name in self._hosts:
            raise element.wrong(f"there is a second host {host.name}")
        if len(self._hosts) >= MAX_HOSTS:
            raise element.wrong(f"there are more than {MAX_HOSTS} hosts")
        self._hosts[host.name] = host


def _with_role(host: Host, role: str) -> Host:
    if role == host.properties["role"]:
        return host
    return replace(host, properties={**host.properties, "role": role})


def _one_master(masters: list[Host], wanted: str) -> str:
    if masters:
        return f"has several masters: {', '.join(host.name for host in masters[:5])}"
    return (
        f"has no master: there must be a host named {wanted}, or one with the property "
        'role="master", where the scheduler is'
    )
