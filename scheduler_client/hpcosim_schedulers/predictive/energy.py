"""What it costs to hold nodes, and to switch them."""

from __future__ import annotations

import numpy as np

from hpcosim_client.arrays import Floats, Ints
from hpcosim_client.view import View
from hpcosim_schedulers.power.watts import ON, SLEEPING, SWITCHING_OFF, SWITCHING_ON, Watts
from hpcosim_schedulers.predictive.costs import Spares

HOLDS = 8
"""Number of times for which idle nodes may be held."""
FIRST_HOLD = 0.125
"""The first of them, relative to `NodeEnergy.break_even_s`."""
LEAST_EVEN_S = 1.0
"""Least `NodeEnergy.break_even_s`, for nodes that switch at once and for nothing, s."""
LONGEST_S = 10_800.0
"""Upper bound of the last, or twice `NodeEnergy.break_even_s` if that is longer, s."""


class NodeEnergy:
    """What it costs to hold nodes, and to switch them.

    Args:
        view: the view.
        price_w: price of waiting, J/s.

    Attributes:
        break_even_s: mean over nodes of the larger of the boot time and of the idle time that costs
            as much as switching off and on, s.
        holds_s: float64[8], times for which nodes may be held, ascending, s. The last is the time
            after which a node has cost more than a cycle and one job's wait for its boot, within
            bounds.
    """

    def __init__(self, view: View, price_w: float) -> None:
        nodes, power_w = view.nodes, Watts(view.platform).by_state
        extra_w = power_w - power_w[:, [SLEEPING]]
        self._boot_s = nodes.switch_on_s
        self._hold_w: Floats = extra_w[:, ON]
        self._cycle_j: Floats = (
            nodes.switch_on_s * extra_w[:, SWITCHING_ON]
            + nodes.switch_off_s * extra_w[:, SWITCHING_OFF]
        )
        can = nodes.can_sleep
        even_s = self._cycle_j[can] / np.maximum(self._hold_w[can], 1e-9)
        longer_s = np.maximum(self._boot_s[can], even_s)
        self.break_even_s = max(float(longer_s.mean()) if can.any() else 0.0, LEAST_EVEN_S)
        self.holds_s: Floats = self._holds_s(price_w)

    def spares(self, order: Ints, idle: int, booting: int) -> Spares:
        """Return the spare nodes in an order, the first of which are idle and booting."""
        return Spares(idle, booting, self._hold_w[order], self._cycle_j[order], self._boot_s[order])

    def _holds_s(self, price_w: float) -> Floats:
        worth_j = self._cycle_j + price_w * self._boot_s
        worth_s = float((worth_j / np.maximum(self._hold_w, 1e-9)).mean())
        least_s = 2.0 * self.break_even_s
        longest_s = min(max(worth_s, least_s), max(LONGEST_S, least_s))
        return np.geomspace(FIRST_HOLD * self.break_even_s, longest_s, HOLDS)
