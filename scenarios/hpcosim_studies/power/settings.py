"""Clusters other than the study's own: what its sensitivity is tried on (section 5.5)."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from hpcosim_protocol import Platform


class Setting(NamedTuple):
    """A cluster, as it differs from that of a scenario; None: in this it does not.

    Attributes:
        name: for tables; empty: it does not differ.
        nodes: how many.
        switch_off_min: minutes to switch a node off.
        switch_on_min: and on.
        sleep_w: power of a node that sleeps or is being switched off.
        active_w: of one that is on, idle or computing, or is being switched on.
    """

    name: str = ""
    nodes: int | None = None
    switch_off_min: float | None = None
    switch_on_min: float | None = None
    sleep_w: float | None = None
    active_w: float | None = None


AS_IT_IS = Setting()

SWITCHING = "off/on"
POWER = "sleep/active"
NODES = "nodes"
SETTINGS: dict[str, tuple[Setting, ...]] = {
    SWITCHING: (
        Setting("off/on 30/45 min"),
        Setting("off/on 20/30 min", switch_off_min=20, switch_on_min=30),
        Setting("off/on 10/15 min", switch_off_min=10, switch_on_min=15),
    ),
    POWER: (
        Setting("sleep/active 9/190 W"),
        Setting("sleep/active 90/190 W", sleep_w=90, active_w=190),
        Setting("sleep/active 9/100 W", sleep_w=9, active_w=100),
    ),
    NODES: (
        Setting("128 nodes"),
        Setting("160 nodes", nodes=160),
        Setting("256 nodes", nodes=256),
    ),
}
"""What figure 17 varies, one at a time; the first of each is the study's own cluster, as it is.

The paper writes "switch-on/off times" of 30/45 and the like, but its nodes take 45 min to be
switched on and 30 min off (section 4.1), so its pairs are off/on. A node that is switched on draws
as an active one, one that is switched off as a sleeping one, as there.
"""


def changed(platform: Platform, setting: Setting) -> Platform:
    """Return a platform of one group of nodes as a setting has it.

    The group has power states and one processor a node, as in the study's scenarios.
    """
    (group,) = platform.nodes
    (processor,), states = group.processors, group.power_states
    assert states is not None
    if setting.nodes is not None:
        group = replace(group, count=setting.nodes)
    if setting.switch_off_min is not None:
        states = replace(states, switch_off_s=60.0 * setting.switch_off_min)
    if setting.switch_on_min is not None:
        states = replace(states, switch_on_s=60.0 * setting.switch_on_min)
    if setting.sleep_w is not None:
        states = replace(states, sleep_w=setting.sleep_w, switch_off_w=setting.sleep_w)
    if setting.active_w is not None:
        states = replace(states, switch_on_w=setting.active_w)
        processor = replace(processor, static_w=setting.active_w, dynamic_w=0.0, idle_fraction=1.0)
    group = replace(group, processors=(processor,), power_states=states)
    return replace(platform, nodes=(group,))
