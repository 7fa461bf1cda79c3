"""Nodes of slurm.conf as node groups of a platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hpcosim_protocol.errors import ProtocolError
from hpcosim_protocol.hosts import compress, expand
from hpcosim_slurm.files.errors import FieldError, InputError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm.statements import Statement
from hpcosim_slurm.files.slurm.values import names, whole
from hpcosim_slurm.files.units import device_counts

AWAY = frozenset(("FUTURE",))


@dataclass(frozen=True, slots=True)
class NodePower:
    """Power of the nodes, which no file of Slurm states.

    Attributes:
        static_w: static power of each core, W.
        dynamic_w: additional power of each core that has a task, W.
        sleep_w: power of a node that is switched off, W.
    """

    static_w: float = 5.0
    dynamic_w: float = 5.0
    sleep_w: float = 5.0


def node_groups(
    statements: Sequence[Statement],
    gres: Sequence[Statement],
    power: NodePower,
    report: ImportReport,
) -> list[dict[str, Any]]:
    """Return a node group for each `NodeName` line.

    Args:
        statements: those of slurm.conf.
        gres: those of gres.conf, which state types and numbers that slurm.conf does not.
        power: power of the nodes.
        report: counts what is not modelled.

    Raises:
        InputError: a line is invalid, there are no nodes, or two have the same name.
    """
    defaults: dict[str, str] = {}
    groups: list[dict[str, Any]] = []
    known: dict[str, Statement] = {}
    types = _device_types(gres)
    for statement in (each for each in statements if each.key == "nodename"):
        if statement.values["nodename"].upper() == "DEFAULT":
            defaults |= statement.values
            continue
        merged = {**defaults, **statement.values}
        if merged.get("state", "").upper() in AWAY:
            report.add("dropped", "nodes in state FUTURE", statement.place)
            continue
        hosts = hosts_of(statement.get("nodename"), statement)
        for name in hosts:
            if name in known:
                what = f"a second node has the name {name!r}; the first is in {known[name].place}"
                raise statement.error(what)
            known[name] = statement
        groups += _groups(hosts, merged, types, power, statement)
    if not groups:
        path = statements[0].path if statements else None
        raise InputError("there is no NodeName line; expected the slurm.conf of a cluster", path)
    report.add(
        "guessed",
        f"power: {power.static_w:g} W of each core, and {power.dynamic_w:g} W more with a task",
        count=sum(group["count"] for group in groups),
    )
    return groups


def hosts_of(text: str, statement: Statement) -> list[str]:
    """Return the names of a host list.

    Raises:
        InputError: the text has another form; names the line.
    """
    try:
        return expand(text)
    except ProtocolError as error:
        raise statement.error(str(error)) from None


def _groups(
    hosts: list[str],
    values: dict[str, str],
    types: dict[str, dict[str, int]],
    power: NodePower,
    statement: Statement,
) -> list[dict[str, Any]]:
    """Return the groups of a line: several, if gres.conf states different devices."""
    try:
        declared = device_counts(values.get("gres", ""))
        shape = _shape(values, power)
    except FieldError as error:
        raise statement.error(str(error)) from None
    by_devices: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for host in hosts:
        devices = _typed(declared, types.get(host, {}))
        by_devices.setdefault(tuple(sorted(devices.items())), []).append(host)
    groups: list[dict[str, Any]] = []
    for devices_here, members in by_devices.items():
        gres = {"gres": dict(devices_here)} if devices_here else {}
        groups.append({"names": compress(members), "count": len(members), **shape, **gres})
    return groups


def _shape(values: dict[str, str], power: NodePower) -> dict[str, Any]:
    """Return the processors, the memory, the features and the weight of a node."""

    def number(*keys: str, default: int) -> int:
        return next((whole(values[key]) for key in keys if values.get(key)), default)

    sockets = number("sockets", default=0)
    sockets = sockets or number("socketsperboard", default=1) * number("boards", default=1)
    threads = number("threadspercore", default=1)
    cores = number("cpus", "procs", default=0)
    cores = cores or sockets * number("corespersocket", default=1) * threads
    cores -= number("corespeccount", default=0) * threads
    if cores < 1 or cores > 1_000_000:
        raise FieldError(f"expected 1 to 1000000 CPUs on a node, got {cores}")
    processors = sockets if sockets and cores % sockets == 0 else 1
    each = {
        "cores": cores // processors,
        "static_w": round(power.static_w * cores / processors, 3),
        "dynamic_w": power.dynamic_w,
    }
    memory_mb = max(number("realmemory", default=1) - number("memspeclimit", default=0), 0)
    features = names(values.get("features") or values.get("feature", ""))
    weight = number("weight", default=1)
    return {
        "processors": [dict(each) for _ in range(processors)],
        "memory_mb": memory_mb,
        **({"features": features} if features else {}),
        **({"weight": weight} if weight != 1 else {}),
    }


def _device_types(gres: Sequence[Statement]) -> dict[str, dict[str, int]]:
    """Return the number of devices by host and name with type, from gres.conf."""
    found: dict[str, dict[str, int]] = {}
    for statement in gres:
        name, kind = statement.get("name"), statement.get("type")
        if not name:
            continue
        key = f"{name}:{kind}" if kind else name
        try:
            count = whole(statement.get("count")) if "count" in statement.values else 0
            files = statement.get("file")
            count = count or (len(expand(files)) if files else 1)
            hosts = expand(statement.get("nodename")) if "nodename" in statement.values else [""]
        except (FieldError, ProtocolError) as error:
            raise statement.error(str(error)) from None
        for host in hosts:
            devices = found.setdefault(host, {})
            devices[key] = devices.get(key, 0) + count
    return found


def _typed(declared: dict[str, int], stated: dict[str, int]) -> dict[str, int]:
    """Return the devices of a node: those of slurm.conf, with the types of gres.conf."""
    devices: dict[str, int] = {}
    for key, count in declared.items():
        typed = {name: each for name, each in stated.items() if name.startswith(f"{key}:")}
        if typed and sum(typed.values()) == count:
            devices |= typed
        else:
            devices[key] = count
    return devices
