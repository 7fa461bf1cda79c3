"""Runs of power managers, and the switches in them."""

from __future__ import annotations

from hpcosim_protocol import (
    NodeGroup,
    Platform,
    PowerStates,
    Processor,
)
from hpcosim_server.engine.simulation import Simulation

STATES = PowerStates(sleep_w=5, switch_on_s=10, switch_on_w=80, switch_off_s=4, switch_off_w=20)


def nodes_of(count: int, states: PowerStates | None = STATES) -> Platform:
    """Return nodes of one core each, 100 W idle or computing."""
    return Platform((NodeGroup(count, (Processor(1, 1.0, 100.0),), power_states=states),))


def switched(simulation: Simulation) -> list[tuple[float, int, str]]:
    """Return when which node entered which state."""
    recording = simulation.recording
    return sorted(
        (at_s, node, state)
        for node in set(recording.power_node)
        for at_s, state in recording.power_history(node)
    )


def switched_off(simulation: Simulation) -> list[tuple[float, int]]:
    """Return when which node was switched off."""
    return [(at_s, node) for at_s, node, state in switched(simulation) if state == "switching_off"]
