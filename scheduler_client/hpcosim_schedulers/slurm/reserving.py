"""Which waiting jobs hold resources back from jobs of lower priority.

Sources: slurm.conf(5), `SchedulerParameters`, `bf_min_age_reserve` and `bf_min_prio_reserve`;
sacctmgr(1), "SPECIFICATIONS FOR QOS", `MinPrioThreshold` and the flag `NoReserve`.
"""

from __future__ import annotations

from hpcosim_schedulers.slurm.candidate import Candidate
from hpcosim_schedulers.slurm.multifactor import Priorities
from hpcosim_schedulers.slurm.settings import SiteSettings


class ReservingJobs:
    """Tells which jobs block their partition in the main scheduler and get planned starts.

    A job that does neither is passed over as long as it lacks resources. Both schedulers ask for
    the least waiting time and the least priority. A QOS with `no_reserve` concerns the backfill
    scheduler alone.

    Args:
        site: the settings.
        priorities: the priorities of waiting jobs.
    """

    def __init__(self, site: SiteSettings, priorities: Priorities) -> None:
        self._qos, self._priorities = site.qos, priorities
        self._least_wait_s = site.scheduler.bf_min_age_reserve_s
        self._least_priority = site.scheduler.bf_min_prio_reserve
        self._thresholds = any(qos.min_prio_threshold for qos in site.qos.values())
        self._any_no_reserve = any("no_reserve" in qos.flags for qos in site.qos.values())

    @property
    def depends_on_priority(self) -> bool:
        """Whether a change of priorities may change which jobs reserve."""
        return bool(self._least_priority or self._thresholds)

    def blocks(self, candidate: Candidate, now_s: float) -> bool:
        """Return whether a job that lacks resources blocks its partition in the main scheduler."""
        job = candidate.job
        if self._least_wait_s and now_s - self._priorities.since_s(job) < self._least_wait_s:
            return False
        if not self.depends_on_priority:
            return True
        least = self._threshold(candidate)
        return not least or self._priorities.priority(job, candidate.partition) >= least

    def plans(self, candidate: Candidate, now_s: float) -> bool:
        """Return whether the backfill scheduler reserves nodes for a job."""
        if self._any_no_reserve:
            own = self._qos.get(self._priorities.charges.own_qos(candidate.job))
            if own is not None and "no_reserve" in own.flags:
                return False
        return self.blocks(candidate, now_s)

    def _threshold(self, candidate: Candidate) -> int:
        """Return the least priority: that of the first QOS that has one, or that of the cluster."""
        names = self._priorities.charges.qos_of(candidate.job, candidate.partition)
        stated = (self._qos[name].min_prio_threshold for name in names)
        return next(filter(None, stated), self._least_priority)
