"""The power of nodes without a job, by power state."""

from __future__ import annotations

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_client.nodes import NodePool
from hpcosim_protocol import NodeGroup, Platform, PowerState

# In the order of a node's way from asleep to on.
POWER_CODES: dict[PowerState, int] = {
    "sleeping": 0,
    "switching_off": 1,
    "switching_on": 2,
    "on": 3,
}
SLEEPING, SWITCHING_OFF, SWITCHING_ON, ON = range(4)


class Watts:
    """The power of every node without a job.

    Attributes:
        by_state: float64[nodes, 4], power by `POWER_CODES`, in W; 0 in the states that a node
            without power states never has.
    """

    def __init__(self, platform: Platform) -> None:
        groups, counts = platform.nodes, [group.count for group in platform.nodes]
        self.by_state: Floats = np.repeat([_of_group(group) for group in groups], counts, axis=0)
        self._every = np.arange(len(self.by_state))

    def in_state(self, state: Ints) -> Floats:
        """Return float64[nodes], the power of each node in a state, in W.

        Args:
            state: int64[nodes], `POWER_CODES`.
        """
        found: Floats = self.by_state[self._every, state]
        return found


def codes_of(nodes: NodePool) -> Ints:
    """Return int64[nodes]: the `POWER_CODES` of the nodes, decisions included."""
    codes = map(POWER_CODES.__getitem__, nodes.power)
    return np.fromiter(codes, np.int64, len(nodes.power))


def _of_group(group: NodeGroup) -> list[float]:
    states = group.power_states
    if states is None:
        return [0.0, 0.0, 0.0, group.idle_w]
    return [states.sleep_w, states.switch_off_w, states.switch_on_w, group.idle_w]
