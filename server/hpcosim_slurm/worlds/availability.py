"""Nodes that fail, are drained and return, and nodes that are off at the start."""

from __future__ import annotations

from hpcosim_sim.engine.availability_changes import change_node
from hpcosim_slurm.state import ClusterState, LiveJob, LiveNode
from hpcosim_slurm.worlds.difference import Change, has_booted
from hpcosim_slurm.worlds.live_engine import LiveEngine

MARKS = "*~#!%$@^-"
"""Marks that Slurm appends to the state of a node, such as `*`: its daemon does not answer."""


def is_down(node: LiveNode) -> bool:
    """Return whether a node is down, so that no job runs there."""
    words = {word.rstrip(MARKS) for word in node.slurm_state.upper().split("+")}
    return not node.is_available and bool(words & {"DOWN", "FAIL", "ERROR"})


def failed_and_back(before: ClusterState, after: ClusterState, change: Change) -> list[str]:
    """Return the nodes that failed between two looks and are in operation again.

    A node failed if its jobs ended or were requeued, and it has booted. A job that ended by the
    failure of a node (Slurm's `NODE_FAIL`) has lost at least one of its nodes. If none of them is
    down or has booted, all count as failed on which no other job goes on: Slurm does not say which.

    Args:
        before: the cluster at the first look.
        after: the cluster at the second one.
        change: what changed.
    """
    changed = (*(job.id for job in change.jobs), *change.gone)
    ended = [
        before.jobs[job_id]
        for job_id in changed
        if job_id in before.jobs and not _goes_on(before.jobs[job_id], after.jobs.get(job_id))
    ]
    found = {
        name
        for job in ended
        for name in job.nodes
        if name in before.nodes and name in after.nodes
        and has_booted(before.nodes[name], after.nodes[name])
    }  # fmt: skip
    for job in ended:
        there = [name for name in job.nodes if name in after.nodes]
        down = any(is_down(after.nodes[name]) for name in there)
        if _lost_node(after.jobs.get(job.id)) and not down and found.isdisjoint(there):
            found |= set(there)
    if not found:
        return []
    used = {
        name
        for job in before.jobs.values()
        if job.state != "over" and _goes_on(job, after.jobs.get(job.id))
        for name in job.nodes
    }
    found = {name for name in found - used if not is_down(after.nodes[name])}
    return [name for name in before.nodes if name in found and not is_down(before.nodes[name])]


def _goes_on(before: LiveJob, job: LiveJob | None) -> bool:
    """Return whether a run goes on; a job without nodes has none that could end."""
    if not before.nodes or before.state == "over":
        return True
    runs = job is not None and job.state in ("configuring", "running", "suspended")
    return job is not None and runs and job.started_s == before.started_s


def _lost_node(job: LiveJob | None) -> bool:
    """Return whether the failure of a node ended the last run of a job."""
    return job is not None and (job.lost_node or job.slurm_state.startswith("NODE_FAIL"))


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
