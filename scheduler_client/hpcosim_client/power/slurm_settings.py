"""The settings of Slurm's power saving, as slurm.conf has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hpcosim_client.errors import PolicyError
from hpcosim_protocol import Platform

Seconds = Annotated[float, Meta(ge=0, le=1e12)]
WholeSeconds = Annotated[int, Meta(ge=0, le=1_000_000)]
PerMinute = Annotated[int, Meta(ge=0, le=60_000)]

NODE_SET = re.compile(r"\s*(\d{1,9})(?:-(\d{1,9}))?(?::(\d{1,9}))?\s*", re.ASCII)


class Slurm(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="slurm"):
    """Settings of `slurm`: those of slurm.conf, with their units.

    Attributes:
        suspend_time_s: SuspendTime. A node idle for longer is switched off.
        suspend_timeout_s: SuspendTimeout. A node told to switch off is given to no job until a
            scan finds that it was told longer ago; None: the `switch_off_s` of its group.
        resume_timeout_s: ResumeTimeout, the longest a node may take to boot; None: any time. It
            only refuses a platform on which nodes take longer: nothing here fails to boot.
        suspend_rate_per_min: SuspendRate; 0: no limit.
        resume_rate_per_min: ResumeRate; 0: no limit.
        suspend_exc_nodes: SuspendExcNodes, sets of node numbers with commas between them. `20` and
            `0-9` are never switched off. Of `0-9:4` the four lowest-numbered that are on and idle
            just then are not. In YAML it stands in quotes: there 20:4 is the number 1204.
        suspend_exc_states: SuspendExcStates. With PLANNED, nodes that the job scheduler reserves
            for a job (`PowerExchange.planned`) are not switched off.
        power_save_interval_s, power_save_min_interval_s: as in SlurmctldParameters.
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
        """Make sure that they fit a platform.

        Raises:
            PolicyError: its nodes take longer to be switched than these allow, or there are not
                as many as are excluded.
        """
        for states in (group.power_states for group in platform.nodes):
            if states is not None:
                _check_longer("suspend_timeout_s", self.suspend_timeout_s, states, "switch_off_s")
                _check_longer("resume_timeout_s", self.resume_timeout_s, states, "switch_on_s")
        count = sum(group.count for group in platform.nodes)
        for _, last, _ in node_sets(self.suspend_exc_nodes):
            if last >= count:
                raise PolicyError(
                    f"suspend_exc_nodes: there is no node {last}; they go from 0 to {count - 1}"
                )


def _check_longer(name: str, given_s: float | None, states: object, least: str) -> None:
    least_s = float(getattr(states, least))
    if given_s is not None and given_s < least_s:
        raise PolicyError(
            f"{name} is {given_s}, but a node group's {least} is {least_s}: Slurm would not wait "
            f"for its nodes; say {least_s} or more, or less as {least}"
        )


def node_sets(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the sets of `suspend_exc_nodes`: first node, last node, how many to keep.

    Raises:
        ValueError: a set is none.
    """
    for part in text.split(",") if text.strip() else ():
        match = NODE_SET.fullmatch(part)
        if match is None:
            raise ValueError(f"suspend_exc_nodes: {part!r} is no set of nodes such as 20 or 0-9:4")
        first, last = int(match[1]), int(match[2] or match[1])
        count = last - first + 1 if match[3] is None else int(match[3])
        if last < first or count < 1:
            raise ValueError(f"suspend_exc_nodes: {part.strip()!r} is a set of no nodes at all")
        yield first, last, count
