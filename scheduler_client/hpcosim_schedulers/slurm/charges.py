"""What running and past jobs are charged: decayed usage by association and QOS."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Floats, Ints, Job
from hpcosim_client.view import View
from hpcosim_protocol import Platform
from hpcosim_schedulers.slurm.associations import Associations
from hpcosim_schedulers.slurm.fair_share import ShareTree
from hpcosim_schedulers.slurm.settings import Priority, ResetPeriod, SiteSettings
from hpcosim_schedulers.slurm.tres import TresOf

# Usage that decays: what running and past jobs used, for fair-share and for limits on minutes.

EPOCH = "1970-01-01T00:00:00"


class _Charge(NamedTuple):
    """A running job: the rows that it charges, its rate per second, and since when."""

    rows: Ints
    rates: Floats
    since_s: float


class Usage:
    """Usage of associations and QOS, which decays with PriorityDecayHalfLife.

    Usage is calculated every PriorityCalcPeriod: the sums decay by the period, and each running job
    adds its time since the last calculation, decayed by that time. A job that ends adds its time at
    once. See "Normalized Usage" of https://slurm.schedmd.com/classic_fair_share.html, and
    slurm.conf(5), PriorityDecayHalfLife, PriorityCalcPeriod and PriorityUsageResetPeriod.

    As in Slurm 22.05, usage decays by 1 - 0.693 / half-life each second, an approximation of
    2**(-1 / half-life), and the time for which a job is suspended counts.

    Args:
        settings: half-life, period and reset.
        columns: number of amounts of each row.
        start_s: time of the first calculation, simulated seconds.

    Attributes:
        amounts: float64[rows, columns], in units times seconds.
        last_s: time of the last calculation, simulated seconds.
    """

    def __init__(self, settings: Priority, columns: int, start_s: float) -> None:
        self.amounts: Floats = np.zeros((0, columns))
        self.last_s = start_s
        self._start_s = start_s
        self._period_s = settings.calc_period_s
        half_life_s = settings.decay_half_life_s
        self._decay_per_s = max(1.0 - 0.693 / half_life_s, 0.0) if half_life_s else 1.0
        self._decays: Floats = np.zeros((0, 1))  # base of the decay per second of each row
        self._decays_of_period = self._decays  # decay in a period of each row
        self._rates: Floats = np.zeros((0, columns))  # of jobs that ran at `last_s`
        self._running: dict[int, _Charge] = {}
        self._fresh: dict[int, None] = {}  # jobs that started after `last_s`
        self._resets = reset_times(settings.usage_reset_period, settings.start_time, start_s)
        self._next_reset_s = next(self._resets, math.inf)
        self._calculations = 0

    @property
    def next_s(self) -> float:
        """Time of the next calculation, simulated seconds."""
        return self._start_s + (self._calculations + 1) * self._period_s

    def add_row(self, *, decays: bool = True) -> int:
        """Add a row, and return its number.

        Args:
            decays: whether the row decays (False: QOS flag `no_decay`).
        """
        row = np.zeros((1, self.amounts.shape[1]))
        self._rates = np.vstack((self._rates, row))
        self.amounts = np.vstack((self.amounts, row))
        base = self._decay_per_s if decays else 1.0
        self._decays = np.vstack((self._decays, [[base]]))
        self._decays_of_period = self._decays**self._period_s
        return len(self.amounts) - 1

    def start(self, job_id: int, rows: Sequence[int], rates: Sequence[float], at_s: float) -> None:
        """Start to charge a job.

        Args:
            job_id: its number.
            rows: the rows that it charges.
            rates: amount of each column per second.
            at_s: its start, simulated seconds.
        """
        charged = np.array(rows, dtype=np.int64)
        self._running[job_id] = _Charge(charged, np.array(rates, dtype=np.float64), at_s)
        self._fresh[job_id] = None

    def end(self, job_id: int, at_s: float) -> None:
        """Charge the rest of a job that ends or is requeued at `at_s`."""
        charge = self._running.pop(job_id, None)
        if charge is None:
            return
        self._add(charge, at_s)
        if job_id in self._fresh:
            del self._fresh[job_id]
        elif len(self._running) > len(self._fresh):
            self._rates[charge.rows] -= charge.rates
        else:
            self._rates[:] = 0.0  # exact, whatever was rounded

    def advance(self, until_s: float) -> bool:
        """Make the calculations that are due up to `until_s`; return whether there were any."""
        due = int((until_s - self._start_s) // self._period_s)
        any_due = due > self._calculations
        while due > self._calculations:
            count = 1 if self._fresh else due - self._calculations
            if self._next_reset_s < math.inf:
                reset = math.ceil((self._next_reset_s - self._start_s) / self._period_s)
                count = min(count, max(reset - self._calculations - 1, 1))
                if reset <= self._calculations + 1:
                    self.amounts[:] = 0.0
                    self._next_reset_s = next(self._resets, math.inf)
            self._calculate(count)
        return any_due

    def _calculate(self, count: int) -> None:
        """Make `count` calculations at once; only one if jobs started since the last."""
        decay = self._decays_of_period
        added = self._rates * self._period_s * decay
        if count > 1:
            repeated = np.full(decay.shape, float(count))  # 1 + decay + decay**2 + ...
            np.divide(1.0 - decay**count, 1.0 - decay, out=repeated, where=decay < 1.0)
            added *= repeated
        self.amounts *= decay if count == 1 else decay**count
        self.amounts += added
        self._calculations += count
        at_s = self._start_s + self._calculations * self._period_s
        for job_id in list(self._fresh):
            charge = self._running[job_id]
            if charge.since_s < at_s:
                self._add(charge, at_s)
                self._rates[charge.rows] += charge.rates
                del self._fresh[job_id]
        self.last_s = at_s

    def _add(self, charge: _Charge, until_s: float) -> None:
        """Add the usage of a job since the last calculation, decayed by that time."""
        ran_s = until_s - max(charge.since_s, self.last_s)
        if ran_s > 0:
            decay = self._decays[charge.rows] ** ran_s
            self.amounts[charge.rows] += charge.rates * ran_s * decay


def reset_times(period: ResetPeriod, start_time: str, after_s: float) -> Iterator[float]:
    """Yield the simulated seconds of PriorityUsageResetPeriod, ascending.

    Args:
        period: the period; weeks begin on Sunday.
        start_time: date and time of simulated second 0; empty: 1970-01-01.
        after_s: lower bound, simulated seconds.
    """
    if period == "none":
        return
    origin = datetime.fromisoformat(start_time or EPOCH)
    now = origin + timedelta(seconds=after_s)
    at = now.replace(hour=0, minute=0, second=0, microsecond=0)
    while True:
        at = _next_reset(period, at)
        yield (at - origin).total_seconds()


def _next_reset(period: ResetPeriod, midnight: datetime) -> datetime:
    """Return the next reset after a midnight."""
    if period == "daily":
        return midnight + timedelta(days=1)
    if period == "weekly":
        return midnight + timedelta(days=7 - midnight.isoweekday() % 7)
    months = {"monthly": 1, "quarterly": 3, "yearly": 12}[period]
    month = (midnight.month - 1) // months * months + months
    return midnight.replace(year=midnight.year + month // 12, month=month % 12 + 1, day=1)


BILLING, WALL = 0, 1
"""Columns of the usage: seconds of the billing TRES, and seconds of run time."""


class Charges:
    """Charges running jobs to their associations and QOS, and calculates fair-share factors.

    Args:
        site: the settings.
        platform: the cluster.
        tres: names of TRES whose usage is counted beside billing and run time, for limits.

    Attributes:
        associations: the associations; those of unknown users and accounts are added as they come.
        tres_of: the TRES of jobs.
        tres: see Args.
        usage: the usage; `rows` and `qos_rows` have the row of each association and QOS.
    """

    def __init__(self, site: SiteSettings, platform: Platform, tres: tuple[str, ...] = ()) -> None:
        self.site, self.tres = site, tres
        self._flags = frozenset(site.priority.flags)
        self.associations = Associations(site.accounts, adds_unknown=not site.enforce)
        self.tres_of = TresOf(platform, site.partitions, max_tres="max_tres" in self._flags)
        self.usage = Usage(site.priority, 2 + len(tres), -site.dtstart_s)
        self.qos_rows = {
            name: self.usage.add_row(decays="no_decay" not in qos.flags)
            for name, qos in site.qos.items()
        }
        self._part_qos = {each.name: each.qos for each in platform.partitions if each.qos}
        self.rows: list[int] = []
        self._grow()
        self._last_totals = self._totals()
        self._factors: Floats | None = None
        self._charged: dict[int, Job] = {}

    def update(self, view: View) -> bool:
        """Charge the jobs that started and ended, and make the calculations that are due.

        Returns:
            Whether there was a calculation, so that fair-share factors are new.
        """
        for job in view.left:
            if job.job_id not in self._charged and job.start_s == job.start_s:  # started unseen
                self._start(job)
        if len(view.running) > len(self._charged) - len(view.left):
            for job_id in view.running.keys() - self._charged.keys():
                self._start(view.running[job_id])
        calculated = self.usage.advance(view.now_s)
        if calculated:
            self._last_totals, self._factors = self._totals(), None
        for job in view.left:
            if self._charged.pop(job.job_id, None) is not None:
                self.usage.end(job.job_id, view.now_s)
        return calculated

    def is_charged(self, job_id: int) -> bool:
        """Return whether a job ran at the last update."""
        return job_id in self._charged

    def fair_share(self) -> Floats:
        """Return the fair-share factor of each association at the last calculation, float64[n].

        An association that was added later has used nothing: it has 1 until the next calculation.
        """
        new = len(self.associations.nodes) - len(self._last_totals)
        if self._factors is None:
            tree = ShareTree(self.associations)
            totals = np.append(self._last_totals, np.zeros(new))
            if "no_fair_tree" in self._flags:
                self._factors = tree.classic(
                    totals,
                    self.site.priority.fair_share_dampening_factor,
                    depth_oblivious="depth_oblivious" in self._flags,
                )
            else:
                self._factors = tree.fair_tree(totals)
        missing = len(self.associations.nodes) - len(self._factors)
        if missing:
            self._factors = np.append(self._factors, np.ones(missing))
        return self._factors

    def association(self, job: Job, partition: str = "") -> int | None:
        """Return the number of a job's association; None: it has none.

        Args:
            job: the job.
            partition: name of its partition; empty: its first.
        """
        found = self.associations.of(job, partition or self.tres_of.partitions_of(job)[0])
        if len(self.rows) < len(self.associations.nodes):
            self._grow()
        return found

    def qos_of(self, job: Job, partition: str = "") -> tuple[str, ...]:
        """Return the QOS whose limits hold for a job: that of its partition, then its own.

        The QOS flag `over_part_qos` of the job's own QOS reverses the order
        (https://slurm.schedmd.com/resource_limits.html, "Hierarchy").
        """
        own = self.own_qos(job, partition)
        of_part = self._part_qos.get(partition or self.tres_of.partitions_of(job)[0], "")
        known = [name for name in (of_part, own) if name in self.site.qos]
        if len(known) == 2 and "over_part_qos" in self.site.qos[own].flags:
            known.reverse()
        return tuple(dict.fromkeys(known))

    def own_qos(self, job: Job, partition: str = "") -> str:
        """Return the name of a job's QOS, whatever that of its partition."""
        number = self.association(job, partition)
        return job.qos if number is None else self.associations.qos_of(job, number)

    def _start(self, job: Job) -> None:
        self._charged[job.job_id] = job
        tres = self.tres_of.of_job(job)
        number = self.association(job)
        rows = [self.qos_rows[name] for name in self.qos_of(job)]
        if number is not None:
            rows += [self.rows[each] for each in self.associations.ancestors(number)]
        own = self.own_qos(job)
        factor = self.site.qos[own].usage_factor if own in self.site.qos else 1.0
        rates = [tres["billing"], 1.0, *(tres.get(name, 0.0) for name in self.tres)]
        self.usage.start(job.job_id, rows, [factor * rate for rate in rates], job.start_s)

    def _grow(self) -> None:
        """Add the rows of associations that have none."""
        for node in self.associations.nodes[len(self.rows) :]:
            self.rows.append(self.usage.add_row())
            if node.rules.usage_s:
                for number in self.associations.ancestors(len(self.rows) - 1):
                    self.usage.amounts[self.rows[number], BILLING] += node.rules.usage_s

    def _totals(self) -> Floats:
        """Return the billing usage of each association with all below it, float64[n]."""
        return self.usage.amounts[self.rows, BILLING]
