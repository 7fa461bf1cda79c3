"""Node groups, partitions, switches and licences of slurm.conf and topology.conf.

What is invalid is an `InputError` that names the line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from hpcosim_protocol.errors import ProtocolError
from hpcosim_protocol.hosts import compress, expand
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm import statements as texts
from hpcosim_workloads.logs.quantities import FieldError, device_counts

AWAY = frozenset(("FUTURE",))

READERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "default": ("default", texts.truth),
    "state": ("state", str.lower),
    "prioritytier": ("priority_tier", texts.whole),
    "priorityjobfactor": ("priority_job_factor", texts.whole),
    "maxtime": ("max_time_s", texts.optional_seconds),
    "defaulttime": ("default_time_s", texts.optional_seconds),
    "minnodes": ("min_nodes", texts.optional_whole),
    "maxnodes": ("max_nodes", texts.optional_whole),
    "maxcpuspernode": ("max_cores_per_node", texts.optional_whole),
    "defmempercpu": ("default_memory_per_core_mb", texts.optional_whole),
    "maxmempercpu": ("max_memory_per_core_mb", texts.optional_whole),
    "allowaccounts": ("allow_accounts", texts.names),
    "denyaccounts": ("deny_accounts", texts.names),
    "allowgroups": ("allow_groups", texts.names),
    "allowqos": ("allow_qos", texts.names),
    "denyqos": ("deny_qos", texts.names),
    "qos": ("qos", lambda text: "" if text.upper() == "N/A" else text),
    "gracetime": ("grace_time_s", lambda text: float(texts.whole(text))),
}

DEFAULTS: Mapping[str, Any] = {
    "default": False,
    "state": "up",
    "priority_tier": 1,
    "priority_job_factor": 1,
    "qos": "",
    "grace_time_s": 0.0,
    **dict.fromkeys(("min_nodes", "max_nodes", "max_cores_per_node"), 0),
    **{
        name: []
        for name in ("allow_accounts", "deny_accounts", "allow_groups", "allow_qos", "deny_qos")
    },
}
MODES = {"off": "off", "cancel": "cancel", "requeue": "requeue", "suspend": "suspend"}


@dataclass(frozen=True, slots=True)
class NodePower:
    """Power of the nodes, which no file of Slurm states."""

    static_w: float = 5.0
    dynamic_w: float = 5.0
    sleep_w: float = 5.0


def node_groups(
    statements: Sequence[texts.Statement],
    gres: Sequence[texts.Statement],
    power: NodePower,
    report: ImportReport,
) -> list[dict[str, Any]]:
    """Return a node group for each `NodeName` line.

    Args:
        gres: those of gres.conf, which state types and numbers that slurm.conf does not.
    """
    defaults: dict[str, str] = {}
    groups: list[dict[str, Any]] = []
    known: dict[str, texts.Statement] = {}
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


def hosts_of(text: str, statement: texts.Statement) -> list[str]:
    """Return the names of a host list."""
    try:
        return expand(text)
    except ProtocolError as error:
        raise statement.error(str(error)) from None


def _groups(
    hosts: list[str],
    values: dict[str, str],
    types: dict[str, dict[str, int]],
    power: NodePower,
    statement: texts.Statement,
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
    def number(*keys: str, default: int) -> int:
        return next((texts.whole(values[key]) for key in keys if values.get(key)), default)

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
    features = texts.names(values.get("features") or values.get("feature", ""))
    weight = number("weight", default=1)
    return {
        "processors": [dict(each) for _ in range(processors)],
        "memory_mb": memory_mb,
        **({"features": features} if features else {}),
        **({"weight": weight} if weight != 1 else {}),
    }


def _device_types(gres: Sequence[texts.Statement]) -> dict[str, dict[str, int]]:
    """Return the number of devices by host and name with type, from gres.conf."""
    found: dict[str, dict[str, int]] = {}
    for statement in gres:
        name, kind = statement.get("name"), statement.get("type")
        if not name:
            continue
        key = f"{name}:{kind}" if kind else name
        try:
            count = texts.whole(statement.get("count")) if "count" in statement.values else 0
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


def partitions(
    statements: Sequence[texts.Statement],
    groups: Sequence[Mapping[str, Any]],
    site: Mapping[str, Any],
    report: ImportReport,
) -> list[dict[str, Any]]:
    """Return the partitions.

    Args:
        site: values of all partitions that do not state them, by attribute.
    """
    hosts = chain.from_iterable(hosts_of(group["names"], statements[0]) for group in groups)
    known = {name: place for place, name in enumerate(hosts)}
    sets = _node_sets(statements, groups)
    defaults: dict[str, str] = {}
    found: list[dict[str, Any]] = []
    for statement in (each for each in statements if each.key == "partitionname"):
        if statement.values["partitionname"].upper() == "DEFAULT":
            defaults |= statement.values
            continue
        merged = {**defaults, **statement.values}
        nodes = _nodes(merged.get("nodes", ""), known, sets, statement)
        if not nodes:
            report.add("dropped", "partitions without nodes", statement.place)
            continue
        name = statement.get("partitionname")
        found.append({"name": name, "nodes": nodes, **_attributes(merged, site, statement, report)})
    return found


def switches(statements: Sequence[texts.Statement]) -> list[dict[str, Any]]:
    """Return the switches of topology.conf; one statement may name several."""
    found = []
    for statement in (each for each in statements if each.key == "switchname"):
        for name in hosts_of(statement.get("switchname"), statement):
            switch: dict[str, Any] = {"name": name}
            if nodes := statement.get("nodes"):
                switch["nodes"] = compress(hosts_of(nodes, statement))
            if below := statement.get("switches"):
                switch["switches"] = hosts_of(below, statement)
            found.append(switch)
    return found


def _attributes(
    values: Mapping[str, str],
    site: Mapping[str, Any],
    statement: texts.Statement,
    report: ImportReport,
) -> dict[str, Any]:
    found = dict(site)
    for key, text in values.items():
        try:
            if key in READERS:
                name, read = READERS[key]
                found[name] = read(text)
            elif key in ("oversubscribe", "shared"):
                found["exclusive"] = text.upper().startswith("EXCLUSIVE")
            elif key == "preemptmode":
                found["preempt_mode"] = MODES.get(text.lower().partition(",")[0], "")
            elif key == "priority":  # before Slurm 16.05: tier and factor at once
                found["priority_tier"] = found["priority_job_factor"] = texts.whole(text)
            elif key not in ("partitionname", "nodes", "tresbillingweights", "lln"):
                named = statement.names.get(key, key)
                report.add("not modelled", f"PartitionName ... {named}", statement.place)
        except FieldError as error:
            raise statement.error(f"{statement.names.get(key, key)}: {error}") from None
    return {
        key: value
        for key, value in found.items()
        if value is not None and value != DEFAULTS.get(key, False)
    }


def _nodes(
    text: str,
    known: Mapping[str, int],
    sets: Mapping[str, list[str]],
    statement: texts.Statement,
) -> str:
    """Return the nodes of a partition as a host list, in the order of the platform."""
    text = text.strip()
    if text.upper() == "ALL":
        return "ALL"
    if not text or text == "(null)":
        return ""
    chosen: set[str] = set()
    for name in hosts_of(text, statement):
        members = sets.get(name, [name])
        unknown = [each for each in members if each not in known]
        if unknown:
            raise statement.error(f"there is no node or node set {unknown[0]!r}")
        chosen |= set(members)
    return compress(sorted(chosen, key=known.__getitem__))


def _node_sets(
    statements: Sequence[texts.Statement], groups: Sequence[Mapping[str, Any]]
) -> dict[str, list[str]]:
    """Return the nodes of each `NodeSet`, by feature or by name."""
    found: dict[str, list[str]] = {}
    for statement in (each for each in statements if each.key == "nodeset"):
        members: list[str] = []
        if nodes := statement.get("nodes"):
            members += hosts_of(nodes, statement)
        if feature := statement.get("feature"):
            for group in groups:
                if feature in group.get("features", ()):
                    members += hosts_of(group["names"], statement)
        found[statement.get("nodeset")] = members
    return found
