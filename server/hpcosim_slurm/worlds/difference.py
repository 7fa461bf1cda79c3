"""What changed between two states of a cluster, and a state after a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import msgspec

from hpcosim_slurm.state import (
    ClusterState,
    LiveJob,
    LiveNode,
    LivePartition,
    LiveReservation,
)

Key = TypeVar("Key")
Value = TypeVar("Value")

PASSING = ("None", "Priority", "Resources")
"""Reasons for waiting that Slurm changes at each of its passes."""

BOOT_TOLERANCE_S = 30.0
"""Largest change of a time of boot that is no boot, s: slurmctld computes it again and again."""

NO_STATE = ClusterState(0.0, {}, {}, {})
"""The state before the first one."""


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """What changed from one state to the next.

    Attributes:
        at_s: Unix time at which the bridge learned of it, s.
        jobs: jobs that are new or changed, as they are now, by number.
        gone: numbers of the jobs that Slurm has forgotten.
        nodes: nodes that are new or changed, as they are now, in Slurm's order.
        lost_nodes: names of nodes that Slurm has no longer.
        partitions: partitions that are new or changed.
        lost_partitions: names of partitions that Slurm has no longer.
        reservations: reservations that are new or changed.
        lost_reservations: names of reservations that Slurm has no longer.
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
        after: the state after.
        at_s: Unix time of the change, s.
    """
    return Change(
        at_s,
        tuple(
            job
            for job_id, job in sorted(after.jobs.items())
            if _job_differs(before.jobs.get(job_id), job)
        ),
        tuple(sorted(before.jobs.keys() - after.jobs.keys())),
        tuple(
            node
            for name, node in after.nodes.items()
            if _node_differs(before.nodes.get(name), node)
        ),
        tuple(name for name in before.nodes if name not in after.nodes),
        *_changes(before.partitions, after.partitions),
        *_changes(before.reservations, after.reservations),
        after.licenses if after.licenses != before.licenses else None,
    )


def applied(before: ClusterState, change: Change) -> ClusterState:
    """Return the state after a change."""
    return ClusterState(
        change.at_s,
        _merged(before.jobs, {job.id: job for job in change.jobs}, change.gone),
        _merged(before.nodes, {node.name: node for node in change.nodes}, change.lost_nodes),
        _merged(
            before.partitions,
            {each.name: each for each in change.partitions},
            change.lost_partitions,
        ),
        _merged(
            before.reservations,
            {each.name: each for each in change.reservations},
            change.lost_reservations,
        ),
        before.licenses if change.licenses is None else change.licenses,
    )


def _changes(
    before: Mapping[str, Value], after: Mapping[str, Value]
) -> tuple[tuple[Value, ...], tuple[str, ...]]:
    """Return the values that are new or changed, and the names that are gone."""
    changed = tuple(each for name, each in after.items() if each != before.get(name))
    return changed, tuple(name for name in before if name not in after)


def _merged(
    before: Mapping[Key, Value], new: Mapping[Key, Value], lost: tuple[Key, ...]
) -> dict[Key, Value]:
    merged = {**before, **new}
    for key in lost:
        merged.pop(key, None)
    return merged


def _job_differs(before: LiveJob | None, job: LiveJob) -> bool:
    if before is None or before == job:  # the usual case, without new objects
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
