"""Checks of the nodes that the oracle plans for."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hpcosim_protocol import NodeGroup, Platform, PowerStates
from hpcosim_scenarios.errors import OracleError


class EveryNode(NamedTuple):
    """The properties that all nodes share.

    Attributes:
        idle_w: power of a node that is on without jobs, W.
        states: power and times of sleeping and switching.
    """

    idle_w: float
    states: PowerStates


def every_node(platform: Platform) -> EveryNode:
    """Return the properties that all nodes share.

    Raises:
        OracleError: nodes differ, cannot be switched, or fail `check_states`.
    """
    group = _only_group(platform)
    if group.power_states is None:
        raise OracleError("the oracle switches nodes; add power_states to the node group")
    check_states(group.idle_w, group.power_states)
    return EveryNode(group.idle_w, group.power_states)


def check_states(idle_w: float, states: PowerStates) -> None:
    """Check that switching times are not random, and that no state draws less than sleeping.

    Raises:
        OracleError: a check failed.
    """
    if states.switch_on_sd_s > 0.0 or states.switch_off_sd_s > 0.0:
        raise OracleError(
            "the oracle needs fixed switching times; set switch_on_sd_s and switch_off_sd_s to 0"
        )
    others_w = {"idle": idle_w}
    if states.switch_on_s > 0.0:
        others_w["switch_on_w"] = states.switch_on_w
    if states.switch_off_s > 0.0:
        others_w["switch_off_w"] = states.switch_off_w
    least = min(others_w, key=lambda state: others_w[state])
    if states.sleep_w > others_w[least]:
        raise OracleError(
            f"the oracle needs sleep_w to be the lowest power of a node; "
            f"sleep_w is {states.sleep_w} W, {least} is {others_w[least]} W"
        )


def _only_group(platform: Platform) -> NodeGroup:
    kinds = [msgspec.structs.replace(group, count=1) for group in platform.nodes]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise OracleError(
                f"the oracle plans for equal nodes; platform.nodes[{number}] differs from "
                f"platform.nodes[0]"
            )
    return kinds[0]
