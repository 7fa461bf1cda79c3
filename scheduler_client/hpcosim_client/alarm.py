"""An alarm of one policy."""

from __future__ import annotations

import math

from hpcosim_client.view import View


class PolicyAlarm:
    """An alarm that no other policy on the same view shares.

    Its number is allocated when it is first set. A policy has one `PolicyAlarm` for each alarm
    that it may have set at the same time, for one simulation.
    """

    def __init__(self) -> None:
        self._number: int | None = None

    def set(self, view: View, at_s: float) -> None:
        """Ask to be woken at a simulated second, instead of when the alarm was set for."""
        if self._number is None:
            self._number = view.new_alarm()
        view.set_alarm(at_s, self._number)

    def set_or_cancel(self, view: View, at_s: float) -> None:
        """Ask to be woken at a simulated second; infinity: never.

        No decision is made where the alarm is as it should be.
        """
        if at_s == math.inf:
            self.cancel(view)
        elif self._number is None or at_s != view.pending_alarms.get(self._number):
            self.set(view, at_s)

    def cancel(self, view: View) -> None:
        """Ask not to be woken, if the alarm is set."""
        if self._number is not None and self._number in view.pending_alarms:
            view.cancel_alarm(self._number)
