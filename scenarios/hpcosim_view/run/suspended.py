"""Periods that a reader returned as suspended, and whose jobs were requeued afterwards."""

from __future__ import annotations

import math

from hpcosim_sim.record.recording import Recording
from hpcosim_view.run.periods import SUSPENDED


class SuspendedPeriods:
    """The periods that were returned as suspended and may still be requeued."""

    def __init__(self) -> None:
        self._periods: list[int] = []

    def requeued(self, of: Recording) -> list[int]:
        """Return the periods whose jobs were requeued since the last call; they are forgotten.

        Periods are also forgotten whose jobs were resumed or are over. The time of a call is
        proportional to the number of jobs that were suspended at the last call.
        """
        found = [period for period in self._periods if of.periods.why[period] != SUSPENDED]
        self._periods = [period for period in self._periods if _is_suspended(of, period)]
        return found

    def add(self, periods: list[int]) -> None:
        """Add periods that are returned as suspended."""
        self._periods += periods


def _is_suspended(of: Recording, period: int) -> bool:
    row = of.periods.row[period]
    is_last = of.last_period[row] == period and math.isnan(of.end_s[row])
    return is_last and of.periods.why[period] == SUSPENDED
