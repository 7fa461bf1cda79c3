"""Switching decisions for all nodes at fixed intervals."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.view import View
from hpcosim_schedulers.power.account import Account, listen
from hpcosim_schedulers.power.features import action_mask
from hpcosim_schedulers.power.watts import ON, SLEEPING

Actions = NDArray[np.int64]
"""int64[nodes]; 0: off, 1: on."""


class Periodic:
    """Decisions at fixed intervals, and the account that they are based on.

    The first decision is due at the first call of `due`, the next one `interval_s` after each.

    Args:
        interval_s: interval between two decisions, simulated seconds.

    Attributes:
        account: the account; set by the first call of `due`.
    """

    account: Account

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self._next_s = -math.inf

    def due(self, view: View) -> bool:
        """Update the account, and return whether a decision is due.

        It is called at every event, after the job scheduler.
        """
        if not hasattr(self, "account"):
            self.account = Account(view.platform)
        self.account.update(view)
        listen(view)
        return view.now_s >= self._next_s

    def decide(self, view: View, actions: Actions) -> float:
        """Switch nodes.

        Args:
            view: the view of the last call of `due`.
            actions: int64[nodes], 0: off, 1: on; invalid actions are ignored.

        Returns:
            The simulated second at which the next decision is due.
        """
        mask = action_mask(view, self.account)
        chosen = mask[np.arange(len(actions)), actions]
        state = self.account.state
        for node in np.flatnonzero(chosen & (actions == 0) & (state == ON)).tolist():
            view.set_node_power(node, on=False)
        for node in np.flatnonzero(chosen & (actions == 1) & (state == SLEEPING)).tolist():
            view.set_node_power(node, on=True)
        self._next_s = view.now_s + self.interval_s
        return self._next_s
