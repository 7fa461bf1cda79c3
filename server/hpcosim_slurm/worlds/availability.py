"""Nodes that fail, are drained and return, and nodes that are off at the start."""

from __future__ import annotations

from hpcosim_server.engine.availability_changes import change_node
from hpcosim_slurm.state import LiveNode
from hpcosim_slurm.worlds.live_engine import LiveEngine

MARKS = "*~#!%$@^-"
"""Marks that Slurm appends to the state of a node, such as `*`: its daemon does not answer."""


def is_down(node: LiveNode) -> bool:
    """Return whether a node is down, so that no job runs there."""
    words = {word.rstrip(MARKS) for word in node.slurm_state.upper().split("+")}
    return not node.is_available and bool(words & {"DOWN", "FAIL", "ERROR"})


def note_node(engine: LiveEngine, number: int, node: LiveNode) -> None:
    """Let a node of a copy fail, be drained or return, as the real one did.

    Args:
        engine: the copy of the cluster.
        number: number of the node.
        node: the real node as it is now.
    """
    has_failed, is_drained = (
        number in engine.availability.failed,
        number in engine.availability.drained,
    )
    if node.is_available:
        change_node(engine, "repair", number)
    elif is_down(node):
        change_node(engine, "fail", number)
    elif has_failed:  # it runs again, but is still drained
        change_node(engine, "repair", number)
        change_node(engine, "drain", number)
    elif not is_drained:
        change_node(engine, "drain", number)


def switch_off_at_start(engine: LiveEngine, number: int, node: LiveNode) -> None:
    """Switch a node of a copy off without delay, because the real one is off at the start."""
    has_states = engine.cluster.kinds[engine.cluster.group_of[number]].power_states is not None
    is_used = engine.cluster.free[number] < engine.cluster.capacity[number]
    if node.power in ("off", "switching_off") and has_states and not is_used:
        engine.switching.switch(number, "switching_off")
        engine.switching.cancel(number)
        engine.switching.switch(number, "sleeping")
