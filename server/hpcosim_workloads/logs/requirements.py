"""What a job of a job line or a profile requires beyond cores and time, and its conversion.

Requirements that contradict each other are a `LineError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hpcosim_protocol import Checkpointing, HostListError, JobRequest, ProtocolError
from hpcosim_protocol.features import check as check_features
from hpcosim_protocol.node_access import numbers_in
from hpcosim_protocol.platform import NodeRanges
from hpcosim_protocol.resources import thousandths
from hpcosim_workloads.errors import LineError
from hpcosim_workloads.table import MAX_TIME_S

MAX_COUNT = 2**31 - 1
MAX_MB = 1e12
MOST_NODES = 1_000_000  # nodes that a job may name

NodesOf = Callable[[str], NodeRanges]
"""Returns the nodes of a host list such as `n[1-4]`; raises HostListError."""

Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Node = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Seconds = Annotated[float, Meta(ge=0, le=MAX_TIME_S)]
Megabytes = Annotated[float, Meta(ge=0, le=MAX_MB)]
ResourceName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.+-]{1,100}(:[A-Za-z0-9_.+-]{1,90})?\Z")]
Devices = dict[ResourceName, Annotated[float, Meta(gt=0, le=MAX_COUNT)]]
Licenses = dict[ResourceName, Annotated[int, Meta(gt=0, le=MAX_COUNT)]]
Hosts = Annotated[str, Meta(min_length=1, max_length=100_000)]
NodeList = Hosts | Annotated[tuple[Node, ...], Meta(max_length=MOST_NODES)]


class JobCheckpoints(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Checkpoints of a job, from which it resumes after a failure or a requeue.

    Attributes:
        cost_s: time to write a checkpoint, s. The job makes no progress meanwhile.
        interval_s: computing time between two checkpoints, s. Default: the job writes none unless
            the scheduler sets an interval.
        restart_s: time to read a checkpoint at the next start, s.
    """

    cost_s: Seconds
    interval_s: Annotated[float, Meta(gt=0, le=MAX_TIME_S)] | None = None
    restart_s: Seconds = 0.0


class Requirements(
    msgspec.Struct,
    forbid_unknown_fields=True,
    omit_defaults=True,
    frozen=True,
    kw_only=True,
    gc=False,
):
    """What a job requires beyond cores and time. The names follow Slurm's `sbatch`.

    Attributes:
        nodes_min: minimum number of nodes. Default: no limit.
        nodes_max: maximum number of nodes. Default: no limit.
        tasks_per_node: maximum number of tasks on a node. Default: no limit.
        cores_per_task: cores of each task; `cores` is a multiple of it. Default: 1.
        required_nodes: nodes that must be part of the allocation: a host list such as `n[1-4],b1`,
            or node numbers. Default: none.
        excluded_nodes: nodes that must not be part of the allocation, as `required_nodes`.
            Default: none.
        features: expression of node features as in Slurm's `--constraint`, such as `gpu&ib`.
            Default: any node.
        switches: preferred maximum number of leaf switches. Default: no preference.
        switches_wait_s: time for which the job waits for its preferred switches, s. Default: 0.
        memory_per_node_mb: requested memory on each node, MB, instead of `memory_mb`.
        memory_per_job_mb: requested memory of the job, MB, instead of `memory_mb`; each core has
            an equal part.
        all_memory: request the whole memory of the nodes, instead of `memory_mb`.
        gres_per_node: generic resources on each node by name, such as `gpu` or `gpu:a100`: a
            number of devices, or, below 1, a share of one device in thousandths.
        gres_per_task: generic resources of each task, as `gres_per_node`.
        gres_per_job: generic resources of the job, as `gres_per_node`.
        licenses: number of licences by name.
        requeue: whether the job may be requeued after a failure of a node or by preemption.
            Default: false.
        checkpointing: checkpoints of the job. Default: none.
    """

    nodes_min: Count | None = None
    nodes_max: Count | None = None
    tasks_per_node: Count | None = None
    cores_per_task: Annotated[int, Meta(ge=1, le=MAX_COUNT)] | None = None
    required_nodes: NodeList | None = None
    excluded_nodes: NodeList | None = None
    features: Annotated[str, Meta(max_length=1000)] | None = None
    switches: Count | None = None
    switches_wait_s: Seconds | None = None
    memory_per_node_mb: Megabytes | None = None
    memory_per_job_mb: Megabytes | None = None
    all_memory: bool | None = None
    gres_per_node: Devices | None = None
    gres_per_task: Devices | None = None
    gres_per_job: Devices | None = None
    licenses: Licenses | None = None
    requeue: bool | None = None
    checkpointing: JobCheckpoints | None = None


GRES = ("gres_per_node", "gres_per_task", "gres_per_job")
MEMORY = ("memory_mb", "memory_per_node_mb", "memory_per_job_mb", "all_memory")
"""Fields of which a line or a profile may set one."""

# Fields that a request has under the same name.
FIELDS = Requirements.__struct_fields__
SHARED = frozenset(FIELDS) & frozenset(JobRequest.__struct_fields__)
stated = attrgetter(*FIELDS)
NOTHING = (None,) * len(FIELDS)
NO_REQUEST = JobRequest()
NO_VALUES: Mapping[str, Any] = MappingProxyType({})


def request_of(
    line: Requirements,
    profile: Requirements,
    cores: int,
    own: Mapping[str, Any] = NO_VALUES,
    nodes_of: NodesOf | None = None,
) -> JobRequest | None:
    """Return the request of a job; None: the job requires only cores and time."""
    of_line, of_profile = stated(line), stated(profile)
    if not own and of_line == NOTHING == of_profile:  # fast path: most jobs
        return None
    values = dict(own)
    if of_profile != NOTHING:
        pairs = zip(of_line, of_profile, strict=True)
        of_line = tuple(default if value is None else value for value, default in pairs)
    values |= {
        name: value
        for name, value in zip(FIELDS, of_line, strict=True)
        if value is not None and name in SHARED
    }
    memory = _memory_source(line, profile)
    for name in ("memory_per_node_mb", "all_memory"):
        values.pop(name, None)
        if memory is not None and getattr(memory, name):
            values[name] = getattr(memory, name)
    if not values:
        return None
    if "checkpointing" in values:
        values["checkpointing"] = Checkpointing(*msgspec.structs.astuple(values["checkpointing"]))
    for name in ("required_nodes", "excluded_nodes"):
        if name in values:
            values[name] = _node_numbers(values[name], name, nodes_of)
    request = JobRequest(**values)
    if request == NO_REQUEST:
        return None
    check_request(request, cores)
    return request


def memory_per_core_mb(line: Requirements, profile: Requirements, cores: int) -> float:
    """Return the requested memory of each core, MB; 0: unknown, or stated otherwise."""
    if stated(line) == NOTHING == stated(profile):  # fast path: most jobs
        own_mb = getattr(line, "memory_mb", None)
        return float(getattr(profile, "memory_mb", None) or 0.0 if own_mb is None else own_mb)
    source = _memory_source(line, profile)
    if source is None:
        return 0.0
    given = [name for name in MEMORY if getattr(source, name)]
    if len(given) > 1:
        raise LineError(f"expected one of {', '.join(MEMORY)}, got {' and '.join(given)}", given[1])
    if source.memory_per_job_mb:
        return source.memory_per_job_mb / cores
    return float(getattr(source, "memory_mb", None) or 0.0)


def _memory_source(line: Requirements, profile: Requirements) -> Requirements | None:
    """Return the line or, if it states no memory, the profile; None: neither states memory."""
    for source in (line, profile):
        if (
            source.memory_per_node_mb is not None
            or source.memory_per_job_mb is not None
            or source.all_memory is not None
            or getattr(source, "memory_mb", None) is not None
        ):
            return source
    return None


def _node_numbers(
    nodes: str | tuple[int, ...], field: str, nodes_of: NodesOf | None
) -> tuple[int, ...]:
    """Return node numbers, ascending, each once."""
    if not isinstance(nodes, str):
        return tuple(sorted(set(nodes)))
    if nodes_of is None:
        what = f"node names need a scenario; expected node numbers, got {nodes[:60]!r}"
        raise LineError(what, field)
    try:
        return tuple(numbers_in(nodes_of(nodes)))
    except HostListError as error:
        raise LineError(str(error), field) from None


def check_request(request: JobRequest, cores: int) -> None:
    """Check that the attributes of a request do not contradict each other."""
    _check_counts(request, cores)
    _check_nodes(request)
    try:
        check_features(request.features)
    except ProtocolError as error:
        raise LineError(str(error), "features") from None
    for field in GRES:
        for name, amount in getattr(request, field).items():
            try:
                thousandths(amount)
            except ProtocolError as error:
                raise LineError(f"{name}: {error}", field) from None


def _check_counts(request: JobRequest, cores: int) -> None:
    tasks, rest = divmod(cores, request.cores_per_task)
    if rest:
        what = f"expected a divisor of the {cores} cores of the job, got {request.cores_per_task}"
        raise LineError(what, "cores_per_task")
    least, most = request.nodes_min, request.nodes_max
    if most and least > most:
        raise LineError(f"expected at most nodes_max, {most}, got {least}", "nodes_min")
    if least > tasks:
        what = f"expected at most the number of tasks, {tasks}, got {least}"
        raise LineError(what, "nodes_min")
    if most and request.tasks_per_node and most * request.tasks_per_node < tasks:
        what = f"{most} nodes with {request.tasks_per_node} tasks each have fewer than the {tasks} "
        raise LineError(what + "tasks of the job; raise nodes_max or tasks_per_node", "nodes_max")


def _check_nodes(request: JobRequest) -> None:
    required = set(request.required_nodes)
    if both := sorted(required & set(request.excluded_nodes)):
        raise LineError(f"node {both[0]} is required and excluded", "excluded_nodes")
    if request.nodes_max and len(required) > request.nodes_max:
        what = f"expected at most nodes_max, {request.nodes_max} nodes, got {len(required)}"
        raise LineError(what, "required_nodes")
