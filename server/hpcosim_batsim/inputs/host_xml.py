"""Reader of the hosts in SimGrid platform files: speeds and pstates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hpcosim_batsim.inputs.platform_model import Host, SleepState, Watts
from hpcosim_batsim.inputs.units import FLOPS
from hpcosim_batsim.inputs.xml_tree import Element

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
