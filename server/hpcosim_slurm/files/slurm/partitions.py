"""Partitions, switches and licences of a Slurm cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from hpcosim_protocol.hosts import compress
from hpcosim_slurm.files.errors import FieldError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm.nodes import hosts_of
from hpcosim_slurm.files.slurm.statements import Statement
from hpcosim_slurm.files.slurm.values import names, optional_seconds, optional_whole, truth, whole

READERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "default": ("default", truth),
    "state": ("state", str.lower),
    "prioritytier": ("priority_tier", whole),
    "priorityjobfactor": ("priority_job_factor", whole),
    "maxtime": ("max_time_s", optional_seconds),
    "defaulttime": ("default_time_s", optional_seconds),
    "minnodes": ("min_nodes", optional_whole),
    "maxnodes": ("max_nodes", optional_whole),
    "maxcpuspernode": ("max_cores_per_node", optional_whole),
    "defmempercpu": ("default_memory_per_core_mb", optional_whole),
    "maxmempercpu": ("max_memory_per_core_mb", optional_whole),
    "allowaccounts": ("allow_accounts", names),
    "denyaccounts": ("deny_accounts", names),
    "allowgroups": ("allow_groups", names),
    "allowqos": ("allow_qos", names),
    "denyqos": ("deny_qos", names),
    "qos": ("qos", lambda text: "" if text.upper() == "N/A" else text),
    "gracetime": ("grace_time_s", lambda text: float(whole(text))),
}
"""Attribute of a partition and its conversion, by key of slurm.conf."""

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


def partitions(
    statements: Sequence[Statement],
    groups: Sequence[Mapping[str, Any]],
    site: Mapping[str, Any],
    report: ImportReport,
) -> list[dict[str, Any]]:
    """Return the partitions.

    Args:
        statements: those of slurm.conf.
        groups: the node groups.
        site: values of all partitions that do not state them, by attribute.
        report: lists the keys that are not modelled.

    Raises:
        InputError: a line is invalid or names an unknown node.
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


def switches(statements: Sequence[Statement]) -> list[dict[str, Any]]:
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
    values: Mapping[str, str], site: Mapping[str, Any], statement: Statement, report: ImportReport
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
                found["priority_tier"] = found["priority_job_factor"] = whole(text)
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
    statement: Statement,
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
    statements: Sequence[Statement], groups: Sequence[Mapping[str, Any]]
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
