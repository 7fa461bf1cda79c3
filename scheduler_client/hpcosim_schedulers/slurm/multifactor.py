"""The multifactor priority of waiting jobs, calculated periodically as in Slurm."""

from __future__ import annotations

from bisect import insort
from collections.abc import Container
from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Floats, Ints, Job
from hpcosim_client.view import View
from hpcosim_protocol import Platform
from hpcosim_schedulers.slurm.accounts import Associations
from hpcosim_schedulers.slurm.charges import Charges
from hpcosim_schedulers.slurm.settings import SiteSettings
from hpcosim_schedulers.slurm.tres import NO_REQUEST, TresOf

# Factors of the multifactor priority of a job, except age and fair-share, which change.

HIGHEST = 2**32 - 1
"""Greatest priority."""


class Factors(NamedTuple):
    """The weighted factors of a priority, as `sprio -l` shows them.

    Attributes:
        age, assoc, fair_share, job_size, partition, qos, tres: factor times weight.
        nice: number that lowers the priority.
    """

    age: float = 0.0
    assoc: float = 0.0
    fair_share: float = 0.0
    job_size: float = 0.0
    partition: float = 0.0
    qos: float = 0.0
    tres: float = 0.0
    site: float = 0.0
    nice: float = 0.0

    @property
    def priority(self) -> int:
        """The priority: the sum, at least 1, because Slurm reserves 0 for held jobs."""
        return int(min(max(sum(self[:-1]) - self.nice, 1.0), HIGHEST))


class ConstantFactors:
    """Calculates the factors of a job that do not change while it waits.

    See https://slurm.schedmd.com/priority_multifactor.html; each method is a section of it.
    """

    def __init__(
        self, site: SiteSettings, platform: Platform, associations: Associations, tres_of: TresOf
    ) -> None:
        self._settings, self._qos = site.priority, site.qos
        self._flags = frozenset(site.priority.flags)
        self._associations, self._tres_of = associations, tres_of
        self._nodes, self._cores = platform.node_count, platform.core_count
        factors = {each.name: each.priority_job_factor for each in platform.partitions}
        self._part_factors = factors or {"": 1}
        self._most_part = max(self._part_factors.values())
        self._most_qos = max((qos.priority for qos in site.qos.values()), default=0)
        raw = [node.rules.priority or 0 for node in associations.nodes]
        self._most_assoc = max(raw)
        self._part_tres = {name: tres_of.of_partition(name) for name in self._part_factors}

    def of(self, job: Job, association: int | None, partition: str = "") -> Factors:
        """Return the factors of a job, with 0 for age and fair-share.

        Args:
            association: number of its association; None: none.
            partition: name of a partition; empty: its first.
        """
        partition = partition or self._tres_of.partitions_of(job)[0]
        request = job.request or NO_REQUEST
        return Factors(
            assoc=self._assoc(association),
            job_size=self._settings.weight_job_size * self.job_size(job),
            partition=self._partition(partition),
            qos=self._qos_factor(job, association),
            tres=self._tres(job, partition),
            site=float(self._settings.site_factors.get(job.account, 0)),
            nice=float(request.nice),
        )

    def job_size(self, job: Job) -> float:
        """Return the job size factor, 0 to 1.

        The mean of the shares of nodes and cores that the job requests; section "Job Size Factor".
        """
        request = job.request or NO_REQUEST
        nodes = max(request.nodes_min, len(request.required_nodes), 1)
        if "small_relative_to_time" in self._flags:
            cores = max(job.cores, nodes * self._cores / self._nodes)
            size = cores / max(job.requested_s // 60, 1) / self._cores
        else:
            size = (nodes / self._nodes + job.cores / self._cores) / 2
        return min(max(1.0 - size if self._settings.favor_small else size, 0.0), 1.0)

    def _assoc(self, association: int | None) -> float:
        if association is None:
            return 0.0
        raw = self._associations.effective(association).priority or 0
        normal = self._flags.isdisjoint(("no_normal_assoc", "no_normal_all"))
        return self._settings.weight_assoc * _normalised(raw, self._most_assoc, normal=normal)

    def _partition(self, partition: str) -> float:
        raw = self._part_factors.get(partition, 0)
        normal = self._flags.isdisjoint(("no_normal_part", "no_normal_all"))
        return self._settings.weight_partition * _normalised(raw, self._most_part, normal=normal)

    def _qos_factor(self, job: Job, association: int | None) -> float:
        name = job.qos if association is None else self._associations.qos_of(job, association)
        raw = self._qos[name].priority if name in self._qos else 0
        normal = self._flags.isdisjoint(("no_normal_qos", "no_normal_all"))
        return self._settings.weight_qos * _normalised(raw, self._most_qos, normal=normal)

    def _tres(self, job: Job, partition: str) -> float:
        """Return the sum of the weighted shares of the TRES of the partition."""
        if not self._settings.weight_tres:
            return 0.0
        normal = self._flags.isdisjoint(("no_normal_tres", "no_normal_all"))
        requested, available = self._tres_of.of_job(job, partition), self._part_tres.get(partition)
        total = 0.0
        for name, weight in self._settings.weight_tres.items():
            most = (available or {}).get(name, 0.0)
            total += weight * _normalised(requested.get(name, 0.0), most, normal=normal)
        return total


def _normalised(value: float, most: float, *, normal: bool) -> float:
    """Return a value as a share of the greatest, or as it is; 0 if the greatest is 0."""
    if not normal:
        return value
    return value / most if most else 0.0


# The priorities of waiting jobs as arrays, so that all are calculated at once.

FIRST_SIZE = 64

RankedJob = tuple[int, int, int, Job]
"""-tier, -priority, number of a job, and the job."""


class WaitingTable:
    """What the priority of each waiting job depends on. Numbers of slots are reused.

    Attributes:
        slots: slot of each job, by number of the job.
        constant: float64[slots], sum of the factors that do not change.
        since_s: float64[slots], when the job began to age, simulated seconds.
        association: int64[slots], number of the association; -1: none.
        fixed: float64[slots], priority that an administrator set; NaN: none.
        tier: int64[slots], PriorityTier of the job's partition.
        value: float64[slots], priority before it is rounded.
    """

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}
        self._free: list[int] = []
        self.constant: Floats = np.zeros(0)
        self.since_s: Floats = np.zeros(0)
        self.association: Ints = np.zeros(0, dtype=np.int64)
        self.fixed: Floats = np.zeros(0)
        self.tier: Ints = np.zeros(0, dtype=np.int64)
        self.value: Floats = np.zeros(0)

    def slot(self, job_id: int) -> int:
        """Return the slot of a job, a new one if it has none."""
        if job_id not in self.slots:
            if not self._free:
                self._grow()
            self.slots[job_id] = self._free.pop()
            self.value[self.slots[job_id]] = 0.0
        return self.slots[job_id]

    def remove(self, job_id: int) -> None:
        """Free the slot of a job, if it has one."""
        slot = self.slots.pop(job_id, None)
        if slot is not None:
            self._free.append(slot)

    def calculate(
        self, slots: Ints | slice, ages: Floats, shares: Floats, *, only_up: bool
    ) -> None:
        """Calculate priorities.

        Args:
            only_up: whether priorities never fall (priority flag `incr_only`).
        """
        value = np.clip(self.constant[slots] + ages + shares, 1.0, HIGHEST)
        if only_up:
            value = np.maximum(value, self.value[slots])
        fixed = self.fixed[slots]
        self.value[slots] = np.where(np.isnan(fixed), value, fixed)

    def rank(self, job_id: int) -> tuple[int, int, int]:
        """Return -tier, -priority and number of a job: the key of the order of the queue."""
        slot = self.slots[job_id]
        return (-int(self.tier[slot]), -int(self.value[slot]), job_id)

    def sorted(self, jobs: list[Job]) -> list[RankedJob]:
        """Return waiting jobs with their ranks in ascending order."""
        slots = np.array([self.slots[job.job_id] for job in jobs], dtype=np.int64)
        tier, value = -self.tier[slots], -self.value[slots].astype(np.int64)
        number = np.array([job.job_id for job in jobs], dtype=np.int64)
        order = np.lexsort((number, value, tier))
        columns = (each[order].tolist() for each in (tier, value, number))
        return list(zip(*columns, [jobs[each] for each in order.tolist()], strict=True))

    def _grow(self) -> None:
        size = len(self.value)
        more = max(size, FIRST_SIZE)
        self._free.extend(reversed(range(size, size + more)))
        self.constant = np.append(self.constant, np.zeros(more))
        self.since_s = np.append(self.since_s, np.zeros(more))
        self.association = np.append(self.association, np.full(more, -1))
        self.fixed = np.append(self.fixed, np.full(more, np.nan))
        self.tier = np.append(self.tier, np.zeros(more, dtype=np.int64))
        self.value = np.append(self.value, np.zeros(more))


STALE = 0.9
"""Share of jobs that wait below which the others are removed from the order."""


class Priorities:
    """Priorities of waiting jobs by https://slurm.schedmd.com/priority_multifactor.html.

    A job gets its priority when it becomes eligible, with the fair-share factors of the last
    calculation. Every PriorityCalcPeriod, usage, fair-share and the priorities of all waiting jobs
    are calculated anew; between calculations they stay as they are.

    Call `update` first at every call of the policy, and have an alarm at `next_s` while jobs wait.

    Args:
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
