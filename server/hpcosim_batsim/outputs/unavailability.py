"""States of unavailable hosts, which the simulation does not record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from hpcosim_batsim.outputs.model import HostState, StateChange

Unavailable = Sequence[tuple[float, tuple[int, ...], bool]]
"""Time, hosts, and whether they became unavailable (True) or available again (False)."""


def add_unavailable_states(
    states: Iterable[StateChange], availability: Unavailable
) -> list[StateChange]:
    """Return state changes of hosts with the state `unavailable`.

    An unavailable host finishes its job; it has the state `unavailable` instead of `idle`.

    Args:
        states: state changes of the simulation, by time.
        availability: changes of availability, by time.
    """
    if not availability:
        return list(states)
    unavailable: set[int] = set()
    recorded: dict[int, HostState] = {}  # states in the simulation
    result = []
    changes: list[tuple[float, int, StateChange | tuple[tuple[int, ...], bool]]] = [
        # At one instant jobs end first, then availability changes, then jobs start.
        *((change.time_s, 2 * (change.state == "computing"), change) for change in states),
        *((time_s, 1, (hosts, lost)) for time_s, hosts, lost in availability),
    ]
    for time_s, _, change in sorted(changes, key=lambda entry: entry[:2]):
        counted = True
        if isinstance(change, StateChange):
            hosts: Sequence[int] = change.hosts
            if not hosts:
                result.append(change)
            counted = change.counted
            recorded.update(dict.fromkeys(hosts, change.state))
        else:
            named, lost = change
            hosts = [host for host in named if recorded.get(host, "idle") == "idle"]
            unavailable = unavailable | set(named) if lost else unavailable - set(named)
        for state, members in _by_state(hosts, recorded, unavailable).items():
            result.append(StateChange(time_s, members, state, counted))
    return result


def _by_state(
    hosts: Iterable[int], recorded: Mapping[int, HostState], unavailable: Set[int]
) -> dict[HostState, list[int]]:
    """Return hosts by their state."""
    by_state: dict[HostState, list[int]] = {}
    for host in hosts:
        state = recorded.get(host, "idle")
        if state == "idle" and host in unavailable:
            state = "unavailable"
        by_state.setdefault(state, []).append(host)
    return by_state
