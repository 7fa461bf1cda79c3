"""The settings of Slurm's power saving, those of slurm.conf."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from hpcosim_client.errors import PolicyError
from hpcosim_protocol import HostListError, Platform
from hpcosim_protocol.hosts import NodeNames, expand

Seconds = Annotated[float, Meta(ge=0, le=1e12)]
WholeSeconds = Annotated[int, Meta(ge=0, le=1_000_000)]
PerMinute = Annotated[int, Meta(ge=0, le=60_000)]

NODE_SET = re.compile(r"\s*([^\s:;]+)(?::(\d{1,9}))?\s*", re.ASCII)
NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
OUTER_COMMA = re.compile(r",(?![^\[\]]*\])")


class Slurm(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="slurm"):
    """Settings of Slurm's power saving, with the names and meanings of slurm.conf.

    Attributes:
        suspend_time_s: SuspendTime, in seconds, >= 0. A node idle for longer is switched off.
        suspend_timeout_s: SuspendTimeout, in seconds, >= 0. A node that is switched off is not
            allocated until a scan more than this time later; None: the `switch_off_s` of its group.
        resume_timeout_s: ResumeTimeout, in seconds, >= 0: the longest boot time; None: any. A
            platform whose nodes take longer is an error; no boot fails in a simulation.
        suspend_rate_per_min: SuspendRate, nodes per minute; 0: no limit.
        resume_rate_per_min: ResumeRate, nodes per minute; 0: no limit.
        suspend_exc_nodes: SuspendExcNodes, sets of nodes separated by commas: host lists such as
            `hm[01-04]`, node numbers such as `20` and `0-9`. Nodes of a set are never switched off;
            of `hm[01-04]:2` the two lowest-numbered idle nodes that are on stay on. Quote the value
            in YAML, where 20:4 is the number 1204.
        suspend_exc_states: SuspendExcStates. With `PLANNED`, nodes that the job scheduler has
            reserved (`PowerExchange.planned`) are not switched off.
        power_save_interval_s: power_save_interval of SlurmctldParameters, in seconds, >= 0.
        power_save_min_interval_s: power_save_min_interval of SlurmctldParameters, in seconds, >= 0.
    """

    suspend_time_s: Seconds
    suspend_timeout_s: Seconds | None = None
    resume_timeout_s: Seconds | None = None
    suspend_rate_per_min: PerMinute = 60
    resume_rate_per_min: PerMinute = 300
    suspend_exc_nodes: str = ""
    suspend_exc_states: Literal["", "PLANNED"] = ""
    power_save_interval_s: WholeSeconds = 10
    power_save_min_interval_s: WholeSeconds = 0

    def __post_init__(self) -> None:
        list(node_sets(self.suspend_exc_nodes))

    def check(self, platform: Platform) -> None:
        """Check that the settings fit a platform.

        Raises:
            PolicyError: the nodes take longer to switch than the settings allow, or an excluded
                node does not exist.
        """
        for states in (group.power_states for group in platform.nodes):
            if states is not None:
                _check_longer("suspend_timeout_s", self.suspend_timeout_s, states, "switch_off_s")
                _check_longer("resume_timeout_s", self.resume_timeout_s, states, "switch_on_s")
        self.excluded(platform)

    def excluded(self, platform: Platform) -> list[tuple[list[int], int]]:
        """Return the nodes of each set of `suspend_exc_nodes`, and how many of them stay on.

        Raises:
            PolicyError: a node does not exist.
        """
        sets = list(node_sets(self.suspend_exc_nodes))
        names = NodeNames(platform) if sets else None
        found = [_nodes_of(each, platform.node_count, names) for each in sets]
        return [(nodes, each.kept or len(nodes)) for nodes, each in zip(found, sets, strict=True)]


def _check_longer(name: str, given_s: float | None, states: object, least: str) -> None:
    least_s = float(getattr(states, least))
    if given_s is not None and given_s < least_s:
        raise PolicyError(
            f"{name}: expected at least {least_s}, the {least} of a node group, got {given_s}: "
            "Slurm would not wait for its nodes"
        )


class NodeSet(NamedTuple):
    """A set of `suspend_exc_nodes`.

    Attributes:
        hosts: a host list; empty: the nodes have numbers.
        first, last: node numbers, if there is no host list.
        kept: number of nodes to keep on; None: all.
    """

    hosts: str
    first: int
    last: int
    kept: int | None


def node_sets(text: str) -> Iterator[NodeSet]:
    """Yield the sets of `suspend_exc_nodes`.

    Raises:
        ValueError: a set is invalid.
    """
    for part in OUTER_COMMA.split(text) if text.strip() else ():
        match = NODE_SET.fullmatch(part)
        if match is None:
            raise ValueError(
                "suspend_exc_nodes: expected sets such as 20, 0-9:4 or hm[01-04]:2, "
                f"got {part.strip()!r}"
            )
        numbers = NUMBERS.fullmatch(match[1])
        if numbers is None:
            hosts, first, size = match[1], 0, len(_expanded(match[1]))
        else:
            hosts, first = "", int(numbers[1])
            size = int(numbers[2] or numbers[1]) - first + 1
        kept = None if match[2] is None else int(match[2])
        if size < 1 or kept == 0:
            raise ValueError(f"suspend_exc_nodes: the set {part.strip()!r} is empty")
        yield NodeSet(hosts, first, first + size - 1, kept)


def _expanded(hosts: str) -> list[str]:
    try:
        return expand(hosts)
    except HostListError as error:
        raise ValueError(f"suspend_exc_nodes: {error}") from None


def _nodes_of(nodes: NodeSet, total: int, names: NodeNames | None) -> list[int]:
    if nodes.hosts and names is not None:
        try:
            return sorted(set(names.numbers(nodes.hosts)))
        except HostListError as error:
            raise PolicyError(f"suspend_exc_nodes: {error}") from None
    if nodes.last >= total:
        raise PolicyError(
            f"suspend_exc_nodes: expected node numbers from 0 to {total - 1}, got {nodes.last}"
        )
    return list(range(nodes.first, nodes.last + 1))
