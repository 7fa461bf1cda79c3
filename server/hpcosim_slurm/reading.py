"""The state of a cluster: jobs, nodes, partitions and reservations, from Slurm's commands.

An output of another form is a `ReadingError`.
"""

from __future__ import annotations

import math
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from hpcosim_slurm import state as live
from hpcosim_slurm import texts
from hpcosim_slurm.errors import ReadingError
from hpcosim_slurm.tools import Tools

Fields = dict[str, str]
Record = TypeVar("Record")

_FIELD = re.compile(r"(?:^|\s)([A-Za-z][\w:/]*)=(\S*)")
_FREE_TEXT = re.compile(r"\s(?:Reason|Comment|Extra)=")

FIELDS = (
    *("JobID", "ArrayJobID", "ArrayTaskID", "HetJobID", "Name", "UserName", "Account"),
    *("Partition", "QOS", "State", "Reason", "SubmitTime", "EligibleTime", "StartTime", "EndTime"),
    *("TimeLimit", "NodeList", "NumNodes", "MaxNodes", "NumCPUs", "NumTasks", "MinMemory"),
    *("tres-alloc", "tres-per-node", "tres-per-job", "tres-per-task", "Feature", "Dependency"),
    *("Licenses", "Reservation", "OverSubscribe", "PriorityLong", "exit_code", "Comment"),
)
NO_NUMBER = 0xFFFF_FFFD
"""Slurm's numbers from here on say that there is none (`NO_VAL`, `INFINITE`)."""

STATES: Mapping[str, live.JobState] = {
    **dict.fromkeys(("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"), "pending"),
    **dict.fromkeys(("RESV_DEL_HOLD", "SPECIAL_EXIT"), "pending"),
    "CONFIGURING": "configuring",
    **dict.fromkeys(("RUNNING", "RESIZING", "SIGNALING"), "running"),
    **dict.fromkeys(("SUSPENDED", "STOPPED"), "suspended"),
    **dict.fromkeys(("COMPLETING", "STAGE_OUT"), "completing"),
    **dict.fromkeys(("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL"), "over"),
    **dict.fromkeys(("PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED"), "over"),
}
"""State by Slurm's word, as in squeue(1), JOB STATE CODES."""

RESERVATIONS = ("scontrol", "--oneliner", "--all", "show", "reservation")
LICENSES = ("scontrol", "--oneliner", "show", "licenses")
NODES = ("scontrol", "--oneliner", "--all", "show", "node")
PARTITIONS = ("scontrol", "--oneliner", "--all", "show", "partition")
_REASON = re.compile(r"\sReason=(.*?)\s\[[^\s\[\]@]+@[^\[\]]*\]", re.DOTALL)
_SYMBOLS: Mapping[str, str] = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
"""Flags by the symbol after a state, as in sinfo(1), NODE STATE CODES."""
# Nodes of a reservation for maintenance run its jobs: `MAINTENANCE` is not among these.
_UNAVAILABLE = frozenset(
    (
        *("DOWN", "ERROR", "FUTURE", "UNKNOWN", "INVAL", "INVALID_REG", "DRAIN", "FAIL"),
        *("REBOOT_ISSUED", "REBOOT_REQUESTED"),
    )
)


def read_records(
    text: str, what: str, first: str, read: Callable[[Fields, str], Record]
) -> dict[str, Record]:
    """Return the records of an output, by the value of their first field.

    Args:
        what: what is shown, such as `node`.
        first: name of the first field of each record.
        read: returns a record of its fields and its text. The fields are without the texts of
            operators, which come last.
    """
    found: dict[str, Record] = {}
    for record in re.split(rf"(?m)^(?={first}=)", text):
        if not record.startswith(f"{first}="):
            continue
        free = _FREE_TEXT.search(record)
        fields = dict(_FIELD.findall(record[: free.start()] if free else record))
        try:
            found[fields[first]] = read(fields, record)
        except (KeyError, ReadingError) as error:
            why = f"the field {error} is missing" if isinstance(error, KeyError) else error
            raise ReadingError(f"scontrol show {what}: {fields[first]}: {why}") from None
    return found


def parse_reservations(text: str) -> dict[str, live.LiveReservation]:
    """Return the reservations of the output of `RESERVATIONS`, by name."""
    return read_records(text, "reservation", "ReservationName", _reservation)


def parse_licenses(text: str) -> dict[str, int]:
    """Return how many licences there are of each name, of the output of `LICENSES`."""
    return read_records(
        text, "licenses", "LicenseName", lambda row, _: texts.number_of(row["Total"])
    )


def _reservation(row: Fields, _: str) -> live.LiveReservation:
    start_s, end_s = texts.time_of(row["StartTime"]), texts.time_of(row["EndTime"])
    if start_s is None or end_s is None:
        raise ReadingError("expected a begin and an end")
    groups = _names(row.get("Groups", ""))
    return live.LiveReservation(
        name=row["ReservationName"],
        nodes=texts.nodes_of(row["Nodes"]),
        start_s=start_s,
        end_s=end_s,
        is_active=row["State"] == "ACTIVE",
        users=() if groups else _names(row.get("Users", "")),
        accounts=() if groups else _names(row.get("Accounts", "")),
        flags=tuple(sorted(_names(row["Flags"]))),
    )


def _names(value: str) -> tuple[str, ...]:
    return tuple(filter(None, texts.text_of(value).split(",")))


def parse_nodes(text: str) -> dict[str, live.LiveNode]:
    """Return the nodes of the output of `NODES`, by name."""
    return read_records(text, "node", "NodeName", _node)


def parse_partitions(text: str) -> dict[str, live.LivePartition]:
    """Return the partitions of the output of `PARTITIONS`, by name."""
    return read_records(text, "partition", "PartitionName", _partition)


def _partition(row: Fields, _: str) -> live.LivePartition:
    return live.LivePartition(
        name=row["PartitionName"],
        nodes=texts.nodes_of(row["Nodes"]),
        is_up=row["State"] == "UP",
        is_default=row.get("Default") == "YES",
        time_limit_s=texts.duration_s(row["MaxTime"]),
        default_time_s=texts.duration_s(row.get("DefaultTime", "")),
    )


def _node(row: Fields, record: str) -> live.LiveNode:
    reason = _REASON.search(record)
    words = _words(row["State"])
    allocated = texts.number_of(row["CPUAlloc"])
    power = _power(words, allocated > 0)
    return live.LiveNode(
        name=row["NodeName"],
        cpus=texts.number_of(row.get("CPUEfctv", "")) or texts.number_of(row["CPUTot"]),
        memory_mb=texts.number_of(row["RealMemory"]) - texts.number_of(row.get("MemSpecLimit", "")),
        is_available=not words & _UNAVAILABLE,
        is_responding=power in ("off", "switching_on") or not words & {"NOT_RESPONDING", "UNKNOWN"},
        power=power,
        slurm_state=row["State"],
        cpus_allocated=allocated,
        memory_allocated_mb=texts.number_of(row["AllocMem"]),
        devices=texts.devices_of(row["Gres"]),
        features=tuple(filter(None, texts.text_of(row["AvailableFeatures"]).split(","))),
        partitions=tuple(filter(None, texts.text_of(row.get("Partitions", "")).split(","))),
        reason=reason[1] if reason else "",
        booted_s=texts.time_of(row.get("BootTime", "")),
    )


def _words(state: str) -> set[str]:
    """Return the words of a state such as `IDLE+DRAIN` or `DOWN*`."""
    found: set[str] = set()
    for word in state.split("+"):
        name = word.rstrip("".join(_SYMBOLS))
        found |= {name, *(_SYMBOLS[symbol] for symbol in word[len(name) :])}
    return found


def _power(words: set[str], has_jobs: bool) -> live.PowerState:
    """Return the power state; a node that is to be switched off waits for its jobs."""
    if "POWERED_DOWN" in words:
        return "off"
    if words & {"POWERING_UP", "POWER_UP"}:
        return "switching_on"
    if "POWERING_DOWN" in words or ("POWER_DOWN" in words and not has_jobs):
        return "switching_off"
    return "on"


def read_state(tools: Tools) -> live.ClusterState:
    """Return the state of a cluster.

    The commands see instants that differ by some milliseconds: a job may have nodes that are not
    allocated yet. Jobs that ended more than `MinJobAge` ago are missing.

    Raises:
        UnreachableError: the controller does not answer.
        CommandError: a command has failed.
    """
    separator = new_separator()
    at_s = time.time()
    queue, nodes, partitions, reservations, licenses = tools.outputs(
        command(separator), NODES, PARTITIONS, RESERVATIONS, LICENSES
    )
    return live.ClusterState(
        at_s=at_s,
        jobs=parse(queue, separator),
        nodes=parse_nodes(nodes),
        partitions=parse_partitions(partitions),
        reservations=parse_reservations(reservations),
        licenses=parse_licenses(licenses),
    )


def command(separator: str, states: str = "all") -> list[str]:
    """Return the command that prints jobs.

    Args:
        states: Slurm's words for their states, separated by commas; all: all that it remembers.
    """
    layout = ",".join(f"{name}:{separator}" for name in FIELDS)
    return ["squeue", "--noheader", "--all", f"--states={states}", f"--Format={layout}"]


def new_separator() -> str:
    """Return a word that users cannot know in advance."""
    return f"X{secrets.token_hex(12)}"


def parse(text: str, separator: str) -> dict[int, live.LiveJob]:
    """Return the jobs of the command's output, by number."""
    parts = text.split(separator)
    if len(parts) % len(FIELDS) != 1 or parts[-1].strip():
        raise ReadingError(
            f"squeue: expected {len(FIELDS)} fields for each job, got {len(parts) - 1} in all"
        )
    jobs: dict[int, live.LiveJob] = {}
    limits: dict[int, int] = {}  # by array
    for start in range(0, len(parts) - 1, len(FIELDS)):
        row = dict(zip(FIELDS, parts[start : start + len(FIELDS)], strict=True))
        row["JobID"] = row["JobID"].lstrip("\n")
        try:
            if limit := texts.limit_of(row["ArrayTaskID"]):
                limits[texts.number_of(row["ArrayJobID"])] = limit
            jobs |= {job.id: job for job in _jobs(row)}
        except ReadingError as error:
            raise ReadingError(f"squeue: job {row['JobID'][:20]}: {error}") from None
    for job in jobs.values() if limits else ():
        if job.state != "over" and job.array in limits:
            jobs[job.id] = replace(job, array_limit=limits[job.array])
    return jobs


def _jobs(row: Mapping[str, str]) -> Iterator[live.LiveJob]:
    """Yield the job of a row, or the tasks of a waiting array."""
    array, tasks = texts.number_of(row["ArrayJobID"]), texts.text_of(row["ArrayTaskID"])
    if not tasks:
        yield _job(row, texts.number_of(row["JobID"]))
        return
    job: live.LiveJob | None = None
    for task in texts.tasks_of(tasks):
        job = _job(row, texts.number_of(row["JobID"])) if job is None else job
        name = f"{array}_{task}"
        yield replace(job, id=texts.task_id(array, task), label=name, array=array, task=task)


def _job(row: Mapping[str, str], number: int) -> live.LiveJob:
    word = row["State"]
    nodes = texts.nodes_of(row["NodeList"])
    # A state of a later version: what has nodes runs.
    state = STATES.get(word, "running" if nodes else "pending")
    waits = state == "pending"
    reason = texts.text_of(row["Reason"])
    tres = texts.tres_of(row["tres-alloc"])
    nodes_min, nodes_max = _node_counts(row, tres, waits)
    devices, together = _devices(row, tres)
    return live.LiveJob(
        id=number,
        name=row["Name"],
        user=row["UserName"],
        account=texts.text_of(row["Account"]),
        partition=row["Partition"],
        qos=texts.text_of(row["QOS"]),
        state=state,
        slurm_state=word,
        is_held=waits
        and (texts.number_of(row["PriorityLong"]) == 0 or reason.startswith("JobHeld")),
        reason=reason if waits else "",
        submitted_s=texts.time_of(row["SubmitTime"]) or 0.0,
        eligible_s=texts.time_of(row["EligibleTime"]),
        started_s=None if waits else texts.time_of(row["StartTime"]),
        ended_s=texts.time_of(row["EndTime"]) if state in ("completing", "over") else None,
        time_limit_s=texts.duration_s(row["TimeLimit"]),
        nodes=nodes,
        nodes_min=nodes_min,
        nodes_max=nodes_max,
        cpus=max(texts.number_of(row["NumCPUs"]), int(tres.get("cpu", 0)), nodes_min),
        memory_mb=_memory_mb(row, tres, nodes_min),
        devices=devices,
        devices_together=together,
        licenses=_licenses(row["Licenses"]),
        features=texts.text_of(row["Feature"]),
        dependency=texts.text_of(row["Dependency"]),
        reservation=texts.text_of(row["Reservation"]),
        is_exclusive=row["OverSubscribe"] == "NO",
        priority=texts.number_of(row["PriorityLong"]),
        exit_code=_exit_code(row["exit_code"]) if state == "over" else None,
        comment=texts.text_of(row["Comment"]),
        heterogeneous=texts.number_of(row["HetJobID"]) or None,
    )


def _node_counts(row: Mapping[str, str], tres: Mapping[str, float], waits: bool) -> tuple[int, int]:
    """Return the fewest and the most nodes of a job; 0: no limit.

    `NumNodes` of a waiting job is an estimate that may exceed what it asks for; the fewest nodes
    are in its trackable resources.
    """
    shown = texts.number_of(row["NumNodes"])
    if not waits:
        return shown, shown
    fewest = int(tres["node"]) if "node" in tres else shown
    return fewest, texts.number_of(row["MaxNodes"])


def _memory_mb(row: Mapping[str, str], tres: Mapping[str, float], nodes: int) -> int | None:
    """Return the memory on each node, MiB; None: the job does not limit it.

    `MinMemory` is for a node or for a CPU and does not say which; the total is unambiguous.
    """
    each = texts.memory_mb(row["MinMemory"]) if texts.text_of(row["MinMemory"]) else 0.0
    if each == 0.0:
        return None
    if "mem" not in tres:
        return math.ceil(each)
    return math.ceil(tres["mem"] / max(nodes, 1))


def _exit_code(status: str) -> int:
    """Return the exit code of a wait status; 128 + its number for a signal, as shells do."""
    number = texts.number_of(status)
    return number >> 8 if number & 0x7F == 0 else 128 + (number & 0x7F)


def _devices(
    row: Mapping[str, str], tres: Mapping[str, float]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the devices on each node, and further ones on all nodes together.

    Slurm may state one request in several ways. Those for each task are counted together: it does
    not say where the tasks will be.
    """
    each = texts.devices_of(row["tres-per-node"])
    stated = {name.partition(":")[0] for name in each}
    together = _others(texts.devices_of(row["tres-per-job"]), stated)
    stated |= {name.partition(":")[0] for name in together}
    tasks = texts.number_of(row["NumTasks"])
    tasks = tasks if 0 < tasks < NO_NUMBER else 1
    for name, count in _others(texts.devices_of(row["tres-per-task"]), stated).items():
        counted = int(tres.get(f"gres/{name}", 0))  # if accounting counts them
        together[name] = counted or count * tasks
    return each, together


def _others(devices: Mapping[str, int], stated: set[str]) -> dict[str, int]:
    return {name: count for name, count in devices.items() if name.partition(":")[0] not in stated}


def _licenses(value: str) -> dict[str, int]:
    """Return the licences of a text such as `matlab:3,abaqus`, by name.

    Of alternatives (`matlab|abaqus`) the job needs one; the first counts.
    """
    counts: dict[str, int] = {}
    for each in filter(None, texts.text_of(value).split(",")):
        name, _, count = each.partition("|")[0].partition(":")
        counts[name] = counts.get(name, 0) + (texts.number_of(count) if count else 1)
    return counts
