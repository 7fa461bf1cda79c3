"""Whether a job with a request can ever run: on the empty cluster with all nodes available."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import ceil

from msgspec.structs import replace

from hpcosim_protocol import FeatureError, JobRequest, ResourceError
from hpcosim_protocol.features import Choice, choices
from hpcosim_protocol.node_access import may_use
from hpcosim_protocol.resources import WHOLE_DEVICE, provides, thousandths
from hpcosim_sim.physics.node_counts import NodeType, Wanted, can_choose
from hpcosim_sim.physics.resources import UNLIMITED, memory_parts
from hpcosim_sim.physics.room import NodeRoom, room_on
from hpcosim_sim.physics.site import NO_REQUEST, NodeSet, Site
from hpcosim_sim.physics.windows import closed_nodes
from hpcosim_workloads.table import JobSpec

NOTHING: frozenset[int] = frozenset()

MAX_VERDICTS = 100_000
"""Maximum number of remembered verdicts."""


def request_infeasibility(site: Site, job: JobSpec) -> str:
    """Return the reason why a job can never run on a cluster; empty: it can.

    The number of cores alone is not the reason: `allocation.infeasibility` checks it.

    Args:
        site: the cluster.
        job: the job.
    """
    request = job.request or NO_REQUEST
    own = job.user, job.account, job.job_id in _dependencies(request)
    closed = closed_nodes(site, job) if site.platform.reservations else NOTHING
    key = (*_key(job, request), own if request.reservation or own[2] else None, closed)
    if key not in site.verdicts:
        if len(site.verdicts) >= MAX_VERDICTS:
            site.verdicts.clear()
        site.verdicts[key] = _reason(site, job, request, closed)
    return site.verdicts[key]


def _key(job: JobSpec, request: JobRequest) -> tuple[object, ...]:
    """Return the properties of a job on which the verdict depends."""
    basic = job.cores, job.placement, job.memory_mb, job.partition
    if request is NO_REQUEST:
        return basic
    return (
        *basic,
        request.reservation,
        request.nodes_min,
        request.nodes_max,
        request.tasks_per_node,
        request.cores_per_task,
        request.required_nodes,
        request.excluded_nodes,
        request.features,
        request.memory_per_node_mb,
        request.all_memory,
        *(
            tuple(amounts.items())
            for amounts in (
                request.gres_per_node,
                request.gres_per_task,
                request.gres_per_job,
                request.licenses,
            )
        ),
    )


def _dependencies(request: JobRequest) -> set[int]:
    return {other for each in request.dependencies for other in each.job_ids}


def _reason(site: Site, job: JobSpec, request: JobRequest, closed: frozenset[int]) -> str:
    """Return the reason why a job can never run; empty: it can."""
    if job.job_id in _dependencies(request) and not request.any_dependency:
        return "depends on itself"
    if job.cores % request.cores_per_task:
        return (
            f"requests {job.cores} cores; expected a multiple of cores_per_task "
            f"{request.cores_per_task}"
        )
    try:
        partitions = site.partitions(job.partition)
        choices(request.features)
        for amounts in (request.gres_per_node, request.gres_per_task, request.gres_per_job):
            for amount in amounts.values():
                thousandths(amount)
    except (ResourceError, FeatureError) as error:
        return f"has an invalid request: {error}"
    missing = _missing_name(site, job, request) or _missing_nodes(site, job, request, partitions)
    if missing or not closed or _fits_somewhere(site, job, request, partitions, closed):
        return missing
    return (
        "can never run: the time between the repeated windows of reservations is too short for its "
        "requested time on too many nodes"
    )


def _missing_name(site: Site, job: JobSpec, request: JobRequest) -> str:
    """Return which node, reservation or licence a job names in vain; empty: none."""
    for node in (*request.required_nodes, *request.excluded_nodes):
        if node >= site.platform.node_count:
            return f"names node {node}; the platform has {site.platform.node_count} nodes"
    for name, count in request.licenses.items():
        total = site.platform.licenses.get(name, 0)
        if count > total:
            return f"requests {count} licences of {name[:200]!r}; the platform has {total}"
    if request.reservation:
        reservation = site.reservations.get(request.reservation)
        if reservation is None:
            return f"names the reservation {request.reservation!r}; the platform has no such one"
        if not may_use(reservation, job.user, job.account):
            return (
                f"names the reservation {request.reservation!r}; it is not for the user "
                f"{job.user!r} with the account {job.account!r}"
            )
    return ""


def _missing_nodes(site: Site, job: JobSpec, request: JobRequest, partitions: list[NodeSet]) -> str:
    """Return why no set of nodes is right for a job; empty: one is.

    The parts of the request are added one by one: the first without a solution is the reason.
    """
    if _fits_somewhere(site, job, request, partitions):
        return ""
    bare, without_memory = NO_REQUEST, job._replace(memory_mb=0.0)
    if request.all_memory or request.memory_per_node_mb > 0:  # replaces the memory for each core
        job = without_memory
    if not _fits_somewhere(site, without_memory, bare, partitions):
        names = " ".join(partition.name for partition in partitions)
        return f"requests {job.cores} cores; no partition of the job has as many ({names})"
    if not _fits_somewhere(site, job, bare, partitions):
        return f"requests {job.memory_mb:g} MB for each core; the nodes have too little memory"
    for fields, wrong in _PARTS:
        bare = replace(bare, **{name: getattr(request, name) for name in fields})
        if not _fits_somewhere(site, job, bare, partitions):
            return f"can never run: {wrong(request)}"
    raise AssertionError("the last part is the whole request")


_PARTS: tuple[tuple[tuple[str, ...], Callable[[JobRequest], str]], ...] = (
    (
        ("reservation",),
        lambda request: f"the reservation {request.reservation!r} has too few nodes",
    ),
    (
        ("excluded_nodes", "required_nodes"),
        lambda _: "its required and excluded nodes leave too few nodes",
    ),
    (
        ("cores_per_task", "tasks_per_node"),
        lambda _: "too few nodes for its tasks per node and cores per task",
    ),
    (
        ("memory_per_node_mb", "all_memory"),
        lambda request: f"too few nodes have {request.memory_per_node_mb:g} MB",
    ),
    (
        ("gres_per_node", "gres_per_task", "gres_per_job"),
        lambda request: f"too few nodes have the devices {_shown_gres(request)}",
    ),
    (
        ("features",),
        lambda request: f"too few nodes have the features {request.features!r}",
    ),
    (
        ("nodes_min", "nodes_max"),
        lambda request: (
            f"it cannot run on {request.nodes_min or 1} to {request.nodes_max or 'all'} nodes"
        ),
    ),
)
"""Parts of a request, and what is wrong if they are the first that no node set meets."""


def _shown_gres(request: JobRequest) -> str:
    return " ".join(
        f"{name}:{amount:g}"
        for amounts in (request.gres_per_node, request.gres_per_task, request.gres_per_job)
        for name, amount in amounts.items()
    )[:200]


def _fits_somewhere(
    site: Site,
    job: JobSpec,
    request: JobRequest,
    partitions: list[NodeSet],
    closed: frozenset[int] = NOTHING,
) -> bool:
    """Return whether the nodes of a partition, except `closed`, are right on the empty cluster."""
    rooms = [
        room_on(
            request,
            job.memory_mb,
            _empty_node(site, group),
            limits_memory="memory" in site.platform.consumable,
        )
        for group in range(len(site.platform.nodes))
    ]
    most = 1 if job.placement == "one_node" else request.nodes_max
    tasks = max(job.cores // request.cores_per_task, 1)
    for partition in partitions:
        for choice in choices(request.features):
            types = list(_node_types(site, request, partition, closed, choice, rooms))
            counts = tuple(count for _, count in choice.counts)
            wanted = Wanted(job.cores, counts, _per_job(request))
            if can_choose(types, wanted, least=max(request.nodes_min, 1), most=most, tasks=tasks):
                return True
    return False


def _per_job(request: JobRequest) -> tuple[int, ...]:
    """Return how many devices the job needs on all nodes together, by resource."""
    return tuple(ceil(amount) for amount in request.gres_per_job.values())


def _empty_node(site: Site, number: int) -> NodeRoom:
    group = site.platform.nodes[number]
    memory = memory_parts(group.memory_mb)
    devices = {name: [WHOLE_DEVICE] * count for name, count in group.gres.items()}
    return NodeRoom(group.cores, memory or UNLIMITED, memory, devices)


def _node_types(
    site: Site,
    request: JobRequest,
    partition: NodeSet,
    closed: frozenset[int],
    choice: Choice,
    rooms: list[int],
) -> Iterator[NodeType]:
    """Yield the nodes of a partition that a job may use, group by group."""
    nodes = partition.nodes
    by_group: Mapping[int, int] = dict(enumerate(partition.by_group))
    if request.reservation and "flex" not in site.reservations[request.reservation].flags:
        nodes &= site.reserved_nodes[request.reservation]
        by_group = Counter(site.group_of[node] for node in nodes)
    excluded = nodes.intersection(request.excluded_nodes) | (nodes & closed)
    without = Counter(site.group_of[node] for node in excluded)
    required = Counter(site.group_of[node] for node in set(request.required_nodes))
    wrong = len(set(request.required_nodes) - (nodes - excluded)) if request.required_nodes else 0
    for group, cores in enumerate(rooms):
        features = site.features[group]
        usable = choice.every.holds(features)
        yield NodeType(
            available=by_group.get(group, 0) - without[group] if usable else 0,
            required=required[group] + wrong,
            cores=cores,
            meets=tuple(test.holds(features) for test, _ in choice.counts),
            devices=tuple(_parts_left(site, request, group, name) for name in request.gres_per_job),
        )


def _parts_left(site: Site, request: JobRequest, group: int, wanted: str) -> int:
    """Return how many devices for `gres_per_job` a node has beside those of `gres_per_node`."""
    gres = site.platform.nodes[group].gres
    total = sum(count for name, count in gres.items() if provides(name, wanted))
    taken = sum(
        ceil(amount)
        for name, amount in request.gres_per_node.items()
        if provides(name, wanted) or provides(wanted, name)
    )
    return max(total - taken, 0)
