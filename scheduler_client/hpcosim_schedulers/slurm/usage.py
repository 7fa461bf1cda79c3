"""Usage that decays: what running and past jobs used, for fair-share and for limits on minutes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_schedulers.slurm.settings import Priority, ResetPeriod

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
