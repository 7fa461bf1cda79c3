"""The nodes the oracle plans for: all alike, switched in known times, cheapest asleep."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hpcosim_protocol import NodeGroup, Platform, PowerStates
from hpcosim_scenarios.errors import OracleError


class EveryNode(NamedTuple):
    """What every node is like.

    Attributes:
        idle_w: power of a node that is on and computes nothing, W.
        states: how it is switched.
    """

    idle_w: float
    states: PowerStates


def every_node(platform: Platform) -> EveryNode:
    """Return what every node is like.

    Raises:
        OracleError: not all are alike, or they can't be switched, or not as the oracle needs it.
    """
    group = _only_group(platform)
    if group.power_states is None:
        raise OracleError("the oracle has nothing to switch: the nodes say no power_states")
    check_states(group.idle_w, group.power_states)
    return EveryNode(group.idle_w, group.power_states)


def check_states(idle_w: float, states: PowerStates) -> None:
    """Make sure that times of transitions are known, and that sleeping draws the least.

    Raises:
        OracleError: it is not so.
    """
    if states.switch_on_sd_s > 0.0 or states.switch_off_sd_s > 0.0:
        raise OracleError(
            "the oracle needs to know how long switching takes; "
            "switch_on_sd_s and switch_off_sd_s must be 0"
        )
    others_w = {"idle": idle_w}
    if states.switch_on_s > 0.0:
        others_w["switch_on_w"] = states.switch_on_w
    if states.switch_off_s > 0.0:
        others_w["switch_off_w"] = states.switch_off_w
    least = min(others_w, key=lambda state: others_w[state])
    if states.sleep_w > others_w[least]:
        raise OracleError(
            f"the oracle plans for nodes that draw the least asleep, "
            f"but sleep_w is {states.sleep_w} and {least} {others_w[least]}"
        )


def _only_group(platform: Platform) -> NodeGroup:
    kinds = [msgspec.structs.replace(group, count=1) for group in platform.nodes]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise OracleError(
                f"the oracle plans for nodes that are all alike, but those of "
                f"platform.nodes[{number}] are not like those of platform.nodes[0]"
            )
    return kinds[0]
