"""How long jobs wait for the number of leaf switches that they prefer.

Sources: sbatch(1), `--switches`: a job remains pending until it finds an allocation on no more
switches, or its maximum time expires; slurm.conf(5), `SchedulerParameters`, `max_switch_wait`.
"""

from __future__ import annotations

import math

from hpcosim_client.view import View
from hpcosim_schedulers.slurm.clock import ROUNDING_S, SiteClock, whole_seconds


class SwitchWaits:
    """The times until which jobs wait for their preferred switches, from when they are eligible.

    Args:
        clock: the site's clock.
        most_s: greatest time, s; also that of jobs that state none (`max_switch_wait`).
    """

    def __init__(self, clock: SiteClock, most_s: float) -> None:
        self._clock, self._most_s = clock, most_s
        self._ends: dict[int, int] = {}
        self._now_s = -math.inf

    def note(self, view: View) -> None:
        """Note the time, the jobs that began to wait, and those that wait no more."""
        self._now_s = view.now_s
        if self._ends:
            for job in view.left:
                self._ends.pop(job.job_id, None)
        for job in view.arrived:
            if job.request is not None and job.request.switches:
                wait_s = min(job.request.switches_wait_s or math.inf, self._most_s)
                end = self._clock.second(view.now_s) + whole_seconds(wait_s)
                self._ends.setdefault(job.job_id, end)

    def waits(self, job_id: int) -> bool:
        """Return whether a job still waits for its switches."""
        end = self._ends.get(job_id)
        return end is not None and self._clock.second(self._now_s) < end

    def next_s(self, view: View) -> float:
        """Return when the next job gives up, simulated seconds; infinity: none waits."""
        if not self._ends:
            return math.inf
        self._ends = {each: end for each, end in self._ends.items() if each in view.queue}
        late_s = view.now_s + ROUNDING_S
        times = map(self._clock.simulated, self._ends.values())
        return min((at_s for at_s in times if at_s > late_s), default=math.inf)
