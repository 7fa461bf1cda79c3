"""Whether a job with a request can ever run: on the empty cluster with all nodes available."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import ceil
from typing import NamedTuple

from msgspec.structs import replace

from hpcosim_protocol import FeatureError, JobRequest, NodeReservation, ResourceError
from hpcosim_protocol.features import Choice, choices
from hpcosim_protocol.node_access import first_window, may_use, numbers_in
from hpcosim_protocol.resources import WHOLE_DEVICE, provides, thousandths
from hpcosim_sim.physics.cluster import NO_REQUEST, NodeSet, SiteRules
from hpcosim_sim.physics.resources import UNLIMITED, NodeRoom, memory_parts, room_on
from hpcosim_workloads.table import JobSpec

# Nodes whose repeated reservations never leave a job enough time.

MAX_WINDOWS = 10_000
"""Maximum number of windows to look at for a set of reservations. Beyond it, a job is admitted."""

Reservations = tuple[NodeReservation, ...]


def closed_nodes(site: SiteRules, job: JobSpec) -> frozenset[int]:
    """Return the nodes on which a job can never run, by its requested time.

    These are nodes with reservations other than the job's own whose repeated windows leave too
    little time between each other, and the job is too late to run before them.
    """
    if all(each.repeat_s is None for each in site.platform.reservations):
        return frozenset()
    own = job.request.reservation if job.request is not None else ""
    if own not in site.repeated:
        site.repeated[own] = _nodes_by_reservations(site, own)
    closed = [
        nodes
        for reservations, (nodes, gap_s) in site.repeated[own].items()
        if job.requested_s > gap_s and not _fits_before(reservations, job)
    ]
    return frozenset().union(*closed)


def _nodes_by_reservations(
    site: SiteRules, own: str
) -> dict[Reservations, tuple[frozenset[int], float]]:
    """Return the nodes with repeated reservations, and the longest gap between windows there, s."""
    others = [each for each in site.platform.reservations if each.name != own]
    of_node: dict[int, list[NodeReservation]] = defaultdict(list)
    for reservation in others:
        for node in numbers_in(reservation.nodes):
            of_node[node].append(reservation)
    nodes_of: dict[Reservations, list[int]] = defaultdict(list)
    for node, reservations in of_node.items():
        if any(each.repeat_s is not None for each in reservations):
            nodes_of[tuple(reservations)].append(node)
    return {each: (frozenset(nodes), longest_gap_s(each)) for each, nodes in nodes_of.items()}


def longest_gap_s(reservations: Reservations) -> float:
    """Return the longest time between windows of repeated reservations, once all have begun, s.

    It is exact if the times of repetition are whole seconds with a common multiple of at most
    `MAX_WINDOWS` windows. If they are not, it is the shortest of the reservations' own gaps, which
    is at least as long. Reservations with one window do not count.
    """
    spans = [
        (each.start_s, each.end_s - each.start_s, each.repeat_s)
        for each in reservations
        if each.repeat_s is not None
    ]
    own_s = min(max(repeat_s - length_s, 0.0) for _, length_s, repeat_s in spans)
    if len(spans) == 1 or not all(repeat_s.is_integer() for *_, repeat_s in spans):
        return own_s
    period_s = math.lcm(*(int(repeat_s) for *_, repeat_s in spans))
    if sum(period_s // int(repeat_s) for *_, repeat_s in spans) > MAX_WINDOWS:
        return own_s
    windows = sorted(
        (start_s % repeat_s + number * repeat_s, length_s)
        for start_s, length_s, repeat_s in spans
        for number in range(-1, 2 * period_s // int(repeat_s) + 1)
    )
    longest_s, over_s = 0.0, windows[0][0]
    for begin_s, length_s in windows:
        longest_s = max(longest_s, begin_s - over_s)
        over_s = max(over_s, begin_s + length_s)
    return min(longest_s, own_s)


def _fits_before(reservations: Reservations, job: JobSpec) -> bool:
    """Return whether a job could run on nodes before all their reservations have begun."""
    start_s, last_s = job.submit_s, max(each.start_s for each in reservations)
    for _ in range(MAX_WINDOWS):
        if start_s >= last_s:
            return False
        windows = [first_window(each, start_s, start_s + job.requested_s) for each in reservations]
        ends_s = [window[1] for window in windows if window is not None]
        if not ends_s:
            return True
        start_s = max(ends_s)
    return True


# How many nodes of which type are right for a job: a small integer programme.

MAX_STEPS = 20_000
"""Maximum number of partial choices that `can_choose` tries."""


class NodeType(NamedTuple):
    """Nodes that are equal for a job.

    Attributes:
        available: number of nodes that the job may use.
        required: number of nodes that it must use.
        cores: number of cores that it may have on a node.
        meets: which conditions with a least number of nodes the nodes meet.
        devices: number of devices of a node for each resource that the job needs on all nodes
            together.
    """

    available: int
    required: int
    cores: int
    meets: tuple[bool, ...] = ()
    devices: tuple[int, ...] = ()


class Wanted(NamedTuple):
    """What the chosen nodes must have together.

    Attributes:
        counts: least number of nodes for each condition. A node counts for one condition only.
    """

    cores: int
    counts: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()


def can_choose(
    node_types: Sequence[NodeType], wanted: Wanted, *, least: int, most: int, tasks: int
) -> bool:
    """Return whether a choice of nodes is right for a job.

    More nodes never make a choice worse, so the choice has as many as are permitted. With
    conditions or devices, choices are tried one by one; after `MAX_STEPS` the answer is yes.

    Args:
        most: greatest number of nodes; 0: no limit.
        tasks: number of tasks of the job; each node has at least one.
    """
    types = _merged(each for each in node_types if each.cores > 0 and each.available > 0)
    if any(each.required > (each.available if each.cores > 0 else 0) for each in node_types):
        return False
    available = sum(each.available for each in types)
    number = min(most or available, tasks, available)
    if number < max(least, sum(each.required for each in types)) or not number:
        return False
    if number == available:
        return _suffice(types, [each.available for each in types], wanted)
    types.sort(key=lambda each: -each.cores)
    if not (wanted.counts or wanted.devices):
        return _greatest_cores(types, number) >= wanted.cores
    return _Search(types, wanted).finds(number)


def _merged(node_types: Iterable[NodeType]) -> list[NodeType]:
    """Return the types with equal ones joined."""
    available: Counter[tuple[object, ...]] = Counter()
    required: Counter[tuple[object, ...]] = Counter()
    kinds = {}
    for each in node_types:
        kinds[each[2:]] = each
        available[each[2:]] += each.available
        required[each[2:]] += each.required
    return [
        each._replace(available=available[kind], required=required[kind])
        for kind, each in kinds.items()
    ]


def _greatest_cores(types: Sequence[NodeType], number: int) -> int:
    """Return the greatest number of cores on a number of nodes, with all required ones."""
    cores = sum(each.required * each.cores for each in types)
    left = number - sum(each.required for each in types)
    for each in types:  # by cores, the largest first
        more = min(each.available - each.required, left)
        cores += more * each.cores
        left -= more
    return cores


def _suffice(types: Sequence[NodeType], chosen: Sequence[int], wanted: Wanted) -> bool:
    """Return whether a choice has the cores, the devices and the nodes for each condition."""
    pairs = list(zip(types, chosen, strict=True))
    if sum(each.cores * count for each, count in pairs) < wanted.cores:
        return False
    for resource, needed in enumerate(wanted.devices):
        if sum(each.devices[resource] * count for each, count in pairs) < needed:
            return False
    # Hall's theorem: each condition gets nodes of its own if every set of conditions has enough.
    for size in range(1, len(wanted.counts) + 1):
        for some in combinations(range(len(wanted.counts)), size):
            found = sum(count for each, count in pairs if any(each.meets[i] for i in some))
            if found < sum(wanted.counts[i] for i in some):
                return False
    return True


class _Search:
    """Tries choices of nodes, type by type, with more nodes of a type first."""

    def __init__(self, types: Sequence[NodeType], wanted: Wanted) -> None:
        self._types = types
        self._wanted = wanted
        self._steps = 0

    def finds(self, number: int, chosen: tuple[int, ...] = ()) -> bool:
        """Return whether `number` nodes of the types after `chosen` complete a right choice."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            return True
        rest = self._types[len(chosen) :]
        if not rest:
            return number == 0 and _suffice(self._types, chosen, self._wanted)
        later = rest[1:]
        most = min(rest[0].available, number - sum(each.required for each in later))
        least = max(rest[0].required, number - sum(each.available for each in later))
        return any(
            self.finds(number - count, (*chosen, count)) for count in range(most, least - 1, -1)
        )


NOTHING: frozenset[int] = frozenset()

MAX_VERDICTS = 100_000
"""Maximum number of remembered verdicts."""


def request_infeasibility(site: SiteRules, job: JobSpec) -> str:
    """Return the reason why a job can never run on a cluster; empty: it can.

    The number of cores alone is not the reason: `allocation.infeasibility` checks it.
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


def _reason(site: SiteRules, job: JobSpec, request: JobRequest, closed: frozenset[int]) -> str:
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


def _missing_name(site: SiteRules, job: JobSpec, request: JobRequest) -> str:
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


def _missing_nodes(
    site: SiteRules, job: JobSpec, request: JobRequest, partitions: list[NodeSet]
) -> str:
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
    site: SiteRules,
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
            wanted = Wanted(job.cores, counts, tuple(map(ceil, request.gres_per_job.values())))
            if can_choose(types, wanted, least=max(request.nodes_min, 1), most=most, tasks=tasks):
                return True
    return False


def _empty_node(site: SiteRules, number: int) -> NodeRoom:
    group = site.platform.nodes[number]
    memory = memory_parts(group.memory_mb)
    devices = {name: [WHOLE_DEVICE] * count for name, count in group.gres.items()}
    return NodeRoom(group.cores, memory or UNLIMITED, memory, devices)


def _node_types(
    site: SiteRules,
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


def _parts_left(site: SiteRules, request: JobRequest, group: int, wanted: str) -> int:
    """Return how many devices for `gres_per_job` a node has beside those of `gres_per_node`."""
    gres = site.platform.nodes[group].gres
    total = sum(count for name, count in gres.items() if provides(name, wanted))
    taken = sum(
        ceil(amount)
        for name, amount in request.gres_per_node.items()
        if provides(name, wanted) or provides(wanted, name)
    )
    return max(total - taken, 0)
