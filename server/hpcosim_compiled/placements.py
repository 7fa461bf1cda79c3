"""What the placement of a job lets it use of a node, and what it holds there."""

from __future__ import annotations

from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.state import ONE_NODE, WHOLE_NODES, State


@compiled
def may_use(state: State, row: int, node: int, free: int) -> bool:
    """Return whether a job may use the free cores of a node."""
    job = state.jobs[row]
    if job.placement == ONE_NODE:
        return free >= job.cores
    if job.placement == WHOLE_NODES:
        return free == state.nodes[node].capacity
    return free > 0


@compiled
def held_cores(state: State, row: int, node: int, tasks: int) -> int:
    """Return the cores that a job holds on a node on which it has tasks."""
    if state.jobs[row].placement == WHOLE_NODES:
        return state.nodes[node].capacity
    return tasks
