"""States of unavailable hosts, which the simulation does not record."""

from __future__ import annotations

from collections import deque
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
    result: list[StateChange] = []

    def add(time_s: float, hosts: Iterable[int], *, counted: bool) -> None:
        for state, members in _by_state(hosts, recorded, unavailable).items():
            result.append(StateChange(time_s, members, state, counted))

    waiting = deque(availability)
    for change in [*states, None]:
        while waiting and (change is None or _is_first(waiting[0][0], change)):
            time_s, named, lost = waiting.popleft()
            (unavailable.update if lost else unavailable.difference_update)(named)
            idle = [host for host in named if recorded.get(host, "idle") == "idle"]
            add(time_s, idle, counted=True)
        if change is None:
            continue
        recorded.update(dict.fromkeys(change.hosts, change.state))
        if change.hosts:
            add(change.time_s, change.hosts, counted=change.counted)
        else:
            result.append(change)
    return result


def _is_first(time_s: float, change: StateChange) -> bool:
    """Tell whether a change of availability comes before a state change.

    At one instant jobs end first, then availability changes, then jobs start.
    """
    return time_s < change.time_s or (time_s == change.time_s and change.state == "computing")


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
