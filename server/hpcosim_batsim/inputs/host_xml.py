"""Hosts of SimGrid's platform files: their speeds and their power states."""

from __future__ import annotations

from collections.abc import Mapping

from hpcosim_batsim.inputs.platform_model import Host, SleepState, Watts
from hpcosim_batsim.inputs.units import FLOPS
from hpcosim_batsim.inputs.xml_tree import Element

POWER, OLD_POWER = "wattage_per_state", "watt_per_state"
_CHANGING = ("availability_file", "speed_file", "state_file")


def host_of(element: Element, name: str, zone_properties: Mapping[str, str]) -> Host:
    """Return the host that an element describes.

    Args:
        element: of a host, or of a group of hosts that are alike.
        name: what it is called; empty: each host of a group.
        zone_properties: the properties of the zones it lies in.

    Raises:
        InputError: it can't be simulated; names the line.
    """
    for changing in _CHANGING:
        if changing in element.attributes:
            raise element.wrong(f"{changing} is not supported: a host is always the same")
    given = element.properties()
    speeds = tuple(
        element.amount("speed", text, FLOPS, "1Gf") for text in element.need("speed").split(",")
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
        watts=() if power is None else _watts(element, power, len(speeds)),
        wattage_off_w=_wattage_off(element, given),
        sleep_states=_sleep_states(element, given.get("sleep_pstates"), len(speeds)),
        properties=sent,
        zone_properties=zone_properties,
    )
    _check(element, host)
    return host


def _check(element: Element, host: Host) -> None:
    name = host.name or "each host"
    if not host.computes_in(host.pstate):
        raise element.wrong(
            f"{name} begins in the power state {host.pstate}, in which it can't compute; "
            f"it has {len(host.speeds)}",
        )
    for pstate, speed in enumerate(host.speeds):
        if speed <= 0 and pstate not in host.sleep_states:
            raise element.wrong(
                f"{name} has a speed of {speed:g} in its power state {pstate}; it must be above 0",
            )


def _watts(element: Element, text: str, count: int) -> tuple[Watts, ...]:
    states = tuple(_state_watts(element, state) for state in text.split(","))
    if len(states) != count:
        raise element.wrong(
            f"tells the power of {len(states)} power states, but has {count} speeds"
        )
    return states


def _state_watts(element: Element, text: str) -> Watts:
    parts = [_watt(element, part) for part in text.split(":")]
    if len(parts) == 2:
        return Watts(parts[0], parts[0], parts[1])
    if len(parts) != 3:
        raise element.wrong(f"the power {text.strip()!r} is not idle:epsilon:all, in W")
    return Watts(*parts)


def _wattage_off(element: Element, given: Mapping[str, str]) -> float | None:
    text = given.get("wattage_off", given.get("watt_off"))
    return None if text is None else _watt(element, text)


def _watt(element: Element, text: str) -> float:
    return element.amount("a power", text, {"W": 1.0}, "95.0")


def _sleep_states(element: Element, text: str | None, count: int) -> dict[int, SleepState]:
    found: dict[int, SleepState] = {}
    for triplet in [] if text is None else text.split(","):
        try:
            state = SleepState(*(int(part) for part in triplet.split(":")))
        except (ValueError, TypeError):
            raise element.wrong(
                f"sleep_pstates has {triplet.strip()!r}, not sleep:off:on such as 13:14:15",
            ) from None
        for pstate in (state.sleep, state.off, state.on):
            if not 0 <= pstate < count:
                raise element.wrong(
                    f"sleep_pstates names the power state {pstate}; they go to {count - 1}",
                )
        found[state.sleep] = state
    passed = {pstate for state in found.values() for pstate in (state.off, state.on)}
    if both := sorted(passed & found.keys()):
        raise element.wrong(
            f"the power state {both[0]} can't be one to sleep in and one to pass through",
        )
    return found
