"""Power states of nodes in a copy, as those of the real ones."""

from __future__ import annotations

from hpcosim_slurm.state import LiveNode
from hpcosim_slurm.worlds.live_engine import LiveEngine


def are_on(engine: LiveEngine, nodes: list[int]) -> bool:
    """Switch nodes of a copy on, because a job runs there in reality; return whether they are."""
    for node in nodes:
        _reach(engine, node, "on")
    return engine.power.are_on(nodes)


def note_power(engine: LiveEngine, number: int, node: LiveNode) -> None:
    """Switch a node of a copy as the real one was switched, if no job of the copy prevents it."""
    wanted = {"off": "sleeping"}.get(node.power, node.power)
    is_used = engine.cluster.free[number] < engine.cluster.capacity[number]
    waits = bool(engine.jobs.allocated)
    if number in engine.availability.failed or (is_used and wanted != "on" and not waits):
        return
    if wanted == "on" or not is_used:
        _reach(engine, number, wanted)


def _reach(engine: LiveEngine, node: int, wanted: str) -> None:
    """Move a node of the copy through its power states to one of them."""
    group = engine.cluster.kinds[engine.cluster.group_of[node]]
    if group.power_states is None:
        return
    while engine.power.state[node] != wanted:
        state = engine.power.state[node]
        if state in ("switching_on", "switching_off"):
            engine.switching.complete(node)
            if engine.power.state[node] == state:  # its timer was cancelled
                after = "on" if state == "switching_on" else "sleeping"
                engine.switching.switch(node, after)  # type: ignore[arg-type]
        else:
            after = "switching_off" if state == "on" else "switching_on"
            engine.switching.switch(node, after)  # type: ignore[arg-type]
