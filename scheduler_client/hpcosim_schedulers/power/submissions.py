"""The number of recent submissions."""

from __future__ import annotations

from collections import deque

from hpcosim_client.view import View

HOUR_S = 3600.0


class Submissions:
    """Counts submissions; `update` is called at every call of the policy.

    Attributes:
        count: number of jobs submitted so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last_hour_s: deque[float] = deque()  # times of submission

    def update(self, view: View) -> None:
        """Count the jobs that arrived."""
        for job in view.arrived:
            if job.order >= self.count:  # not a job that is requeued after a rejected start
                self.count = job.order + 1
                self._last_hour_s.append(job.submit_s)

    def in_last_hour(self, now_s: float) -> int:
        """Return the number of submissions after `now_s` - 3600 s. `now_s` must not decrease."""
        times_s = self._last_hour_s
        while times_s and times_s[0] <= now_s - HOUR_S:
            times_s.popleft()
        return len(times_s)
