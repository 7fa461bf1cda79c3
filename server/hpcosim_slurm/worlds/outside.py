"""Jobs of other partitions on nodes that a scheduler sees."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_slurm.worlds.specs import requested_s


def outside_jobs(
    state: ClusterState, partitions: Sequence[str], own: Collection[str]
) -> Iterator[LiveJob]:
    """Yield jobs of other partitions on nodes of some partitions, as jobs of these.

    Such a job has only these nodes, and the part of its CPUs that they have if each of its nodes
    has the same number. It keeps what it has on each node, and its licences.

    Args:
        state: the cluster.
        partitions: names of the partitions that the scheduler sees.
        own: names of all partitions whose jobs it sees.
    """
    members = {name: frozenset(state.partitions[name].nodes) for name in partitions}
    inside = frozenset().union(*members.values())
    for job in state.jobs.values():
        if job.nodes and job.partition not in own:
            nodes = tuple(name for name in job.nodes if name in inside)
            if nodes and job.started_s is not None:
                yield _part(job, nodes, _home(members, nodes), state)


def _home(members: Mapping[str, frozenset[str]], nodes: Sequence[str]) -> str:
    """Return the partition that has most of some nodes."""
    return max(members, key=lambda name: len(members[name].intersection(nodes)))


def _part(job: LiveJob, nodes: tuple[str, ...], partition: str, state: ClusterState) -> LiveJob:
    share = len(nodes) / len(job.nodes)
    return replace(
        job,
        partition=partition,
        nodes=nodes,
        nodes_min=1,
        nodes_max=0,
        cpus=math.ceil(job.cpus * share),
        devices_together={
            name: math.ceil(count * share) for name, count in job.devices_together.items()
        },
        time_limit_s=requested_s(job, state),
        array=None,
        dependency="",
        reservation="",
        features="",
        is_outside=True,
    )
