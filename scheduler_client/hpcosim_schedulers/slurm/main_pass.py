"""The pass of the main scheduler, and which waiting jobs hold resources back from others.

Sources: slurm.conf(5), `SchedulerParameters`, `bf_min_age_reserve` and `bf_min_prio_reserve`;
sacctmgr(1), "SPECIFICATIONS FOR QOS", `MinPrioThreshold` and the flag `NoReserve`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hpcosim_schedulers.slurm.candidate import Candidate, set_of_mask
from hpcosim_schedulers.slurm.future import Future
from hpcosim_schedulers.slurm.multifactor import Priorities
from hpcosim_schedulers.slurm.passes import PassContext
from hpcosim_schedulers.slurm.settings import SiteSettings

# A pass of the main scheduler: jobs start strictly by priority.


@dataclass(frozen=True, slots=True)
class MainLimits:
    """Limits of a pass.

    Attributes:
        jobs: maximum number of jobs considered; 0: no limit.
        jobs_of_partition: the same for each partition.
        starts: maximum number of jobs started; 0: no limit.
        ends_at_first: whether the cluster has no partitions: the first job that does not fit ends
            the pass.
    """

    jobs: int = 0
    jobs_of_partition: int = 0
    starts: int = 0
    ends_at_first: bool = False


def main_pass(
    queue: Iterable[Candidate], context: PassContext, empty: Future, limits: MainLimits
) -> list[Candidate]:
    """Start jobs by priority until each partition has a job that does not fit.

    Args:
        queue: waiting jobs by priority. A job in several partitions comes several times.
        context: the cluster and the rules of the site.
        empty: the resources if no job ran. A job that does not fit there either, because nodes are
            down or reserved, does not block its partition.
        limits: limits of the pass.

    Returns:
        The jobs at which the pass stopped, one of each partition.
    """
    free, available = context.future(), context.available
    started: set[int] = set()
    blocked: dict[str, Candidate] = {}
    tested: Counter[str] = Counter()
    for number, candidate in enumerate(queue):
        partition = candidate.partition
        if candidate.job.job_id in started or partition in blocked:
            continue
        if 0 < limits.jobs <= number or 0 < limits.starts <= len(started):
            break
        if context.held(candidate):
            blocks = context.stops(candidate)
        else:
            tested[partition] += 1
            if 0 < limits.jobs_of_partition < tested[partition]:
                continue
            permitted = context.permitted_now(candidate)
            found = free.find(candidate, permitted & available)
            if found is not None and context.start(candidate, found):
                started.add(candidate.job.job_id)
                free = context.future()
            blocks = found is None and empty.fits(candidate, permitted & context.available)
            if blocks:
                context.preempt(candidate, permitted & available)
                blocks = context.reserves(candidate)
        if blocks:
            blocked[partition] = candidate
            if limits.ends_at_first:
                break
            # Jobs of other partitions must not take the nodes that this one waits for.
            for choice in candidate.choices:
                available &= ~set_of_mask(choice.nodes)
    return list(blocked.values())


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
