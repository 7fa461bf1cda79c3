"""The state of a cluster, from commands that run at the same time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from hpcosim_slurm.errors import ReadingError
from hpcosim_slurm.reading import jobs
from hpcosim_slurm.reading.values import (
    devices_of,
    duration_s,
    nodes_of,
    number_of,
    text_of,
    time_of,
)
from hpcosim_slurm.state import ClusterState, LiveNode, LivePartition, LiveReservation, PowerState
from hpcosim_slurm.tools import Tools

# Records of `scontrol --oneliner show`: each begins with a field, such as `NodeName=`.

Fields = dict[str, str]
Record = TypeVar("Record")

_FIELD = re.compile(r"(?:^|\s)([A-Za-z][\w:/]*)=(\S*)")
_FREE_TEXT = re.compile(r"\s(?:Reason|Comment|Extra)=")


def read_records(
    text: str, what: str, first: str, read: Callable[[Fields, str], Record]
) -> dict[str, Record]:
    """Return the records of an output, by the value of their first field.

    Args:
        text: the output.
        what: what is shown, such as `node`.
        first: name of the first field of each record.
        read: returns a record of its fields and its text. The fields are without the texts of
            operators, which come last.

    Raises:
        ReadingError: a field is missing, or has another form than expected.
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


# Reservations and licences, as `scontrol --oneliner` prints them.

RESERVATIONS = ("scontrol", "--oneliner", "--all", "show", "reservation")
LICENSES = ("scontrol", "--oneliner", "show", "licenses")


def parse_reservations(text: str) -> dict[str, LiveReservation]:
    """Return the reservations of the output of `RESERVATIONS`, by name.

    Raises:
        ReadingError: the text has another form.
    """
    return read_records(text, "reservation", "ReservationName", _reservation)


def parse_licenses(text: str) -> dict[str, int]:
    """Return how many licences there are of each name, of the output of `LICENSES`.

    Raises:
        ReadingError: the text has another form.
    """
    return read_records(text, "licenses", "LicenseName", lambda row, _: number_of(row["Total"]))


def _reservation(row: Fields, _: str) -> LiveReservation:
    start_s, end_s = time_of(row["StartTime"]), time_of(row["EndTime"])
    if start_s is None or end_s is None:
        raise ReadingError("expected a begin and an end")
    groups = _names(row.get("Groups", ""))
    return LiveReservation(
        name=row["ReservationName"],
        nodes=nodes_of(row["Nodes"]),
        start_s=start_s,
        end_s=end_s,
        is_active=row["State"] == "ACTIVE",
        users=() if groups else _names(row.get("Users", "")),
        accounts=() if groups else _names(row.get("Accounts", "")),
        flags=tuple(sorted(_names(row["Flags"]))),
    )


def _names(value: str) -> tuple[str, ...]:
    return tuple(filter(None, text_of(value).split(",")))


# Nodes and partitions, as `scontrol --oneliner` prints them.

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


def parse_nodes(text: str) -> dict[str, LiveNode]:
    """Return the nodes of the output of `NODES`, by name.

    Raises:
        ReadingError: the text has another form.
    """
    return read_records(text, "node", "NodeName", _node)


def parse_partitions(text: str) -> dict[str, LivePartition]:
    """Return the partitions of the output of `PARTITIONS`, by name.

    Raises:
        ReadingError: the text has another form.
    """
    return read_records(text, "partition", "PartitionName", _partition)


def _partition(row: Fields, _: str) -> LivePartition:
    return LivePartition(
        name=row["PartitionName"],
        nodes=nodes_of(row["Nodes"]),
        is_up=row["State"] == "UP",
        is_default=row.get("Default") == "YES",
        time_limit_s=duration_s(row["MaxTime"]),
        default_time_s=duration_s(row.get("DefaultTime", "")),
    )


def _node(row: Fields, record: str) -> LiveNode:
    reason = _REASON.search(record)
    words = _words(row["State"])
    allocated = number_of(row["CPUAlloc"])
    power = _power(words, allocated > 0)
    return LiveNode(
        name=row["NodeName"],
        cpus=number_of(row.get("CPUEfctv", "")) or number_of(row["CPUTot"]),
        memory_mb=number_of(row["RealMemory"]) - number_of(row.get("MemSpecLimit", "")),
        is_available=not words & _UNAVAILABLE,
        is_responding=power in ("off", "switching_on") or not words & {"NOT_RESPONDING", "UNKNOWN"},
        power=power,
        slurm_state=row["State"],
        cpus_allocated=allocated,
        memory_allocated_mb=number_of(row["AllocMem"]),
        devices=devices_of(row["Gres"]),
        features=tuple(filter(None, text_of(row["AvailableFeatures"]).split(","))),
        partitions=tuple(filter(None, text_of(row.get("Partitions", "")).split(","))),
        reason=reason[1] if reason else "",
        booted_s=time_of(row.get("BootTime", "")),
    )


def _words(state: str) -> set[str]:
    """Return the words of a state such as `IDLE+DRAIN` or `DOWN*`."""
    found: set[str] = set()
    for word in state.split("+"):
        name = word.rstrip("".join(_SYMBOLS))
        found |= {name, *(_SYMBOLS[symbol] for symbol in word[len(name) :])}
    return found


def _power(words: set[str], has_jobs: bool) -> PowerState:
    """Return the power state; a node that is to be switched off waits for its jobs."""
    if "POWERED_DOWN" in words:
        return "off"
    if words & {"POWERING_UP", "POWER_UP"}:
        return "switching_on"
    if "POWERING_DOWN" in words or ("POWER_DOWN" in words and not has_jobs):
        return "switching_off"
    return "on"


def read_state(tools: Tools) -> ClusterState:
    """Return the state of a cluster.

    The commands see instants that differ by some milliseconds: a job may have nodes that are not
    allocated yet. Jobs that ended more than `MinJobAge` ago are missing.

    Args:
        tools: the commands of the cluster.

    Raises:
        UnreachableError: the controller does not answer.
        CommandError: a command has failed.
        ReadingError: an output has another form than expected.
    """
    separator = jobs.separator()
    at_s = time.time()
    queue, nodes, partitions, reservations, licenses = tools.outputs(
        jobs.command(separator), NODES, PARTITIONS, RESERVATIONS, LICENSES
    )
    return ClusterState(
        at_s=at_s,
        jobs=jobs.parse(queue, separator),
        nodes=parse_nodes(nodes),
        partitions=parse_partitions(partitions),
        reservations=parse_reservations(reservations),
        licenses=parse_licenses(licenses),
    )
