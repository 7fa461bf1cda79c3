"""Alarms of policies that are combined."""

from __future__ import annotations

import math

from hpcosim_client.view import View


class PolicyAlarm:
    """An alarm with a number of its own, for one simulation.

    The number is allocated by `View.new_alarm` when the alarm is first set. A policy that needs
    several alarms at the same time has a `PolicyAlarm` for each.
    """

    def __init__(self) -> None:
        self._number: int | None = None

    def set(self, view: View, at_s: float) -> None:
        """Set the alarm to a simulated second; replaces its earlier setting."""
        if self._number is None:
            self._number = view.new_alarm()
        view.set_alarm(at_s, self._number)

    def set_or_cancel(self, view: View, at_s: float) -> None:
        """Set the alarm to a simulated second, or cancel it if that is infinity.

        No decision is sent if the alarm is already set to that second.
        """
        if at_s == math.inf:
            self.cancel(view)
        elif self._number is None or at_s != view.pending_alarms.get(self._number):
            self.set(view, at_s)

    def cancel(self, view: View) -> None:
        """Cancel the alarm if it is set."""
        if self._number is not None and self._number in view.pending_alarms:
            view.cancel_alarm(self._number)
