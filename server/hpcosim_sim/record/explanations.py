"""Why jobs waited, as the scheduler said."""

from __future__ import annotations

import math
from array import array

MAX_EXPLANATIONS = 10_000_000
"""Maximum number of recorded explanations of a session."""

MAX_REASONS = 1000
"""Maximum number of different reasons in the explanations of a session."""


class Explanations:
    """Columns of the explanations of a run, in chronological order.

    Attributes:
        row: row of the job in the recording.
        time_s: simulation time of the explanation, s.
        reason: index into `reasons`.
        expected_start_s: expected start of the job, simulated s; NaN: unknown.
        reasons: the different reasons, in order of their first use.
        dropped: number of explanations that exceed `MAX_EXPLANATIONS` or `MAX_REASONS`.
    """

    def __init__(self) -> None:
        self.row = array("q")
        self.time_s = array("d")
        self.reason = array("H")
        self.expected_start_s = array("d")
        self.reasons: list[str] = []
        self.dropped = 0
        self._codes: dict[str, int] = {}
        self._last = array("q")  # index of the last explanation of each job, by row; -1: none

    def __len__(self) -> int:
        return len(self.row)

    def add(self, row: int, now_s: float, reason: str, expected_start_s: float | None) -> None:
        """Record an explanation, unless it equals the last one of the job.

        Args:
            row: row of the job.
            now_s: simulation time, s.
            reason: name of the reason.
            expected_start_s: expected start of the job, simulated s; None: unknown.
        """
        expected_s = math.nan if expected_start_s is None else expected_start_s
        if self._repeats(row, reason, expected_s):
            return
        code = self._codes.get(reason, len(self.reasons))
        if code >= MAX_REASONS or len(self.row) >= MAX_EXPLANATIONS:
            self.dropped += 1
            return
        if code == len(self.reasons):
            self._codes[reason] = code
            self.reasons.append(reason)
        self._last[row] = len(self.row)
        self.row.append(row)
        self.time_s.append(now_s)
        self.reason.append(code)
        self.expected_start_s.append(expected_s)

    def last(self, row: int) -> str:
        """Return the last reason of a job, by row; empty: none is recorded."""
        last = self._last[row] if row < len(self._last) else -1
        return self.reasons[self.reason[last]] if last >= 0 else ""

    def warnings(self) -> list[str]:
        """Return the warning about explanations that were not recorded, if there are any."""
        if not self.dropped:
            return []
        return [
            f"{self.dropped} explanations of the scheduler were not recorded; a session has at "
            f"most {MAX_EXPLANATIONS} of them with {MAX_REASONS} different reasons"
        ]

    def _repeats(self, row: int, reason: str, expected_s: float) -> bool:
        if row >= len(self._last):
            self._last.extend([-1] * (row + 1 - len(self._last)))
        last = self._last[row]
        if last < 0 or self.reasons[self.reason[last]] != reason:
            return False
        before_s = self.expected_start_s[last]
        return before_s == expected_s or (math.isnan(before_s) and math.isnan(expected_s))
