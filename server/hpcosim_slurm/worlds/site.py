"""The cluster as a platform of the protocol."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import msgspec

from hpcosim_protocol import NodeGroup, Partition, Platform, PowerStates, Processor
from hpcosim_protocol.hosts import compress, to_ranges
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.state import ClusterState, LiveJob, LiveNode
from hpcosim_slurm.worlds.specs import requested_s, reservations_of


def outside_jobs(
    state: ClusterState, partitions: Sequence[str], own: Collection[str]
) -> Iterator[LiveJob]:
    """Yield jobs of other partitions on nodes of some partitions, as jobs of these.

    Such a job has only these nodes, and the part of its CPUs that they have if each of its nodes
    has the same number. It keeps what it has on each node, and its licences.

    Args:
        own: names of all partitions whose jobs it sees.
    """
    members = {name: frozenset(state.partitions[name].nodes) for name in partitions}
    inside = frozenset().union(*members.values())
    for job in state.jobs.values():
        if job.nodes and job.partition not in own:
            nodes = tuple(name for name in job.nodes if name in inside)
            if nodes and job.started_s is not None:
                home = max(members, key=lambda name: len(members[name].intersection(nodes)))
                yield _part(job, nodes, home, state)


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


class PowerModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The power of a node: a model, because Slurm does not measure it.

    A node that is on draws `idle_w`, and the same part of `busy_w - idle_w` for each CPU that a
    job has.

    Attributes:
        busy_w: power of a node whose CPUs all have jobs, W.
        off_w: power of a node that is switched off or down, W.
        switches: whether the scheduler may switch nodes off.
    """

    idle_w: float = 100.0
    busy_w: float = 200.0
    off_w: float = 10.0
    switch_w: float = 150.0
    switch_on_s: float = 60.0
    switch_off_s: float = 30.0
    switches: bool = False


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What the bridge knows of a cluster beside its state.

    Attributes:
        name: name of the cluster.
        partitions: names of the partitions that the scheduler sees; empty: all.
        holds_memory: whether jobs hold memory (`CR_*_Memory` of `SelectTypeParameters`).
        power: power of the nodes.
        waiting: for each of `partitions` the one in which its jobs wait to be released or placed;
            empty: they wait in their own, held.
        start_timeout_s: time after which a job that Slurm has not started counts as refused, s.
    """

    name: str = "slurm"
    partitions: tuple[str, ...] = ()
    holds_memory: bool = False
    power: PowerModel = PowerModel()
    mode: str = "shadow"
    waiting: tuple[str, ...] = ()
    start_timeout_s: float = 30.0


def chosen(state: ClusterState, site: Site) -> ClusterState:
    """Return the part of a cluster that the scheduler sees: partitions, their nodes and jobs.

    The jobs are those of the partitions, and those of others that have nodes of the partitions.

    Raises:
        SlurmError: there is no partition of a name, or the partitions have no nodes.
    """
    names = site.partitions or tuple(state.partitions)
    for name in names:
        if name not in state.partitions:
            there = ", ".join(state.partitions) or "none"
            raise SlurmError(f"the cluster has no partition {name!r}; it has: {there}")
    inside = {node for name in names for node in state.partitions[name].nodes}
    nodes = {name: node for name, node in state.nodes.items() if name in inside}
    if not nodes:
        raise SlurmError(f"the partitions {', '.join(names)} have no nodes")
    own = {*names, *site.waiting}
    jobs = {
        job_id: job
        for job_id, job in state.jobs.items()
        if not own.isdisjoint(job.partition.split(","))
    }
    jobs |= {job.id: job for job in outside_jobs(state, names, own)}
    partitions = {name: state.partitions[name] for name in names}
    return replace(state, jobs=jobs, nodes=nodes, partitions=partitions)


def starts_in(site: Site, partitions: str) -> str:
    """Return the partitions in which a job starts that is in some, as Slurm writes them: `a,b`."""
    start = dict(zip(site.waiting, site.partitions, strict=False))
    return ",".join(dict.fromkeys(start.get(name, name) for name in partitions.split(",")))


def start_partition(site: Site, state: ClusterState, job: LiveJob, nodes: Collection[str]) -> str:
    """Return the first partition in which a job may start that has all of some nodes."""
    names = starts_in(site, job.partition).split(",")
    for name in names:
        partition = state.partitions.get(name)
        if partition is not None and set(nodes) <= set(partition.nodes):
            return name
    return names[0]


def waits_in(site: Site, partitions: str) -> str:
    """Return the partitions in which a job waits that is in some; see `starts_in`."""
    wait = dict(zip(site.partitions, site.waiting, strict=False))
    return ",".join(dict.fromkeys(wait.get(name, name) for name in partitions.split(",")))


def shared_with(state: ClusterState, site: Site) -> list[str]:
    """Return the names of other partitions whose nodes the scheduler sees too."""
    if not site.partitions:
        return []
    inside = {node for name in site.partitions for node in state.partitions[name].nodes}
    return [
        name
        for name, partition in state.partitions.items()
        if name not in (*site.partitions, *site.waiting) and not inside.isdisjoint(partition.nodes)
    ]


def platform_of(state: ClusterState, site: Site) -> Platform:
    """Return the platform of the chosen part of a cluster.

    Neighbours of one kind are a group. Partitions are left out if there is one that has all nodes,
    so that schedulers that know none can drive the cluster.
    """

    def kind(node: LiveNode) -> tuple[object, ...]:
        return node.cpus, node.memory_mb, sorted(node.devices.items()), node.features

    nodes = list(state.nodes.values())
    number = {node.name: at for at, node in enumerate(nodes)}
    partitions = list(state.partitions.values())
    is_plain = len(partitions) == 1 and state.nodes.keys() <= set(partitions[0].nodes)
    return Platform(
        nodes=tuple(_group(list(same), site) for _, same in groupby(nodes, kind)),
        consumable=("cores", "memory") if site.holds_memory else ("cores",),
        partitions=() if is_plain else tuple(_partitions(state, number)),
        reservations=tuple(reservations_of(state.reservations, number)),
        licenses={name[:200]: count for name, count in state.licenses.items()},
    )


def with_off_state(platform: Platform, power: PowerModel) -> Platform:
    """Return a platform whose nodes can all be off, as those that are down count in its energy."""
    states = _states(power)
    nodes = tuple(msgspec.structs.replace(each, power_states=states) for each in platform.nodes)
    return msgspec.structs.replace(platform, nodes=nodes)


def _states(power: PowerModel) -> PowerStates:
    return PowerStates(
        sleep_w=power.off_w,
        switch_on_s=power.switch_on_s,
        switch_on_w=power.switch_w,
        switch_off_s=power.switch_off_s,
        switch_off_w=power.switch_w,
    )


def _group(nodes: Sequence[LiveNode], site: Site) -> NodeGroup:
    first, power = nodes[0], site.power
    return NodeGroup(
        count=len(nodes),
        processors=(
            Processor(
                cores=first.cpus,
                static_w=power.idle_w,
                dynamic_w=max(power.busy_w - power.idle_w, 0.0) / first.cpus,
            ),
        ),
        memory_mb=float(first.memory_mb),
        power_states=_states(power) if power.switches else None,
        names=compress(node.name for node in nodes),
        features=tuple(feature[:200] for feature in first.features),
        gres={name[:200]: count for name, count in first.devices.items() if count > 0},
    )


def _partitions(state: ClusterState, number: dict[str, int]) -> Iterable[Partition]:
    for each in state.partitions.values():
        yield Partition(
            name=each.name,
            nodes=to_ranges(sorted(number[node] for node in each.nodes if node in number)),
            default=each.is_default,
            state="up" if each.is_up else "down",
            max_time_s=each.time_limit_s,
            default_time_s=each.default_time_s,
        )
