"""The jobs of a cluster, their conditions and its reservations, as those of the protocol."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

import hpcosim_protocol as protocol
from hpcosim_protocol.features import check
from hpcosim_protocol.hosts import to_ranges
from hpcosim_protocol.node_access import may_use
from hpcosim_protocol.platform import ReservationFlag
from hpcosim_protocol.resources import provides
from hpcosim_slurm.state import ClusterState, LiveJob, LiveReservation
from hpcosim_slurm.texts import MAX_WAITING_TASKS, task_id
from hpcosim_workloads.logs.quantities import Clause, Reference, parse_dependency
from hpcosim_workloads.table import JobSpec

_REMARK = re.compile(r"\([a-z]*\)")  # Slurm writes `afterok:7(unfulfilled)`

REPEATS_S: Mapping[str, float] = {"HOURLY": 3600.0, "DAILY": 86_400.0, "WEEKLY": 604_800.0}
"""Time between windows, by flag. Of those on weekdays or weekends, one window is known."""
FLAGS: Mapping[str, ReservationFlag] = {
    "MAINT": "maint",
    "IGNORE_JOBS": "ignore_jobs",
    "FLEX": "flex",
}

UNLIMITED_S = 365 * 86_400.0
"""Requested time of jobs without a limit, s: Slurm's planning counts them as a year."""
WITH_NODES = (
    *("name", "array_id", "array_index", "array_limit", "memory_per_node_mb", "all_memory"),
    *("gres_per_node", "gres_per_job", "licenses", "requeue"),
)
"""What a job still requests when it has its nodes."""
MAX_TEXT = 200  # characters of a name in the protocol
MAX_EXPRESSION = 1000  # characters of an expression of features
FINAL_STATES: Mapping[str, protocol.JobState] = {"COMPLETED": "completed", "TIMEOUT": "timeout"}
"""State of a job whose run ended by itself, by Slurm's word; of all others: `failed`."""


class Conditions(NamedTuple):
    """What a job waits for.

    Attributes:
        any_of: whether one of them is sufficient.
        is_complete: whether there are no others.
    """

    dependencies: tuple[protocol.Dependency, ...] = ()
    any_of: bool = False
    is_complete: bool = True


UNKNOWN = Conditions(is_complete=False)


def conditions_of(job: LiveJob, shown: Shown) -> Conditions:
    """Return what a job waits for.

    A condition is expressed if the scheduler sees all jobs that it names. Slurm removes conditions
    that are met from its text: what it still says of other jobs, it waits for.
    """
    if not job.dependency:
        return Conditions()
    try:
        parsed = parse_dependency(_REMARK.sub("", job.dependency))
    except ValueError:
        return UNKNOWN
    found = [_dependency(job, clause, shown) for clause in parsed.clauses]
    known = tuple(each for each in found if each is not None)
    if len(known) == len(found):
        return Conditions(known, parsed.any_of)
    return UNKNOWN if parsed.any_of else Conditions(known, is_complete=False)


def _dependency(job: LiveJob, clause: Clause, shown: Shown) -> protocol.Dependency | None:
    """Return a condition; None: a job that it names is over, or in no partition that is shown."""
    numbers: list[int] = []
    for each in clause.references:
        found = _numbers(job, clause.kind, each, shown)
        if not found:
            return None
        numbers += found
    kind = "afterok" if clause.kind == "aftercorr" else clause.kind
    return protocol.Dependency(kind, tuple(numbers), clause.delay_s)  # type: ignore[arg-type]


def _numbers(job: LiveJob, kind: str, other: Reference, shown: Shown) -> list[int]:
    """Return the numbers of the jobs that a reference names; empty: they are not known."""
    if other.task is not None:
        wanted = [task_id(other.job_id, other.task)]
    elif kind == "aftercorr" and job.array is not None:
        wanted = [task_id(other.job_id, job.task)]
    elif other.job_id in shown.tasks:
        wanted = shown.tasks[other.job_id]
        if len(wanted) >= MAX_WAITING_TASKS:
            return []  # there may be more
    else:
        wanted = [other.job_id]
    jobs = shown.state.jobs
    known = all(number in jobs and jobs[number].state != "over" for number in wanted)
    return wanted if known else []


def spec_of(job: LiveJob, submit_s: float, shown: Shown) -> JobSpec:
    """Return a job as the protocol describes it. Its run time is unknown: infinity."""
    return JobSpec(
        job_id=job.id,
        submit_s=submit_s,
        run_s=math.inf,
        requested_s=requested_s(job, shown.state),
        cores=max(job.cpus, 1),
        placement=placement_of(job),
        user=job.user[:MAX_TEXT],
        account=job.account[:MAX_TEXT],
        qos=job.qos[:MAX_TEXT],
        partition=",".join(n for n in job.partition.split(",") if n in shown.partitions),
        request=_request(job, shown),
    )


def spec_with_nodes(
    job: LiveJob, submit_s: float, shown: Shown, error_of: Callable[[JobSpec], str]
) -> JobSpec:
    """Return a job that has its nodes already, so that nothing keeps it from running there.

    Args:
        error_of: returns why the model would reject a job; empty: it would not.
    """
    free = dataclasses.replace(job, is_held=False, dependency="", eligible_s=None)
    spec = spec_of(free, submit_s, shown)
    asked = spec.request or protocol.JobRequest()
    held = protocol.JobRequest(**{name: getattr(asked, name) for name in WITH_NODES})
    fewest = protocol.JobRequest(name=asked.name, requeue=asked.requeue)
    specs = [spec, *(spec._replace(request=request) for request in (held, fewest))]
    return next((each for each in specs if not error_of(each)), spec)


def requested_s(job: LiveJob, state: ClusterState) -> float:
    """Return the time limit of a job: its own, or that of its partition, s."""
    if job.time_limit_s is not None:
        return max(job.time_limit_s, 1.0)
    limits = [
        state.partitions[name].time_limit_s
        for name in job.partition.split(",")
        if name in state.partitions
    ]
    return max((UNLIMITED_S if limit is None else limit for limit in limits), default=UNLIMITED_S)


def placement_of(job: LiveJob) -> protocol.Placement:
    """Return the rule for the layout of a job over nodes."""
    if job.is_exclusive:
        return "whole_nodes"
    return "one_node" if job.nodes_max == 1 and job.cpus > 1 else "cores"


def waits_for_more(job: LiveJob, shown: Shown) -> bool:
    """Return whether a job waits for something that the protocol cannot express.

    It is a dependency on a job that the scheduler does not see, a reservation that the scheduler
    does not know or of which it cannot know that the job may use it, or more licences than there
    are.
    """
    return (
        not conditions_of(job, shown).is_complete
        or not _may_use_reservation(job, shown)
        or any(count > there for _, count, there in _licenses(job, shown))
    )


def is_cancelled(job: LiveJob) -> bool:
    """Return whether somebody cancelled a job that is over."""
    return job.slurm_state.startswith(("CANCELLED", "REVOKED"))


def final_state_of(job: LiveJob) -> protocol.JobState:
    """Return the state of a job whose run is over, if the run ended by itself."""
    return FINAL_STATES.get(job.slurm_state.split("+")[0].split(" ")[0], "failed")


def _request(job: LiveJob, shown: Shown) -> protocol.JobRequest:
    conditions = conditions_of(job, shown)
    several = job.nodes_max > 1 and job.nodes_max < job.cpus
    now_s, holds_memory = shown.state.at_s, "memory" in shown.platform.consumable
    return protocol.JobRequest(
        name=job.name[:MAX_TEXT],
        hold=job.is_held or waits_for_more(job, shown),
        begin_s=job.eligible_s if job.eligible_s is not None and job.eligible_s > now_s else None,
        dependencies=conditions.dependencies,
        any_dependency=conditions.any_of,
        array_id=job.array,
        array_index=job.task,
        array_limit=job.array_limit,
        reservation=job.reservation if _may_use_reservation(job, shown) else "",
        nodes_min=job.nodes_min if job.nodes_min > 1 else 0,
        nodes_max=job.nodes_max if several else 0,
        features=_features(job.features),
        memory_per_node_mb=float(job.memory_mb or 0) if holds_memory else 0.0,
        all_memory=holds_memory and job.memory_mb is None,
        gres_per_node=_devices(job.devices, shown),
        gres_per_job=_devices(job.devices_together, shown),
        licenses={name: min(count, there) for name, count, there in _licenses(job, shown)},
        requeue=not job.is_outside,  # Slurm's default, JobRequeue=1
    )


def _may_use_reservation(job: LiveJob, shown: Shown) -> bool:
    """Return whether the scheduler knows that a job may use its reservation; true without one."""
    if not job.reservation:
        return True
    found = shown.reservations.get(job.reservation)
    return found is not None and may_use(found, job.user, job.account)


def _licenses(job: LiveJob, shown: Shown) -> Iterator[tuple[str, int, int]]:
    """Yield each licence of a job with the number that it needs and the number that there is."""
    for name, count in job.licenses.items():
        yield name, count, shown.platform.licenses.get(name, 0)


def _devices(wanted: Mapping[str, int], shown: Shown) -> dict[str, float]:
    """Return the devices that a job requests, without those that the model does not have.

    If it has them without the type, any device counts.
    """
    known: dict[str, float] = {}
    for name, count in wanted.items():
        kind = name.partition(":")[0]
        there = [device for device in shown.devices if device.partition(":")[0] == kind]
        if there and count > 0:
            exact = any(provides(device, name) for device in there)
            known[name if exact else kind] = float(count)
    return known


def _features(text: str) -> str:
    """Return an expression of features; empty: there is none that the protocol knows."""
    if len(text) > MAX_EXPRESSION:
        return ""
    try:
        check(text)
    except protocol.ResourceError:
        return ""
    return text


class Shown:
    """The part of a cluster that a scheduler sees, and its model."""

    def __init__(self, state: ClusterState, platform: protocol.Platform) -> None:
        self.state = state
        self.platform = platform

    @cached_property
    def partitions(self) -> frozenset[str]:
        """Names of the partitions of the model."""
        return frozenset(each.name for each in self.platform.partitions)

    @cached_property
    def reservations(self) -> Mapping[str, protocol.NodeReservation]:
        """The reservations of the model, by name."""
        return {each.name: each for each in self.platform.reservations}

    @cached_property
    def devices(self) -> frozenset[str]:
        """Names of the devices of the model, with their types."""
        return frozenset(name for group in self.platform.nodes for name in group.gres)

    @cached_property
    def tasks(self) -> Mapping[int, list[int]]:
        """Numbers of the tasks of each array that are not over, by Slurm's number of the array."""
        found: dict[int, list[int]] = defaultdict(list)
        for job in self.state.jobs.values():
            if job.array is not None and job.state != "over":
                found[job.array].append(job.id)
        return found


def reservations_of(
    live: Mapping[str, LiveReservation], number: Mapping[str, int], origin_s: float = 0.0
) -> Iterator[protocol.NodeReservation]:
    """Yield the reservations of nodes.

    A reservation of some cores of a node counts as one of the node. With excluded users or
    accounts, it is for nobody: the protocol cannot say who may use it.

    Args:
        number: numbers of the nodes by name; others are left out.
    """
    for each in live.values():
        nodes = sorted(number[name] for name in each.nodes if name in number)
        if not nodes or each.end_s <= each.start_s:
            continue
        excludes = any(name.startswith("-") for name in (*each.users, *each.accounts))
        yield protocol.NodeReservation(
            name=each.name[:200],
            nodes=to_ranges(nodes),
            start_s=each.start_s - origin_s,
            end_s=each.end_s - origin_s,
            repeat_s=next((REPEATS_S[flag] for flag in each.flags if flag in REPEATS_S), None),
            users=() if excludes else tuple(name[:200] for name in each.users),
            accounts=() if excludes else tuple(name[:200] for name in each.accounts),
            flags=tuple(FLAGS[flag] for flag in each.flags if flag in FLAGS),
        )


def newly_reserved(
    state: ClusterState, platform: protocol.Platform, number: Mapping[str, int]
) -> frozenset[str]:
    """Return the nodes of reservations that have begun and that a platform does not have."""
    known = {_without_window(each) for each in platform.reservations}
    active = {name: each for name, each in state.reservations.items() if each.is_active}
    return frozenset(
        node
        for each in reservations_of(active, number)
        if _without_window(each) not in known
        for node in active[each.name].nodes
    )


def _without_window(reservation: protocol.NodeReservation) -> protocol.NodeReservation:
    """Return a reservation that repeats without its present window, which moves."""
    if reservation.repeat_s is None:
        return reservation
    first_s = reservation.start_s % reservation.repeat_s
    length_s = reservation.end_s - reservation.start_s
    return replace(reservation, start_s=first_s, end_s=first_s + length_s)
