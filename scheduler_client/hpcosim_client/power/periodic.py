"""Decisions for all nodes at once, at fixed intervals: what a learned manager is made of."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.power.account import ON, SLEEPING, Account, listen
from hpcosim_client.power.features import action_mask
from hpcosim_client.view import View

Actions = NDArray[np.int64]
"""int64[nodes]: 0: be off, 1: be on."""


class Periodic:
    """The times of decisions, and the account they are taken on.

    The first decision is due when it is first asked, the next `interval_s` after each.

    Args:
        interval_s: seconds between two decisions.

    Attributes:
        account: the account; it exists from the first `due` on.
    """

    account: Account

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self._next_s = -math.inf

    def due(self, view: View) -> bool:
        """Bring the account up to date, and return whether a decision is due.

        To be called at every event, after the job scheduler has decided.
        """
        if not hasattr(self, "account"):
            self.account = Account(view.platform)
        self.account.update(view)
        listen(view)
        return view.now_s >= self._next_s

    def decide(self, view: View, actions: Actions) -> float:
        """Switch nodes.

        Args:
            view: the view that `due` was asked about.
            actions: int64[nodes], 0: be off, 1: be on; impossible actions are ignored.

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
