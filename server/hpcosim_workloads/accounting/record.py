"""A record of a workload manager's accounting, and why some records are no jobs.

Readers of all managers state requests as Slurm does: `requested` has Slurm's names of trackable
resources, `options` has the options of `sbatch`, and `state` is one of Slurm's job states. So one
place decides what becomes of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

from hpcosim_workloads.logs.quantities import FieldError, shown

Place = int | str
"""Line of a record: its number, or file and number if there are several files."""

Lines = Iterable[tuple[Place, str]]
"""Lines of files, without line ends."""

MOST_UNIX_S = 32503680000.0  # the year 3000
MOST_CORES = 10**9
MOST_HOSTS = 1_000_000  # of an allocation
NO_OPTIONS: Mapping[str, str] = MappingProxyType({})

ARRAY_LIMIT = re.compile(r".*%(\d{1,9})")
"""Slurm's list of the tasks of an array, such as `1-10%2`, with the limit of running ones."""

HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class JobId(NamedTuple):
    """The identifier of a record.

    Attributes:
        job_id: the number before `_`, `+` and `.`: a job, an array or a heterogeneous job.
        task: index of a task of an array; None: the record is not of one task.
        tasks: indices of array tasks that waited together, such as `3-7%2`; empty: none.
        part: component of a heterogeneous job; None: the job is not heterogeneous.
        step: step of the job, such as `batch` or `0`; empty: the job itself.
    """

    job_id: int
    task: int | None = None
    tasks: str = ""
    part: int | None = None
    step: str = ""


class Allocation(NamedTuple):
    """What a run had on one host.

    Attributes:
        cores: cores on the host; 0: unknown.
        gpus: GPUs on the host; 0: none, or unknown.
    """

    host: str
    cores: int = 0
    gpus: int = 0


@dataclass(slots=True, kw_only=True)
class Record:
    """A job, or one run of a job that was requeued.

    Times are Unix times in seconds; None: unknown.

    Attributes:
        raw_id: number of the job. In Slurm each task of an array has its own; other managers give
            all tasks the number of the array.
        named: the identifier with array index and component.
        name, user, group, account, partition, qos: names; empty: unknown.
        reservation, constraints, nodes: text; empty: unknown. `nodes` is a host list.
        options: options of `sbatch` by long name; flags have an empty value.
        run_s: run time without suspension, s; None: unknown.
        limit_s: requested run time, s; None: unlimited or unknown.
        requested: trackable resources; memory in MB.
        allocated_mb: allocated memory, MB; 0: unknown.
        memory_per_node_mb: requested memory on each node, MB; 0: stated otherwise.
        allocated: the hosts of the run; empty: unknown, or stated by `nodes` alone.
    """

    line: Place
    raw_id: int
    named: JobId
    name: str
    user: str
    group: str = ""
    account: str
    partition: str
    qos: str = ""
    reservation: str = ""
    constraints: str = ""
    nodes: str
    state: str
    submit_s: float
    eligible_s: float | None = None
    start_s: float | None
    end_s: float | None
    ambiguous: bool = False
    run_s: float | None
    limit_s: float | None
    unlimited: bool = False
    requested: dict[str, float]
    allocated_mb: float = 0.0
    memory_per_node_mb: float = 0.0
    node_count: int
    options: Mapping[str, str] = field(default_factory=lambda: NO_OPTIONS)
    allocated: tuple[Allocation, ...] = ()


class Report(Protocol):
    """Takes what a reader drops, guesses or does not translate."""

    def add(
        self,
        kind: Literal["dropped", "guessed", "not modelled"],
        what: str,
        place: Place = "",
        count: int = 1,
    ) -> None:
        """Count something."""


def never_started(record: Record) -> str:
    """Return why a job that never ran is left out; empty: it ran."""
    idle = not record.run_s and not record.nodes and record.state != "COMPLETED"
    if record.start_s is not None and not idle:
        return ""
    if record.state in ("CANCELLED", "DEADLINE", "REVOKED"):
        return "jobs cancelled while pending"
    if record.state in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "CONFIGURING"):
        return "jobs that still waited"
    return "jobs without a start"


def unix_s(text: str, name: str) -> float | None:
    """Return a Unix time in digits, s; None: the text is empty or 0.

    Args:
        name: the field, for errors.
    """
    if text in ("", "0"):
        return None
    try:
        time = float(text) if len(text) < 20 and text.isascii() else -1.0
    except ValueError:
        time = -1.0
    if not 0.0 <= time <= MOST_UNIX_S:
        raise FieldError(f"{name}: expected a Unix time in seconds, got {shown(text)}")
    return time or None


def whole(text: str, name: str, most: int = MOST_CORES) -> int:
    """Return a whole number from 0 on.

    Args:
        name: the field, for errors.
    """
    if text.isascii() and text.isdecimal() and len(text) < 20 and (number := int(text)) <= most:
        return number
    raise FieldError(f"{name}: expected a whole number up to {most}, got {shown(text)}")


def drop_invalid(error: FieldError, place: Place, report: Report) -> None:
    """Count a record that has an invalid field; its name is the beginning of the message."""
    name = str(error).partition(":")[0]
    report.add("dropped", f"records with an invalid field ({name})", place)


def merged(found: Iterable[Allocation]) -> tuple[Allocation, ...] | None:
    """Return the hosts of a run, each once; None: a name cannot be that of a node."""
    by_name: dict[str, Allocation] = {}
    for each in found:
        before = by_name.get(each.host)
        if before is not None:
            each = Allocation(each.host, before.cores + each.cores, before.gpus + each.gpus)
        elif HOST.fullmatch(each.host) is None:
            return None
        by_name[each.host] = each
    return tuple(by_name.values())


def hosts_or_none(
    found: tuple[Allocation, ...] | None, place: Place, report: Report
) -> tuple[Allocation, ...]:
    """Return the hosts of a run, and report names that nodes cannot have."""
    if found is None:
        report.add("dropped", "lists of hosts with names that nodes cannot have", place)
    return found or ()
