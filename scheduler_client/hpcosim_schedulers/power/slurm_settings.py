"""The settings of Slurm's power saving, those of slurm.conf."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from hpcosim_client.errors import PolicyError
from hpcosim_protocol import Platform
from hpcosim_schedulers.power.kept_nodes import kept_on, node_sets

Seconds = Annotated[float, Meta(ge=0, le=1e12)]
WholeSeconds = Annotated[int, Meta(ge=0, le=1_000_000)]
PerMinute = Annotated[int, Meta(ge=0, le=60_000)]


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
        list(node_sets(self.suspend_exc_nodes, "suspend_exc_nodes"))

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
        kept_on(self.suspend_exc_nodes, "suspend_exc_nodes", platform)


def _check_longer(name: str, given_s: float | None, states: object, least: str) -> None:
    least_s = float(getattr(states, least))
    if given_s is not None and given_s < least_s:
        raise PolicyError(
            f"{name}: expected at least {least_s}, the {least} of a node group, got {given_s}: "
            "Slurm would not wait for its nodes"
        )
