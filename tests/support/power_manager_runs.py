"""Platforms with power states, and the changes of power states in a run."""

from __future__ import annotations

from hpcosim_protocol import NodeGroup, Platform, PowerStates, Processor
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.physics.power import RecordedState
from hpcosim_sim.record.recording import POWER_STATES, Recording

STATES = PowerStates(sleep_w=5, switch_on_s=10, switch_on_w=80, switch_off_s=4, switch_off_w=20)


def nodes_of(count: int, states: PowerStates | None = STATES) -> Platform:
    """Return nodes of one core each, 100 W idle or computing."""
    return Platform((NodeGroup(count, (Processor(1, 1.0, 100.0),), power_states=states),))


def power_history(recording: Recording, node: int) -> list[tuple[float, RecordedState]]:
    """Return the time and the state of each change of a node, in chronological order."""
    changes = zip(recording.power_s, recording.power_node, recording.power_state, strict=True)
    return [(at_s, POWER_STATES[state]) for at_s, which, state in changes if which == node]


def switched(simulation: Simulation) -> list[tuple[float, int, str]]:
    """Return time, node and state of each change, sorted."""
    recording = simulation.recording
    return sorted(
        (at_s, node, POWER_STATES[state])
        for at_s, node, state in zip(
            recording.power_s, recording.power_node, recording.power_state, strict=True
        )
    )


def switched_off(simulation: Simulation) -> list[tuple[float, int]]:
    """Return the time and the node of each begin of a switch-off."""
    return [(at_s, node) for at_s, node, state in switched(simulation) if state == "switching_off"]
