"""What jobs are charged, as decayed usage by association and QOS, and fair-share factors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints, Job
from hpcosim_client.view import View
from hpcosim_protocol import Platform
from hpcosim_schedulers.slurm.accounts import Associations
from hpcosim_schedulers.slurm.settings import Priority, ResetPeriod, SiteSettings
from hpcosim_schedulers.slurm.tres import TresOf

# Usage that decays: what running and past jobs used, for fair-share and for limits on minutes.

EPOCH = "1970-01-01T00:00:00"


DEPTH_WEIGHT = 5.0
"""Constant of the depth-oblivious rule: how much an unbalanced parent level damps a lower one."""


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
        start_s: time of the first calculation, simulated seconds.

    Attributes:
        amounts: float64[rows, columns], in units times seconds.
        decays: bool[rows, 1], whether each row decays.
        decay_per_s: what is left of usage after a second.
        last_s: time of the last calculation, simulated seconds.
    """

    def __init__(self, settings: Priority, columns: int, start_s: float) -> None:
        self.amounts: Floats = np.zeros((0, columns))
        self.last_s = start_s
        self._start_s = start_s
        self._period_s = settings.calc_period_s
        half_life_s = settings.decay_half_life_s
        self.decay_per_s = max(1.0 - 0.693 / half_life_s, 0.0) if half_life_s else 1.0
        self.decays: Bools = np.zeros((0, 1), dtype=np.bool_)
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
        self.decays = np.vstack((self.decays, [[decays]]))
        return len(self.amounts) - 1

    def start(self, job_id: int, rows: Sequence[int], rates: Sequence[float], at_s: float) -> None:
        """Start to charge a job."""
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
        decay = math.pow(self.decay_per_s, self._period_s)
        added = self._rates * self._period_s * np.where(self.decays, decay, 1.0)
        if count > 1:
            added *= np.where(self.decays, times_decayed(decay, count), float(count))
        self.amounts *= np.where(self.decays, math.pow(decay, count), 1.0)
        self.amounts += added
        self._calculations += count
        at_s = self._start_s + self._calculations * self._period_s
        for job_id in sorted(self._fresh):
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
            decay = np.where(self.decays[charge.rows], math.pow(self.decay_per_s, ran_s), 1.0)
            self.amounts[charge.rows] += charge.rates * ran_s * decay


def times_decayed(decay: float, count: int) -> float:
    """Return 1 + decay + decay**2 + ..., `count` terms."""
    if decay < 1.0:
        return (1.0 - math.pow(decay, count)) / (1.0 - decay)
    return float(count)


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
        tres: names of TRES whose usage is counted beside billing and run time, for limits.

    Attributes:
        associations: the associations; those of unknown users and accounts are added as they come.
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


class ShareTree:
    """The shares of all associations as arrays, in the order of their numbers.

    An association whose shares are `parent` does not compete: an account's children compete at the
    level above it; a user has the factor of the account in the classic algorithm, and ranks first
    in the account with fair tree.

    Args:
        associations: the associations. Those added later need a new `ShareTree`.

    Attributes:
        parent: int64[n], number of the association at whose level each one competes; -1: `root`.
        above: int64[n], number of the account above; -1: none.
        shares: float64[n]; 0 where they are `parent`.
        competes: bool[n], whether the association has shares of its own.
        is_user: bool[n].
        children: those that compete below each association, ascending.
    """

    def __init__(self, associations: Associations) -> None:
        nodes = associations.nodes
        self.competes: Bools = np.array([node.rules.shares != "parent" for node in nodes])
        self.competes[0] = True
        self.is_user: Bools = np.array([node.user is not None for node in nodes])
        self.shares: Floats = np.array(
            [0.0 if node.rules.shares == "parent" else float(node.rules.shares) for node in nodes]
        )
        self.above: Ints = np.array([node.parent for node in nodes], dtype=np.int64)
        self.parent = self.above.copy()
        for number in range(1, len(nodes)):  # parents have lower numbers than their children
            above = int(self.parent[number])
            if not self.competes[above]:
                self.parent[number] = self.parent[above]
        level_shares = np.bincount(self.parent[1:], self.shares[1:], len(nodes))
        self._share_of_level = np.zeros(len(nodes))
        level = level_shares[self.parent[1:]]
        np.divide(self.shares[1:], level, out=self._share_of_level[1:], where=level > 0)
        self._user: list[bool] = self.is_user.tolist()
        self.children: list[list[int]] = [[] for _ in nodes]
        for number, parent in enumerate(self.parent.tolist()):
            if number and (self.competes[number] or self.is_user[number]):
                self.children[parent].append(number)

    def level_fair_share(self, totals: Floats) -> Floats:
        """Return the level fair-share of each association, float64[n].

        LF = S / U with S the share and U the share of the usage among the siblings; infinity
        without usage, 0 without shares (https://slurm.schedmd.com/fair_tree.html, "Level Fairshare
        Calculation").

        Args:
            totals: float64[n], usage of each association with all below it.
        """
        above = totals[np.maximum(self.parent, 0)]
        usage = np.zeros(len(totals))
        np.divide(totals, above, out=usage, where=above > 0)
        level = np.full(len(totals), math.inf)
        np.divide(self._share_of_level, usage, out=level, where=usage > 0)
        level[self._share_of_level == 0] = 0.0
        level[~self.competes] = math.inf
        return level

    def fair_tree(self, totals: Floats) -> Floats:
        """Return the fair-share factor of each user, float64[n], 0 to 1; 0 for accounts.

        Users are ranked by a walk of the tree in descending order of the level fair-share. The
        factor is the rank divided by the number of users. Siblings that tie have the same rank;
        accounts that tie are merged; a user that ties with an account ranks with its best user
        (https://slurm.schedmd.com/fair_tree.html, "Algorithm" and "Ties").
        """
        level = self.level_fair_share(totals).tolist()
        users = int(self.is_user.sum())
        factors = [0.0] * len(level)
        left = rank = users  # `left`: the rank that the next user has without a tie

        # Siblings still to visit, the next ones last, and whether the first ties with the user
        # before it.
        todo: list[tuple[bool, list[int]]] = [(False, self._competitors([0]))]
        while todo:
            tied, group = todo.pop()
            ties: dict[float, list[int]] = {}
            for number in group:
                ties.setdefault(level[number], []).append(number)
            visits: list[tuple[bool, list[int]]] = []
            for value in sorted(ties, reverse=True):
                visits.append((tied, ties[value]))
                tied = False
            if len(visits) > 1 and any(not self._user[number] for number in group):
                todo += [(False, each) for _, each in reversed(visits[1:])]
                visits = visits[:1]
            for tied, members in visits:
                of_users = [number for number in members if self._user[number]]
                accounts = [number for number in members if not self._user[number]]
                if of_users:
                    rank = rank if tied else left
                    left -= len(of_users)
                for number in of_users:
                    factors[number] = rank / users
                if accounts:
                    todo.append((tied or bool(of_users), self._competitors(accounts)))
        return np.array(factors)

    def classic(
        self, totals: Floats, dampening: int = 1, *, depth_oblivious: bool = False
    ) -> Floats:
        """Return the classic fair-share factor of each association, float64[n], 0 to 1.

        F = 2**(-U_E / S / d) with the effective usage U_E
        (https://slurm.schedmd.com/classic_fair_share.html). Slurm uses it with the priority flag
        `no_fair_tree`.
        """
        n = len(totals)
        used = totals / totals[0] if totals[0] > 0 else np.zeros(n)
        shares, effective = np.ones(n), np.ones(n)
        level_used = np.bincount(self.parent[1:], (used * self.competes)[1:], n)
        for number in range(1, n):
            above = int(self.parent[number])
            if not self.competes[number]:
                shares[number], effective[number] = shares[above], effective[above]
                continue
            of_level = self._share_of_level[number]
            shares[number] = of_level * shares[above]
            own = used[number]
            if above == 0:
                effective[number] = own
            elif depth_oblivious:
                ratio = _ratio(own, level_used[above], of_level, effective[above], shares[above])
                effective[number] = ratio * shares[number] if ratio else own
            else:
                effective[number] = own + (effective[above] - own) * of_level
        exponent = np.full(n, math.inf)
        np.divide(effective, shares * dampening, out=exponent, where=shares > 0)
        factors: Floats = np.exp2(-exponent)
        return factors

    def _competitors(self, accounts: Sequence[int]) -> list[int]:
        """Return the users and accounts that compete below the given accounts."""
        return [number for each in accounts for number in self.children[each]]


def _ratio(
    used: float, level_used: float, of_level: float, effective: float, shares: float
) -> float:
    """Return usage divided by shares of an association without regard to its depth; 0: none.

    R = R_p * r**k: R_p is the ratio of the parent and r that of the association among its siblings.
    k tends to 0 if both differ from 1 in opposite directions, so that a level far from balance
    counts more than those below it (slurm.conf(5), PriorityFlags, DEPTH_OBLIVIOUS).
    """
    if not (used and level_used and of_level and effective and shares):
        return 0.0
    parent, own = effective / shares, (used / of_level) / level_used
    opposite = math.log(parent) * math.log(own)
    exponent = 1.0 if opposite >= 0 else 1.0 / (1.0 + (DEPTH_WEIGHT * math.log(parent)) ** 2)
    return float(parent * own**exponent)
