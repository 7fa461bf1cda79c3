"""How many jobs were submitted lately."""

from __future__ import annotations

from collections import deque

from hpcosim_client.view import View

HOUR_S = 3600.0


class Submissions:
    """Counts submissions; to be updated whenever the policy is called.

    Attributes:
        count: number of jobs heard of so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last_hour_s: deque[float] = deque()  # times of submission

    def update(self, view: View) -> None:
        """Take in the jobs that arrived."""
        for job in view.arrived:
            if job.order >= self.count:  # others return from a rejected start
                self.count = job.order + 1
                self._last_hour_s.append(job.submit_s)

    def in_last_hour(self, now_s: float) -> int:
        """Return how many jobs were submitted after `now_s` - 3600 s; `now_s` never decreases."""
        times_s = self._last_hour_s
        while times_s and times_s[0] <= now_s - HOUR_S:
            times_s.popleft()
        return len(times_s)
