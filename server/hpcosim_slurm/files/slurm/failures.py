"""Nodes that slurm.conf states as down or drained, as the failures of a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpcosim_slurm.files.slurm.nodes import AWAY, hosts_of
from hpcosim_slurm.files.slurm.statements import Statement

KINDS: Mapping[str, str] = {
    "DOWN": "fail",
    **dict.fromkeys(("DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING"), "drain"),
}
"""Kind of the event at second 0 by state. A node in another state is up."""


def failures(
    statements: Sequence[Statement], groups: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the failures section; empty: all nodes are up.

    Args:
        statements: those of slurm.conf.
        groups: the node groups.

    Raises:
        InputError: a `DownNodes` line has a node that does not exist.
    """
    known = {name for each in groups for name in hosts_of(each["names"], statements[0])}
    events = [*_of_nodes(statements), *_of_down_nodes(statements, known)]
    return {"failures": {"events": events}} if events else {}


def _of_nodes(statements: Sequence[Statement]) -> Iterator[dict[str, Any]]:
    default = ""
    for statement in (each for each in statements if each.key == "nodename"):
        hosts, state = statement.values["nodename"], statement.values.get("state", default)
        if hosts.upper() == "DEFAULT":
            default = state
        elif state.upper() not in AWAY:
            yield from _event(hosts, state)


def _of_down_nodes(statements: Sequence[Statement], known: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the events of `DownNodes` lines, whose state is `DOWN` unless they state one."""
    for statement in (each for each in statements if each.key == "downnodes"):
        hosts = statement.values["downnodes"]
        for name in hosts_of(hosts, statement):
            if name not in known:
                raise statement.error(f"DownNodes: there is no node {name!r}")
        yield from _event(hosts, statement.get("state") or "DOWN")


def _event(hosts: str, state: str) -> Iterator[dict[str, Any]]:
    if kind := KINDS.get(state.upper()):
        yield {"at_s": 0, "nodes": hosts, "kind": kind}
