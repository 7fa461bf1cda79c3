"""What changed between two states of a cluster, and changes of nodes in a copy of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import ne
from typing import TypeVar

import msgspec

from hpcosim_sim.engine.job_runs import change_node
from hpcosim_slurm.state import ClusterState, LiveJob, LiveNode, LivePartition, LiveReservation
from hpcosim_slurm.worlds.live_engine import LiveEngine

Key = TypeVar("Key")
Value = TypeVar("Value")

PASSING = ("None", "Priority", "Resources")
"""Reasons for waiting that Slurm changes at each of its passes."""

BOOT_TOLERANCE_S = 30.0
"""Largest change of a time of boot that is no boot, s: slurmctld computes it again and again."""

NO_STATE = ClusterState(0.0, {}, {}, {})

MARKS = "*~#!%$@^-"
"""Marks that Slurm appends to the state of a node, such as `*`: its daemon does not answer."""


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """What changed from one state to the next.

    Attributes:
        jobs: jobs that are new or changed, as they are now, by number.
        gone: numbers of the jobs that Slurm has forgotten.
        nodes: nodes that are new or changed, as they are now, in Slurm's order.
        licenses: the numbers of all licences, if they have changed.
    """

    at_s: float
    jobs: tuple[LiveJob, ...] = ()
    gone: tuple[int, ...] = ()
    nodes: tuple[LiveNode, ...] = ()
    lost_nodes: tuple[str, ...] = ()
    partitions: tuple[LivePartition, ...] = ()
    lost_partitions: tuple[str, ...] = ()
    reservations: tuple[LiveReservation, ...] = ()
    lost_reservations: tuple[str, ...] = ()
    licenses: Mapping[str, int] | None = None

    def __bool__(self) -> bool:
        return bool(
            self.jobs or self.gone or self.nodes or self.lost_nodes
            or self.partitions or self.lost_partitions
            or self.reservations or self.lost_reservations or self.licenses is not None
        )  # fmt: skip


def difference(before: ClusterState, after: ClusterState, at_s: float) -> Change:
    """Return what changed.

    Values that Slurm changes all the time, and that no event of the protocol has, do not count: the
    priority of a job, a reason for waiting that is one of `PASSING`, the limit of the array of a
    task that has started, how much of a node is allocated, and small changes of its time of boot.

    Args:
        before: the state before; `NO_STATE`: everything is new.
    """
    jobs, gone = _changes(before.jobs, dict(sorted(after.jobs.items())), _job_differs)
    return Change(
        at_s,
        jobs,
        tuple(sorted(gone)),
        *_changes(before.nodes, after.nodes, _node_differs),
        *_changes(before.partitions, after.partitions, ne),
        *_changes(before.reservations, after.reservations, ne),
        after.licenses if after.licenses != before.licenses else None,
    )


def applied(before: ClusterState, change: Change) -> ClusterState:
    """Return the state after a change."""
    return ClusterState(
        change.at_s,
        _merged(before.jobs, ((job.id, job) for job in change.jobs), change.gone),
        _merged(before.nodes, ((node.name, node) for node in change.nodes), change.lost_nodes),
        _merged(
            before.partitions,
            ((each.name, each) for each in change.partitions),
            change.lost_partitions,
        ),
        _merged(
            before.reservations,
            ((each.name, each) for each in change.reservations),
            change.lost_reservations,
        ),
        before.licenses if change.licenses is None else change.licenses,
    )


def _changes(
    before: Mapping[Key, Value],
    after: Mapping[Key, Value],
    differs: Callable[[Value | None, Value], bool],
) -> tuple[tuple[Value, ...], tuple[Key, ...]]:
    """Return the values that are new or changed, and the keys that are gone."""
    changed = tuple(each for key, each in after.items() if differs(before.get(key), each))
    return changed, tuple(key for key in before if key not in after)


def _merged(
    before: Mapping[Key, Value], new: Iterable[tuple[Key, Value]], lost: tuple[Key, ...]
) -> dict[Key, Value]:
    merged = {**before, **dict(new)}
    for key in lost:
        merged.pop(key, None)
    return merged


def _job_differs(before: LiveJob | None, job: LiveJob) -> bool:
    if before is None or before is job or before == job:  # the usual case, without new objects
        return before is None
    return _steady_job(before) != _steady_job(job)


def _steady_job(job: LiveJob) -> LiveJob:
    reason = "" if job.reason in PASSING else job.reason
    limit = job.array_limit if job.started_s is None else 0
    return replace(job, priority=0, reason=reason, array_limit=limit)


def _node_differs(before: LiveNode | None, node: LiveNode) -> bool:
    if before is None or before == node:
        return before is None
    return has_booted(before, node) or _steady_node(before) != _steady_node(node)


def _steady_node(node: LiveNode) -> LiveNode:
    return replace(node, cpus_allocated=0, memory_allocated_mb=0, booted_s=None)


def has_booted(before: LiveNode, node: LiveNode) -> bool:
    """Return whether a node has booted between two looks at it."""
    if before.booted_s is None or node.booted_s is None:
        return False
    return node.booted_s > before.booted_s + BOOT_TOLERANCE_S


def is_down(node: LiveNode) -> bool:
    """Return whether a node is down, so that no job runs there."""
    words = {word.rstrip(MARKS) for word in node.slurm_state.upper().split("+")}
    return not node.is_available and bool(words & {"DOWN", "FAIL", "ERROR"})


def failed_and_back(before: ClusterState, after: ClusterState, change: Change) -> list[str]:
    """Return the nodes that failed between two looks and are in operation again.

    A node failed if its jobs ended or were requeued, and it has booted. A job that ended by the
    failure of a node (Slurm's `NODE_FAIL`) has lost at least one of its nodes. If none of them is
    down or has booted, all count as failed on which no other job goes on: Slurm does not say which.
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
    """Let a node of a copy fail, be drained or return, as the real one did."""
    if node.is_available:
        change_node(engine, "repair", number)
    elif is_down(node):
        change_node(engine, "fail", number)
    elif number in engine.availability.failed:  # it runs again, but is still drained
        change_node(engine, "repair", number)
        change_node(engine, "drain", number)
    elif number not in engine.availability.drained:
        change_node(engine, "drain", number)


def switch_off_at_start(engine: LiveEngine, number: int, node: LiveNode) -> None:
    """Switch a node of a copy off without delay, because the real one is off at the start."""
    has_states = engine.cluster.kinds[engine.cluster.group_of[number]].power_states is not None
    is_used = engine.cluster.free[number] < engine.cluster.capacity[number]
    if node.power in ("off", "switching_off") and has_states and not is_used:
        engine.switching.switch(number, "switching_off")
        engine.switching.cancel(number)
        engine.switching.switch(number, "sleeping")
