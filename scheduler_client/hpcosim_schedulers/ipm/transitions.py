"""The expected rest of the transitions of nodes."""

from __future__ import annotations

import numpy as np

from hpcosim_client.job import Floats
from hpcosim_client.view import View
from hpcosim_schedulers.power.watts import SWITCHING_OFF, SWITCHING_ON, codes_of


class Transitions:
    """The time for which each node is expected to go on switching on or off.

    A transition is expected to take its mean time. One that is late is expected to take the mean
    time once more from the call that first finds it late.

    Attributes:
        left_s: float64[nodes], at the last update, in seconds; 0: the node does not switch.
    """

    def __init__(self) -> None:
        self.left_s: Floats = np.zeros(0)
        self._since_s: Floats = np.zeros(0)

    def update(self, view: View) -> None:
        """Update `left_s` at a call, before its decisions."""
        nodes = view.nodes
        if not len(self._since_s):
            self._since_s = np.full(len(nodes.free), -np.inf)
        state = codes_of(nodes)
        switching = (state == SWITCHING_ON) | (state == SWITCHING_OFF)
        mean_s = np.where(state == SWITCHING_ON, nodes.switch_on_s, nodes.switch_off_s)
        self._since_s = np.maximum(self._since_s, nodes.power_since_s)
        late = switching & (view.now_s >= self._since_s + mean_s)
        self._since_s[late] = view.now_s
        self.left_s = np.where(switching, self._since_s + mean_s - view.now_s, 0.0)
