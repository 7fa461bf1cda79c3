"""Hosts that became unavailable: their states, beside those the simulation knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from hpcosim_batsim.inputs.model import HostState, StateChange

Unavailable = Sequence[tuple[float, tuple[int, ...], bool]]
"""When which hosts became unavailable (True) or available again (False)."""


def with_unavailable(states: Iterable[StateChange], availability: Unavailable) -> list[StateChange]:
    """Return changes of hosts' states with those of unavailable hosts.

    Such a host goes on with the job it runs; it is unavailable where it would be idle.
    """
    if not availability:
        return list(states)
    unavailable: set[int] = set()
    plain: dict[int, HostState] = {}  # what hosts would be if all were available
    found = []
    changes: list[tuple[float, int, StateChange | tuple[tuple[int, ...], bool]]] = [
        # Of one instant: jobs end, then hosts come and go, then others start.
        *((change.time_s, 2 * (change.state == "computing"), change) for change in states),
        *((time_s, 1, (hosts, gone)) for time_s, hosts, gone in availability),
    ]
    for time_s, _, change in sorted(changes, key=lambda entry: entry[:2]):
        if isinstance(change, StateChange):
            hosts: Sequence[int] = change.hosts
            plain.update(dict.fromkeys(hosts, change.state))
        else:
            named, gone = change
            hosts = [host for host in named if plain.get(host, "idle") == "idle"]
            unavailable = unavailable | set(named) if gone else unavailable - set(named)
        for state, members in _apart(hosts, plain, unavailable).items():
            found.append(StateChange(time_s, members, state))
    return found


def _apart(
    hosts: Iterable[int], plain: Mapping[int, HostState], unavailable: Set[int]
) -> dict[HostState, list[int]]:
    """Return hosts by the state they are in."""
    apart: dict[HostState, list[int]] = {}
    for host in hosts:
        state = plain.get(host, "idle")
        seen: HostState = "unavailable" if state == "idle" and host in unavailable else state
        apart.setdefault(seen, []).append(host)
    return apart
