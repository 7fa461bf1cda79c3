"""Laws of submissions that are known: workloads of a law, and their continuation given the past.

Both laws draw jobs from a log. Time 0 is Monday 00:00.

* `SeasonalLaw`: `hpcosim_workloads.synthetic.imitation.seasonal`, where a job has size and run time
  of the same job of the log.
* `SessionLaw`: users who submit in sessions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from hpcosim_client.arrays import Floats, Ints
from hpcosim_workloads.synthetic.imitation import (
    DAY_HOURS,
    DAY_S,
    HOUR_S,
    WEEK_DAYS,
    hourly_pattern,
    seasonal,
    weekly_pattern,
)
from hpcosim_workloads.table import JobTable

SESSION_S = 10_800.0
"""A session of a user ends before a longer time without a submission, s."""
WEEK_S = WEEK_DAYS * DAY_S


class Submissions(NamedTuple):
    """Samples of submissions, in any order.

    Attributes:
        sample: int64[n], the sample of each.
        at_s: float64[n], its time, s.
        row: int64[n], the job of the log that it repeats.
    """

    sample: Ints
    at_s: Floats
    row: Ints


class Law(Protocol):
    """A law of submissions."""

    log: JobTable

    def generated(self, days: int, generator: Generator) -> JobTable:
        """Return the jobs of days from Monday 00:00 on."""

    def continued(
        self, past: JobTable, now_s: float, horizon_s: float, samples: int, generator: Generator
    ) -> Submissions:
        """Return samples of the submissions after now, given all submissions up to now.

        Args:
            past: the jobs that were submitted up to now, as `generated` returned them.
            horizon_s: time to look ahead, s.
        """


class SeasonalLaw:
    """The law of `seasonal` with `pairs`.

    A day has the mean number of jobs of its weekday, rounded up or down, and so has each of its
    hours; one uniform number rounds all hours of a day. So a day has one of finitely many rows of
    numbers by hour, whose probabilities are known. Given the submissions so far, those rows remain
    that have the numbers of the hours that are over, and the present hour weighs a row with n jobs,
    of which m have come in the share f of the hour, by n! / (n - m)! (1 - f)^(n - m). After the
    last day that was generated no row has these numbers; then all of them remain.

    Args:
        start_s: time 0 of the log, s after Monday 00:00.
    """

    def __init__(self, log: JobTable, start_s: float) -> None:
        self.log, self._start_s = log, start_s
        up_to = np.append(0.0, hourly_pattern(log, start_s).cumsum())
        means = weekly_pattern(log, start_s)
        self._days = [_rows_of_day(mean, up_to / up_to[-1]) for mean in means.tolist()]

    def generated(self, days: int, generator: Generator) -> JobTable:
        """Return the jobs of days from Monday 00:00 on."""
        return seasonal(generator, self.log, days=days, start_s=self._start_s, pairs=True)

    def continued(
        self, past: JobTable, now_s: float, horizon_s: float, samples: int, generator: Generator
    ) -> Submissions:
        """Return samples of the submissions after now; see `Law.continued`."""
        today, until_s = int(now_s // DAY_S), now_s + horizon_s
        begun_s = today * DAY_S + np.arange(DAY_HOURS + 1) * HOUR_S
        came = np.diff(past.submit_s.searchsorted(begun_s))
        sample, at_s = [], []
        for day in range(today, int(until_s // DAY_S) + 1):
            numbers, weights = self._days[day % WEEK_DAYS]
            hours_s = day * DAY_S + np.arange(DAY_HOURS) * HOUR_S
            if day == today:
                hour = int((now_s - day * DAY_S) // HOUR_S)
                # Whole seconds of the hour that are left; those up to now are over.
                left_s = HOUR_S - 1.0 - np.floor(now_s - hours_s[hour])
                likely = weights * _likelihood(numbers, came, hour, left_s / HOUR_S)
                weights = likely if likely.any() else weights
                numbers = np.maximum(numbers - came, 0)
            drawn = generator.choice(len(weights), samples, p=weights / weights.sum())
            counts = numbers[drawn]
            which, hours = np.divmod(np.repeat(np.arange(counts.size), counts.ravel()), DAY_HOURS)
            first_s = hours_s[hours]
            if day == today:
                first_s = np.maximum(first_s, np.floor(now_s) + 1.0)
            width_s = hours_s[hours] + HOUR_S - first_s
            sample.append(which)
            at_s.append(first_s + np.floor(width_s * generator.random(len(which))))
        all_s, samples_of = np.concatenate(at_s), np.concatenate(sample)
        soon = all_s <= until_s
        rows = generator.integers(len(self.log), size=int(soon.sum()))
        return Submissions(samples_of[soon], all_s[soon], rows)


def _rows_of_day(mean: float, up_to: Floats) -> tuple[Ints, Floats]:
    """Return numbers of jobs by hour, int64[n, 24], and the probability of each row, float64[n]."""
    numbers, weights = [], []
    for count, chance in ((np.floor(mean), 1.0 - mean % 1.0), (np.floor(mean) + 1.0, mean % 1.0)):
        ends = count * up_to
        # The uniform number that rounds: between these values, no hour changes.
        cuts = np.unique(np.concatenate([[0.0, 1.0], 1.0 - ends % 1.0]))
        middle = (cuts[1:] + cuts[:-1]) / 2.0
        numbers.append(np.diff(np.floor(ends + middle[:, None])).astype(np.int64))
        weights.append(chance * np.diff(cuts))
    return np.concatenate(numbers), np.concatenate(weights)


def _likelihood(numbers: Ints, came: Ints, hour: int, left: float) -> Floats:
    """Return the probability density of what came, for each row of numbers, up to a factor."""
    total, seen = numbers[:, hour], int(came[hour])
    fits = (numbers[:, :hour] == came[:hour]).all(1) & (total >= seen)
    rest = np.maximum(total - seen, 0)
    falling = np.log(rest[:, None] + 1.0 + np.arange(seen)).sum(1)  # of n! / (n - m)!
    return np.where(fits, np.exp(falling - falling.max()) * left**rest, 0.0)


class SessionLaw:
    """Users who submit in sessions, with the gaps, sizes and run times of a log.

    After a submission of a user, one of the user's jobs of the same size is drawn from the log, and
    what followed it there follows again: the next job of the user, as long after the submission,
    or, if it had come after the end of the former one, as long after the end. If more than
    `SESSION_S` passed in the log, the session has ended. Then the next one begins with the first
    job of one of the user's sessions, after a time with the rate

        sessions of the user in the log / duration of the log x factor of the hour of the week

    Given that nothing came since the user's last submission, those jobs remain whose successor
    would be still to come, and the end of the session, weighted by the probability that no session
    has begun since. Before the first submission of a user no session has begun.

    Args:
        start_s: time 0 of the log, s after Monday 00:00.
    """

    def __init__(self, log: JobTable, start_s: float) -> None:
        self.log = log
        self._user = log.user.astype(np.int64)
        order = np.lexsort((log.submit_s, log.user))
        user = log.user[order]
        gap_s = np.append(np.diff(log.submit_s[order]), np.inf)
        goes_on = np.append(user[1:] == user[:-1], False) & (gap_s <= SESSION_S)
        self._gap_s = np.full(len(log), np.inf)  # to the next job of the session
        self._gap_s[order[goes_on]] = gap_s[goes_on]
        self._next = np.full(len(log), -1)
        self._next[order[goes_on]] = order[np.flatnonzero(goes_on) + 1]
        self._first = order[np.append(True, ~goes_on[:-1])]  # of each session, by user
        self._sessions = np.bincount(log.user[self._first])
        self._firsts = self._sessions.cumsum() - self._sessions
        self._rate = self._sessions / float(log.submit_s[-1] - log.submit_s[0])
        self._clock = _WeeklyClock(log.take(np.sort(self._first)), start_s)
        key = np.stack([log.user, log.cores])
        groups, self._group = np.unique(key, axis=1, return_inverse=True)
        self._group_of = {(user, cores): n for n, (user, cores) in enumerate(groups.T.tolist())}
        self._members = np.argsort(self._group, kind="stable")
        self._sizes = np.bincount(self._group)
        self._begins = self._sizes.cumsum() - self._sizes

    def generated(self, days: int, generator: Generator) -> JobTable:
        """Return the jobs of days from Monday 00:00 on."""
        none = self.log.take(slice(0, 0))
        drawn = self.continued(none, 0.0, days * DAY_S, 1, generator)
        order = drawn.at_s.argsort(kind="stable")
        jobs = self.log.take(drawn.row[order]).at(drawn.at_s[order])
        return replace(jobs, job_id=np.arange(1, len(jobs) + 1))

    def continued(
        self, past: JobTable, now_s: float, horizon_s: float, samples: int, generator: Generator
    ) -> Submissions:
        """Return samples of the submissions after now; see `Law.continued`."""
        users, last = np.unique(past.user[::-1], return_index=True)
        fresh = np.repeat(np.setdiff1d(self._user, users), samples)
        at_s, row = self._session(fresh, np.full(len(fresh), now_s), generator)
        if len(past):
            last = len(past) - 1 - last
            drawn = [self._like(past, each, now_s, samples, generator) for each in last.tolist()]
            of = np.repeat(last, samples)
            user = past.user[of].astype(np.int64)
            last_s, run_s = past.submit_s[of], past.run_s[of]
            member = np.concatenate(drawn)
            seen_s, seen = self._followed(user, last_s, run_s, member, now_s, generator)
            at_s, row = np.append(at_s, seen_s), np.append(row, seen)
        sample = np.arange(len(at_s)) % samples
        found = []
        while len(at_s):
            soon = at_s <= now_s + horizon_s
            sample, at_s, row = sample[soon], at_s[soon], row[soon]
            found.append((sample, at_s, row))
            group = self._group[row]
            place = (generator.random(len(row)) * self._sizes[group]).astype(np.int64)
            member = self._members[self._begins[group] + place]
            run_s = self.log.run_s[row]
            at_s, row = self._followed(self._user[row], at_s, run_s, member, at_s, generator)
        return Submissions(*(np.concatenate(each) for each in zip(*found, strict=True)))

    def _like(
        self, past: JobTable, row: int, now_s: float, samples: int, generator: Generator
    ) -> Ints:
        """Draw jobs of the log whose successor may be that of a user's last job, of a row."""
        user, at_s = int(past.user[row]), float(past.submit_s[row])
        group = self._group_of[user, int(past.cores[row])]
        begin = self._begins[group]
        member = self._members[begin : begin + self._sizes[group]]
        quiet = np.exp(-self._rate[user] * (self._clock.told(now_s) - self._clock.told(at_s)))
        to_come = at_s + self._gaps_s(member, past.run_s[row]) > now_s
        up_to = np.where(self._next[member] < 0, quiet, to_come).cumsum()
        drawn: Ints = member[up_to.searchsorted(generator.random(samples) * up_to[-1], "right")]
        return drawn

    def _gaps_s(self, member: Ints, run_s: Floats) -> Floats:
        """Return the times to the next submission if it is as after `member`; infinity: none."""
        gap_s, own_s = self._gap_s[member], self.log.run_s[member]
        return np.where(gap_s >= own_s, gap_s - own_s + run_s, gap_s)

    def _followed(
        self,
        user: Ints,
        at_s: Floats,
        run_s: Floats,
        member: Ints,
        quiet_s: Floats | float,
        generator: Generator,
    ) -> tuple[Floats, Ints]:
        """Return time and row of the next submission after jobs if it is as after `member`."""
        row = self._next[member]
        next_s = at_s + self._gaps_s(member, run_s)
        over = row < 0
        if over.any():
            quiet_s = np.broadcast_to(quiet_s, over.shape)[over]
            next_s[over], row[over] = self._session(user[over], quiet_s, generator)
        return next_s, row

    def _session(self, user: Ints, after_s: Floats, generator: Generator) -> tuple[Floats, Ints]:
        """Draw the beginning of the next session of each user, and its first job."""
        wait_s = generator.exponential(1.0 / self._rate[user])
        place = (generator.random(len(user)) * self._sessions[user]).astype(np.int64)
        first = self._first[self._firsts[user] + place]
        return self._clock.at_s(self._clock.told(after_s) + wait_s), first


class _WeeklyClock:
    """A clock that runs faster in the hours of the week with more submissions, with mean rate 1."""

    def __init__(self, log: JobTable, start_s: float) -> None:
        rates = np.outer(weekly_pattern(log, start_s), hourly_pattern(log, start_s)).ravel()
        self._hours_s = np.arange(len(rates) + 1) * HOUR_S
        self._told_s = np.append(0.0, rates.cumsum()) / rates.sum() * WEEK_S

    def told(self, at_s: Floats | float) -> Floats:
        """Return what the clock says at times, s."""
        week, rest_s = np.divmod(np.asarray(at_s), WEEK_S)
        found: Floats = week * WEEK_S + np.interp(rest_s, self._hours_s, self._told_s)
        return found

    def at_s(self, told: Floats) -> Floats:
        """Return the times at which the clock says this, s."""
        week, rest = np.divmod(told, WEEK_S)
        found: Floats = week * WEEK_S + np.interp(rest, self._told_s, self._hours_s)
        return found
