"""Reader of SimGrid platform files.

It supports hosts, clusters and cabinets in nested zones, speeds and pstates, properties of hosts
and zones, and their network (`network_xml`). Traces of availability or speed and included files
are errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import replace

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.cluster_xml import hosts_of
from hpcosim_batsim.inputs.network_xml import GROUPS, NETWORK, ZONES, read_network
from hpcosim_batsim.inputs.platform_model import BatsimPlatform, Host, SleepState, Watts
from hpcosim_batsim.inputs.xml_tree import FLOPS, Element, read_xml

# Reader of the hosts in SimGrid platform files: speeds and pstates.

POWER, OLD_POWER = "wattage_per_state", "watt_per_state"
_CHANGING = ("availability_file", "speed_file", "state_file")


def host_of(
    element: Element, name: str, zone_properties: Mapping[str, str], *, energy: bool
) -> Host:
    """Return the host that an element describes.

    Args:
        element: a host, or a cluster or cabinet of equal hosts.
        name: name of the host; "": each host of a group.
        zone_properties: properties of its zones.
        energy: read power and sleep pstates; otherwise, as in Batsim, they are only properties.

    Raises:
        InputError: the host is invalid or not supported; names the line.
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


MAX_HOSTS = 1_000_000
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


def read_platform(
    path: Path,
    *,
    master: str = MASTER,
    roles: Mapping[str, str] = NO_ROLES,
    limit: int = 0,
    energy: bool = True,
) -> BatsimPlatform:
    """Return the platform of a file.

    Args:
        path: the file.
        master: name of the master host; a host with the role `master` is the master host, too.
        roles: roles of hosts by name, in addition to those of the file.
        limit: maximum number of compute hosts, the first by number; 0: all.
        energy: read the power and the sleep pstates of hosts.

    Raises:
        InputError: the file cannot be read or is invalid or not supported; names the line.
    """
    return _Reader(str(path), read_xml(path), energy=energy).platform(master, roles, limit)


class _Reader:
    def __init__(self, path: str, root: Element, *, energy: bool) -> None:
        self._path = path
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
        for _, host in sorted(self._hosts.items()):
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
