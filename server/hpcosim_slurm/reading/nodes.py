"""Nodes and partitions, as `scontrol --oneliner` prints them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hpcosim_slurm.errors import ReadingError
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

_FIELD = re.compile(r"(?:^|\s)([A-Za-z][\w:/]*)=(\S*)")
_REASON = re.compile(r"\sReason=(.*?)\s\[[^\s\[\]@]+@[^\[\]]*\]", re.DOTALL)
_FREE_TEXT = re.compile(r"\s(?:Reason|Comment|Extra)=")
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
_UNAVAILABLE = frozenset(
    (
        *("DOWN", "ERROR", "FUTURE", "UNKNOWN", "INVAL", "INVALID_REG", "DRAIN", "FAIL"),
        *("MAINTENANCE", "REBOOT_ISSUED", "REBOOT_REQUESTED"),
    )
)


def parse_nodes(text: str) -> dict[str, LiveNode]:
    """Return the nodes of the output of `NODES`, by name.

    Raises:
        ReadingError: the text has another form.
    """
    found: dict[str, LiveNode] = {}
    for record in _records(text, "NodeName"):
        free = _FREE_TEXT.search(record)  # the text of operators, after the fields that are read
        row = dict(_FIELD.findall(record[: free.start()] if free else record))
        reason = _REASON.search(record)
        try:
            found[row["NodeName"]] = _node(row, reason[1] if reason else "")
        except (KeyError, ReadingError) as error:
            raise _invalid("node", row.get("NodeName", ""), error) from None
    return found


def parse_partitions(text: str) -> dict[str, LivePartition]:
    """Return the partitions of the output of `PARTITIONS`, by name.

    Raises:
        ReadingError: the text has another form.
    """
    found: dict[str, LivePartition] = {}
    for record in _records(text, "PartitionName"):
        row = dict(_FIELD.findall(record))
        try:
            found[row["PartitionName"]] = LivePartition(
                name=row["PartitionName"],
                nodes=nodes_of(row["Nodes"]),
                is_up=row["State"] == "UP",
                is_default=row.get("Default") == "YES",
                time_limit_s=duration_s(row["MaxTime"]),
                default_time_s=duration_s(row.get("DefaultTime", "")),
            )
        except (KeyError, ReadingError) as error:
            raise _invalid("partition", row.get("PartitionName", ""), error) from None
    return found


def _records(text: str, first: str) -> list[str]:
    """Return the records of an output; each begins with a field."""
    return [each for each in re.split(rf"(?m)^(?={first}=)", text) if each.startswith(f"{first}=")]


def _invalid(what: str, name: str, error: Exception) -> ReadingError:
    why = f"the field {error} is missing" if isinstance(error, KeyError) else error
    return ReadingError(f"scontrol show {what}: {name}: {why}")


def _node(row: Mapping[str, str], reason: str) -> LiveNode:
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
        reason=reason,
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
