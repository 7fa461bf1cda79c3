"""Nodes and partitions, as `scontrol --oneliner` prints them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hpcosim_slurm.reading.records import Fields, read_records
from hpcosim_slurm.reading.values import (
    devices_of,
    duration_s,
    nodes_of,
    number_of,
    text_of,
    time_of,
)
from hpcosim_slurm.state import LiveNode, LivePartition, PowerState

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
