"""The multifactor priority of waiting jobs, calculated periodically as in Slurm."""

from __future__ import annotations

from bisect import insort
from collections.abc import Container

import numpy as np

from hpcosim_client.job import Floats, Ints, Job
from hpcosim_client.view import View
from hpcosim_protocol import Platform
from hpcosim_schedulers.slurm.charges import Charges
from hpcosim_schedulers.slurm.factors import ConstantFactors, Factors
from hpcosim_schedulers.slurm.settings import SiteSettings
from hpcosim_schedulers.slurm.tres import NO_REQUEST
from hpcosim_schedulers.slurm.waiting import RankedJob, WaitingTable

STALE = 0.9
"""Share of jobs that wait below which the others are removed from the order."""


class Priorities:
    """Priorities of waiting jobs by https://slurm.schedmd.com/priority_multifactor.html.

    A job gets its priority when it becomes eligible, with the fair-share factors of the last
    calculation. Every PriorityCalcPeriod, usage, fair-share and the priorities of all waiting jobs
    are calculated anew; between calculations they stay as they are.

    Call `update` first at every call of the policy, and have an alarm at `next_s` while jobs wait.

    Args:
        site: the settings.
        platform: the cluster.
        tres: names of TRES whose usage is counted beside billing, for limits.

    Attributes:
        charges: usage and fair-share.
    """

    def __init__(self, site: SiteSettings, platform: Platform, tres: tuple[str, ...] = ()) -> None:
        self._settings = site.priority
        self._flags = frozenset(site.priority.flags)
        self.charges = Charges(site, platform, tres)
        self._constant = ConstantFactors(
            site, platform, self.charges.associations, self.charges.tres_of
        )
        self._tiers = {each.name: each.priority_tier for each in platform.partitions}
        self._changes = site.priority.type == "multifactor" and bool(
            site.priority.weight_age or site.priority.weight_fair_share
        )  # whether priorities change while jobs wait
        self._table = WaitingTable()
        self._ordered: list[RankedJob] = []  # some of them may not wait any more
        self._listed: set[int] = set()  # numbers of the jobs in it

    @property
    def next_s(self) -> float:
        """Time of the next calculation, simulated seconds."""
        return self.charges.usage.next_s

    def update(self, view: View) -> None:
        """Apply the changes since the last call, and make the calculations that are due."""
        calculated = self.charges.update(view)
        for job in view.left:
            self._table.remove(job.job_id)
        for job in view.arrived:
            self._add(job, view.now_s)
        if calculated:
            self._forget_others(view)
            if self._changes:
                self._calculate(view.now_s)
                self._ordered = self._table.sorted([each[3] for each in self._ordered])

    def ordered(self, view: View) -> list[Job]:
        """Return the jobs of the queue, those that Slurm considers first at the beginning.

        By PriorityTier of their partitions, priority, and number.
        """
        queue = view.queue
        if len(self._ordered) > len(queue) / STALE:
            self._keep(queue)
        return [each[3] for each in self._ordered if each[2] in queue]

    def priority(self, job: Job, partition: str = "") -> int:
        """Return the priority of a waiting job.

        Args:
            job: a job of the queue.
            partition: one of its partitions; empty: the one with the greatest factor.
        """
        slot = self._table.slots[job.job_id]
        value = float(self._table.value[slot])
        if partition and len(job.partitions) > 1 and np.isnan(self._table.fixed[slot]):
            number = int(self._table.association[slot])
            association = None if number < 0 else number
            own = self._constant.of(job, association, partition).partition
            value += own - self._best(job, association).partition
        return max(int(value), 1)

    def since_s(self, job: Job) -> float:
        """Return when a waiting job began to age, simulated seconds; see `Priority.flags`."""
        return float(self._table.since_s[self._table.slots[job.job_id]])

    def factors(self, job: Job, now_s: float) -> Factors:
        """Return the weighted factors of a job at a time, as `sprio -l` shows them."""
        association = self.charges.association(job)
        factors = self._best(job, association)
        slot = self._table.slots.get(job.job_id)
        since_s = job.submit_s if slot is None else float(self._table.since_s[slot])
        share = 0.0 if association is None else float(self.charges.fair_share()[association])
        return factors._replace(
            age=float(self._age(np.array([since_s]), now_s)[0]),
            fair_share=self._settings.weight_fair_share * share,
        )

    def _add(self, job: Job, now_s: float) -> None:
        """Give a job that joins the queue, or whose request changed, its priority."""
        new = job.job_id not in self._table.slots
        slot, table = self._table.slot(job.job_id), self._table
        association = self.charges.association(job)
        table.association[slot] = -1 if association is None else association
        if new:
            table.since_s[slot] = self._ages_since_s(job, now_s)
        request = job.request or NO_REQUEST
        table.fixed[slot] = np.nan if request.priority is None else request.priority
        factors = self._best(job, association)
        names = self.charges.tres_of.partitions_of(job)
        table.tier[slot] = max(self._tiers.get(name, 1) for name in names)
        if self._settings.type == "basic":
            table.fixed[slot] = 1.0
        table.constant[slot] = sum(factors[:-1]) - factors.nice
        only = np.array([slot])
        table.calculate(
            only, self._age(table.since_s[only], now_s), self._share(only), only_up=False
        )
        if job.job_id in self._listed:
            self._ordered = [each for each in self._ordered if each[2] != job.job_id]
        self._listed.add(job.job_id)
        insort(self._ordered, (*table.rank(job.job_id), job))

    def _ages_since_s(self, job: Job, now_s: float) -> float:
        """Return when a job that joins the queue begins to age, simulated seconds.

        From the time at which it is eligible; with the priority flag `accrue_always`, from its
        submission ("Age Factor").
        """
        request = job.request or NO_REQUEST
        waited = request.begin_s is not None or request.dependencies or request.array_limit
        waited = waited or request.hold or job.runs
        return now_s if waited and "accrue_always" not in self._flags else job.submit_s

    def _calculate(self, now_s: float) -> None:
        """Calculate the priorities of all waiting jobs."""
        every = slice(None)
        ages = self._age(self._table.since_s, self.charges.usage.last_s)
        only_up = "incr_only" in self._flags
        self._table.calculate(every, ages, self._share(every), only_up=only_up)

    def _age(self, since_s: Floats, now_s: float) -> Floats:
        """Return the weighted age factors ("Age Factor")."""
        aged = np.clip((now_s - since_s) / self._settings.max_age_s, 0.0, 1.0)
        return self._settings.weight_age * aged

    def _share(self, slots: Ints | slice) -> Floats:
        """Return the weighted fair-share factors ("Fair-share Factor")."""
        weight = self._settings.weight_fair_share
        numbers = self._table.association[slots]
        if not weight:
            return np.zeros(len(numbers))
        return weight * np.where(numbers < 0, 0.0, self.charges.fair_share()[numbers])

    def _best(self, job: Job, association: int | None) -> Factors:
        """Return the constant factors of a job in its partition with the greatest factor."""
        names = self.charges.tres_of.partitions_of(job)
        return max((self._constant.of(job, association, each) for each in names), key=_partition)

    def _forget_others(self, view: View) -> None:
        """Remove the jobs that wait no more, without having run."""
        self._keep(view.queue)
        for job_id in self._table.slots.keys() - view.queue.keys():
            self._table.remove(job_id)

    def _keep(self, queue: Container[int]) -> None:
        """Keep only the jobs of the queue in the order."""
        self._ordered = [each for each in self._ordered if each[2] in queue]
        self._listed = {each[2] for each in self._ordered}


def _partition(factors: Factors) -> float:
    return factors.partition
