"""SimGrid's platform files, as Batsim reads them.

Read: hosts, clusters and cabinets, in zones however deep; speeds and power states; properties of
hosts and of zones. Of the network only what `profiles` needs to know: whether there is one, and
the stars that clusters are. What changes while the simulation runs (traces of availability or of
speed) is refused by name, and so is what lies in another file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import replace

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.model import Host, Platform, SleepState, Star, Watts
from hpcosim_batsim.inputs.units import BANDWIDTHS, FLOPS, TIMES, amount
from hpcosim_batsim.inputs.xml_tree import Element, read_xml

MOST_HOSTS = 1_000_000
MASTER = "master_host"
POWER, OLD_POWER = "wattage_per_state", "watt_per_state"
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
_CHANGING = ("availability_file", "speed_file", "state_file")
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
            raise self._wrong(self._root, f"begins with <{self._root.tag}>, not with <platform>")
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
                self._read_children(child, {**zone_properties, **self._properties(child)})
            elif child.tag == "host":
                self._add(child, self._host(child, self._need(child, "id"), zone_properties))
            elif child.tag in _GROUPS:
                self._add_group(child, zone_properties)
            elif child.tag in _NETWORK:
                self._linked = True
            elif child.tag in _REFUSED:
                raise self._wrong(
                    child, f"<{child.tag}> is not supported: it {_REFUSED[child.tag]}"
                )
            elif child.tag not in _PASSED_OVER:
                raise self._wrong(child, f"<{child.tag}> is not known in a SimGrid platform")

    def _add_group(self, group: Element, zone_properties: Mapping[str, str]) -> None:
        self._linked = True
        prefix, suffix = group.attributes.get("prefix", ""), group.attributes.get("suffix", "")
        star, like = self._star(group), self._host(group, "", zone_properties)
        for number in self._radical(group):
            name = f"{prefix}{number}{suffix}"
            self._add(group, replace(like, name=name))
            if star is not None:
                self._stars[name] = star

    def _add(self, element: Element, host: Host) -> None:
        if host.name in self._hosts:
            raise self._wrong(element, f"there is a second host {host.name}")
        if len(self._hosts) >= MOST_HOSTS:
            raise self._wrong(element, f"there are more than {MOST_HOSTS} hosts")
        self._hosts[host.name] = host

    def _host(self, element: Element, name: str, zone_properties: Mapping[str, str]) -> Host:
        for changing in _CHANGING:
            if changing in element.attributes:
                raise self._wrong(
                    element, f"{changing} is not supported: a host is always the same"
                )
        given = self._properties(element)
        speeds = tuple(
            self._amount(element, "speed", text, FLOPS, "1Gf")
            for text in self._need(element, "speed").split(",")
        )
        power = given.get(POWER, given.get(OLD_POWER))
        sent = {"role": "", **given}
        if power is not None:
            sent = {**sent, POWER: given.get(POWER, power), OLD_POWER: given.get(OLD_POWER, power)}
        host = Host(
            name=name,
            speeds=speeds,
            cores=self._count(element, "core", 1, 1),
            pstate=self._count(element, "pstate", 0, 0),
            watts=() if power is None else self._watts(element, power, len(speeds)),
            wattage_off_w=self._wattage_off(element, given),
            sleep_states=self._sleep_states(element, given.get("sleep_pstates"), len(speeds)),
            properties=sent,
            zone_properties=zone_properties,
        )
        self._check(element, host)
        return host

    def _check(self, element: Element, host: Host) -> None:
        name = host.name or "each host"
        if not host.computes_in(host.pstate):
            raise self._wrong(
                element,
                f"{name} begins in the power state {host.pstate}, in which it can't compute; "
                f"it has {len(host.speeds)}",
            )
        for pstate, speed in enumerate(host.speeds):
            if speed <= 0 and pstate not in host.sleep_states:
                raise self._wrong(
                    element,
                    f"{name} has a speed of {speed:g} in its power state {pstate}; "
                    "it must be above 0",
                )

    def _watts(self, element: Element, text: str, count: int) -> tuple[Watts, ...]:
        states = tuple(self._state_watts(element, state) for state in text.split(","))
        if len(states) != count:
            raise self._wrong(
                element, f"tells the power of {len(states)} power states, but has {count} speeds"
            )
        return states

    def _state_watts(self, element: Element, text: str) -> Watts:
        parts = [self._watt(element, part) for part in text.split(":")]
        if len(parts) == 2:
            return Watts(parts[0], parts[0], parts[1])
        if len(parts) != 3:
            raise self._wrong(element, f"the power {text.strip()!r} is not idle:epsilon:all, in W")
        return Watts(*parts)

    def _wattage_off(self, element: Element, given: Mapping[str, str]) -> float | None:
        text = given.get("wattage_off", given.get("watt_off"))
        return None if text is None else self._watt(element, text)

    def _watt(self, element: Element, text: str) -> float:
        return self._amount(element, "a power", text, {"W": 1.0}, "95.0")

    def _sleep_states(
        self, element: Element, text: str | None, count: int
    ) -> dict[int, SleepState]:
        found: dict[int, SleepState] = {}
        for triplet in [] if text is None else text.split(","):
            try:
                state = SleepState(*(int(part) for part in triplet.split(":")))
            except (ValueError, TypeError):
                raise self._wrong(
                    element,
                    f"sleep_pstates has {triplet.strip()!r}, not sleep:off:on such as 13:14:15",
                ) from None
            for pstate in (state.sleep, state.off, state.on):
                if not 0 <= pstate < count:
                    raise self._wrong(
                        element,
                        f"sleep_pstates names the power state {pstate}; they go to {count - 1}",
                    )
            found[state.sleep] = state
        passed = {pstate for state in found.values() for pstate in (state.off, state.on)}
        if both := sorted(passed & found.keys()):
            raise self._wrong(
                element,
                f"the power state {both[0]} can't be one to sleep in and one to pass through",
            )
        return found

    def _star(self, group: Element) -> Star | None:
        """Return how the hosts of a cluster are linked; None: in a way that is not modelled."""
        about = group.attributes
        if group.tag != "cluster" or about.get("topology", "FLAT") != "FLAT" or "bw" not in about:
            return None
        policy = about.get("sharing_policy", "SPLITDUPLEX")
        if policy not in ("SPLITDUPLEX", "FULLDUPLEX", "SHARED"):
            return None

        def bandwidth(name: str) -> float:
            bytes_per_s = self._amount(group, name, about[name], BANDWIDTHS, "125MBps")
            if bytes_per_s <= 0:
                raise self._wrong(group, f"{name} must be above 0")
            return bytes_per_s

        def latency_s(name: str) -> float:
            return self._amount(group, name, about.get(name, "0s"), TIMES, "50us")

        return Star(
            bytes_per_s=bandwidth("bw"),
            split=policy != "SHARED",
            latency_s=latency_s("lat"),
            backbone_bytes_per_s=bandwidth("bb_bw") if "bb_bw" in about else None,
            backbone_latency_s=latency_s("bb_lat"),
        )

    def _radical(self, group: Element) -> Iterator[int]:
        text = self._need(group, "radical")
        for part in text.split(","):
            first, dash, last = part.strip().partition("-")
            try:
                begin, end = int(first), int(last if dash else first)
            except ValueError:
                raise self._wrong(
                    group, f"the radical {text!r} is not a list such as 0-127,130"
                ) from None
            if end < begin:
                raise self._wrong(group, f"the radical has {part.strip()!r}, which goes backwards")
            yield from range(begin, end + 1)

    def _properties(self, element: Element) -> dict[str, str]:
        return {self._need(prop, "id"): self._need(prop, "value") for prop in element.all("prop")}

    def _need(self, element: Element, name: str) -> str:
        value = element.attributes.get(name)
        if value is None:
            raise self._wrong(element, f"<{element.tag}> has no {name}")
        return value

    def _count(self, element: Element, name: str, default: int, least: int) -> int:
        text = element.attributes.get(name, str(default))
        number = int(text) if text.isascii() and text.strip().isdigit() else least - 1
        if number < least:
            raise self._wrong(element, f"{name} is {text!r}; it must be a number from {least}")
        return number

    def _amount(
        self, element: Element, name: str, text: str, units: Mapping[str, float], example: str
    ) -> float:
        try:
            return amount(text, units, example)
        except ValueError as error:
            raise self._wrong(element, f"{name}: {error}") from None

    def _wrong(self, element: Element, what: str) -> InputError:
        return InputError(self._path, f"line {element.line}", what)


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
