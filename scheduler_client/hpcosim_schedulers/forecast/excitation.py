"""Self-excitation: how submissions and ends of a user's jobs make further submissions likely."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays import Bools, Floats

HOUR_S = 3600.0
DAYS, HOURS = 7, 24
BINS = DAYS * HOURS

CALENDAR_FORGETTING_S = 10 * BINS * HOUR_S
"""Time after which an old observation counts 1/e, s."""
PRIOR = 10.0
"""Number of arrivals that count as much as what is known from coarser bins."""


class Kernel(NamedTuple):
    """A way in which events of a user cause submissions of this user.

    Attributes:
        time_s: time constant, s.
        of_ends: whether ends of jobs are the cause; else submissions.
        rhythmic: whether the effect follows the rhythm of the week.
        prior: weight without data.
    """

    time_s: float
    of_ends: bool
    rhythmic: bool
    prior: float


CAUSES = (  # batches, sessions, half days, days, projects; users who wait for their jobs to end
    Kernel(20.0, of_ends=False, rhythmic=False, prior=0.2),
    Kernel(20.0, of_ends=True, rhythmic=False, prior=0.05),
    Kernel(240.0, of_ends=False, rhythmic=False, prior=0.1),
    Kernel(240.0, of_ends=True, rhythmic=False, prior=0.05),
    Kernel(3600.0, of_ends=False, rhythmic=False, prior=0.05),
    Kernel(3600.0, of_ends=True, rhythmic=False, prior=0.05),
    Kernel(14_400.0, of_ends=False, rhythmic=True, prior=0.05),
    Kernel(86_400.0, of_ends=False, rhythmic=True, prior=0.05),
    Kernel(1_209_600.0, of_ends=False, rhythmic=True, prior=0.05),
)
"""The kernels, in the order of their time constants."""

FORGETTING_S = 90 * 86_400.0
"""Time after which an old observation of a parameter counts 1/e, s."""
LEAST_KEPT = 1e-3
"""Least factor of what is known after a long silence."""
USER_PRIOR = 20.0
"""Number of submissions after which a user's own parameters count as much as those of all."""
GLOBAL_PRIOR = 10.0
"""Number of submissions that `Kernel.prior` counts as much as."""
MAX_BRANCHING = 0.97
"""Upper bound of the sum of the weights of a user, below 1: numbers of arrivals stay finite. Slow
kernels, of which less is known, give way to fast ones."""
NEW_USERS = 1.0
"""Weight of a user never seen, in spontaneous submissions (Blackwell and MacQueen 1973)."""
MAX_RATE_PER_S = 1e3

KERNELS = len(CAUSES)
BETA_PER_S = 1.0 / np.array([kernel.time_s for kernel in CAUSES])
IS_RHYTHMIC = np.array([kernel.rhythmic for kernel in CAUSES])
OF_ENDS = np.array([kernel.of_ends for kernel in CAUSES])
PRIOR_CAUSED = GLOBAL_PRIOR * np.array([kernel.prior for kernel in CAUSES])


class Excitation:
    """A Hawkes process by user, with the parameters learned while it runs.

    The intensity of submissions at a time t is, in 1/s,

        mu c(t) + sum over users u and kernels k of w[u, k] m_k(t) b_k S[u, k](t),

    where c(t) is the rhythm of the week, m_k(t) is c(t) or 1, b_k = 1 / time constant of kernel k,
    and S[u, k](t) is the sum of exp(-b_k (t - t_i)) over the past submissions of the user, or over
    the ends of the user's jobs, t_i (Hawkes 1971, DOI 10.1093/biomet/58.1.83). w[u, k] is the mean
    number of submissions that one submission or end causes through kernel k.

    A submission belongs to each term with the probability that is the term's share of the
    intensity. A weight is the sum of these shares / the sum of what weight 1 would have given
    (expectation-maximization: Veen and Schoenberg 2008, DOI 10.1198/016214508000000148; online:
    Cappe and Moulines 2009, DOI 10.1111/j.1467-9868.2009.00698.x). Old observations are forgotten
    exponentially, and the weights of a user are shrunk towards those of all (gamma priors).

    Attributes:
        rhythm: c(t).
        now_s: time up to which the state is known, s; NaN: nothing was observed.
    """

    def __init__(self) -> None:
        self.rhythm = WeekRhythm()
        self.now_s = math.nan
        self.users = 0
        self._state: Floats = np.zeros((16, KERNELS))  # S, at `_at_s`
        self._at_s: Floats = np.zeros(16)
        self._caused: Floats = np.zeros((16, KERNELS))  # shares of the submissions of each user
        self._exposed: Floats = np.zeros((16, KERNELS))  # what weight 1 would have given
        self._spontaneous: Floats = np.zeros(16)
        self._all_caused = np.where(OF_ENDS, 0.0, PRIOR_CAUSED)
        self._all_exposed = np.full(KERNELS, GLOBAL_PRIOR)
        self._all_spontaneous, self._spontaneous_s = 1.0, HOUR_S
        self._refreshed_s = math.nan
        self._last_s = self._noted_s = math.nan
        self._excited = np.zeros(KERNELS)  # sum of w S over users, at `_noted_s`
        self._due = np.zeros(KERNELS)  # what was expected from `_last_s` to `_noted_s`

    def new_user(self) -> int:
        """Return the number of a new user: the number of those known before."""
        if self.users == len(self._at_s):
            for name in ("_state", "_at_s", "_caused", "_exposed", "_spontaneous"):
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.zeros_like(array)]))
        self._at_s[self.users] = 0.0 if math.isnan(self.now_s) else self.now_s
        self.users += 1
        return self.users - 1

    @property
    def spontaneous_per_s(self) -> float:
        """Submissions that nothing before has caused, with a rhythm factor of 1: mu, 1/s."""
        return min(self._all_spontaneous / self._spontaneous_s, MAX_RATE_PER_S)

    @property
    def common_weights(self) -> Floats:
        """The weights of all users together, float64[kernels]."""
        return _bounded(self._all_caused / self._all_exposed)

    def weights(self) -> Floats:
        """Return the weights of each user, float64[users, kernels]."""
        return _bounded(self._weights(slice(0, self.users)))

    def state(self) -> Floats:
        """Return S of each user now, float64[users, kernels]."""
        age_s = self.now_s - self._at_s[: self.users, None]
        found: Floats = self._state[: self.users] * np.exp(-age_s * BETA_PER_S)
        return found

    def missed(self) -> float:
        """Return the number of submissions that was expected since the last one, without their own.

        If the model is right, it exceeds x with probability exp(-x) (Papangelou 1972, DOI
        10.1090/S0002-9947-1972-0314102-9). 0 before the first submission.
        """
        if math.isnan(self._last_s):
            return 0.0
        due = self._due + self._excited * -np.expm1((self._noted_s - self.now_s) * BETA_PER_S)
        factor = self.rhythm.at(self.now_s)
        silent_s = self.now_s - self._last_s
        rhythmic = float(due[IS_RHYTHMIC].sum()) + self.spontaneous_per_s * silent_s
        return float(due[~IS_RHYTHMIC].sum()) + factor * rhythmic

    def user_shares(self) -> Floats:
        """Return the probability of each user in a spontaneous submission, float64[users].

        The sum is below 1; the rest are new users.
        """
        own = self._spontaneous[: self.users]
        shares: Floats = own / (own.sum() + NEW_USERS)
        return shares

    def advance(self, now_s: float) -> None:
        """Let time pass without events, up to `now_s`; an earlier time has no effect."""
        if math.isnan(self.now_s):
            self.now_s = self._refreshed_s = now_s
            return
        if now_s - self.now_s > 2 * BINS * HOUR_S:  # bound the work of a long silence
            self._pass(now_s - BINS * HOUR_S)
        while self.now_s < now_s:
            next_s = (self.now_s // HOUR_S + 1) * HOUR_S
            if next_s > now_s:
                self._wait(now_s)
                return
            self._pass(next_s)

    def submitted(self, now_s: float, user: int) -> Floats:
        """Take a submission; return the share of each kernel in its cause, float64[kernels].

        Args:
            now_s: time, s; one before that of the last call counts as that.
        """
        self.advance(now_s)
        factor = self.rhythm.at(self.now_s)
        self._settle(user, factor)
        seen = self._state[user]
        parts = self._weights(user) * np.where(IS_RHYTHMIC, factor, 1.0) * BETA_PER_S * seen
        likely = (self._spontaneous[user] if seen[-1] > 0.0 else NEW_USERS) + 1e-3
        base = self.spontaneous_per_s * factor * likely / (self._all_spontaneous + NEW_USERS)
        total = float(parts.sum()) + base
        shares: Floats = parts / total
        alone = base / total
        self._caused[user] += shares
        self._all_caused += shares
        self._spontaneous[user] += alone
        self._all_spontaneous += alone
        self.rhythm.observe(self.now_s, alone + float(shares[IS_RHYTHMIC].sum()))
        self._excite(user, ~OF_ENDS)
        self._last_s = self.now_s
        self._due[:] = 0.0
        return shares

    def ended(self, now_s: float, user: int) -> None:
        """Take the end of a job of a user; for the arguments see `submitted`.

        Before the first end, the weights of ends are 0, as for a caller that knows no ends.
        """
        self.advance(now_s)
        if not self._all_caused[OF_ENDS].any():
            self._all_caused[OF_ENDS] = PRIOR_CAUSED[OF_ENDS]
        self._settle(user, self.rhythm.at(self.now_s))
        self._excite(user, OF_ENDS)

    def _excite(self, user: int, kernels: Bools) -> None:
        """Add an event of a user that has effects through some kernels, bool[kernels]."""
        self._state[user] += kernels
        if self._noted_s < self.now_s:
            kept = np.exp((self._noted_s - self.now_s) * BETA_PER_S)
            self._due += self._excited * (1.0 - kept)
            self._excited *= kept
        self._excited += self._weights(user) * kernels
        self._noted_s = self.now_s

    def _weights(self, user: int | slice) -> Floats:
        common = self._all_caused / self._all_exposed
        weights: Floats = (self._caused[user] + USER_PRIOR * common) / (
            self._exposed[user] + USER_PRIOR
        )
        return weights

    def _settle(self, user: int, factor: float) -> None:
        """Bring the state of one user to the present, within an hour."""
        if not self._state[user].any():
            self._at_s[user] = self.now_s
            return
        kept = np.exp((self._at_s[user] - self.now_s) * BETA_PER_S)
        self._at_s[user] = self.now_s
        exposed = self._state[user] * (1.0 - kept) * np.where(IS_RHYTHMIC, factor, 1.0)
        self._exposed[user] += exposed
        self._all_exposed += exposed
        base = (self._weights(user) * self._state[user] * (1.0 - kept))[IS_RHYTHMIC].sum()
        self.rhythm.expect(self.now_s, float(base))
        self._state[user] *= kept

    def _wait(self, until_s: float) -> None:
        """Let time pass within an hour."""
        mid_s, elapsed_s = 0.5 * (self.now_s + until_s), until_s - self.now_s
        self.rhythm.expect(mid_s, self.spontaneous_per_s * elapsed_s)
        self._spontaneous_s += self.rhythm.at(mid_s) * elapsed_s
        self.now_s = until_s

    def _pass(self, until_s: float) -> None:
        """Let time pass to the end of an hour, and bring the state of all users there."""
        mid_s, n = 0.5 * (self.now_s + until_s), self.users
        factor = self.rhythm.at(mid_s)
        self._wait(until_s)
        kept = np.exp((self._at_s[:n, None] - until_s) * BETA_PER_S)
        lost = self._state[:n] * (1.0 - kept)
        exposed = lost * np.where(IS_RHYTHMIC, factor, 1.0)
        base = float((self._weights(slice(0, n)) * lost)[:, IS_RHYTHMIC].sum())
        self.rhythm.expect(mid_s, base)
        self._exposed[:n] += exposed
        self._all_exposed += exposed.sum(0)
        self._state[:n] *= kept
        self._at_s[:n] = until_s
        if until_s - self._refreshed_s >= 24 * HOUR_S:
            self._forget(until_s - self._refreshed_s)
            self._refreshed_s = until_s

    def _forget(self, elapsed_s: float) -> None:
        self.rhythm.refresh(elapsed_s)
        kept = max(math.exp(-elapsed_s / FORGETTING_S), LEAST_KEPT)
        self._caused *= kept
        self._exposed *= kept
        self._spontaneous *= kept
        self._all_caused *= kept
        self._all_exposed *= kept
        self._all_spontaneous *= kept
        self._spontaneous_s *= kept


def _bounded(weights: Floats) -> Floats:
    """Return weights, float64[..., kernels], whose sums are at most `MAX_BRANCHING`."""
    upto = np.minimum(weights.cumsum(-1), MAX_BRANCHING)
    return np.diff(upto, prepend=0.0, axis=-1)


class WeekRhythm:
    """The factor of each of the 168 hours of a week, relative to the mean.

    The factor of an hour is (observed + prior) / (expected + prior): the number of observed
    arrivals, and that of those expected with a factor of 1. An hour of the week is shrunk towards
    the hour of the day x the day of the week, and these towards 1 (gamma priors). Days begin at
    multiples of 86400 s of the caller's clock; which of them is a Monday need not be known.

    Attributes:
        factors: float64[168], with mean 1.
    """

    def __init__(self) -> None:
        self.factors: Floats = np.ones(BINS)
        self._list = self.factors.tolist()
        self._observed: Floats = np.zeros((DAYS, HOURS))
        self._expected: Floats = np.zeros((DAYS, HOURS))

    def at(self, time_s: float) -> float:
        """Return the factor at a time."""
        factor: float = self._list[int(time_s // HOUR_S) % BINS]
        return factor

    def of(self, times_s: Floats) -> Floats:
        """Return the factors at times, float64[n]."""
        return self.factors[(times_s // HOUR_S).astype(np.int64) % BINS]

    def observe(self, time_s: float, arrivals: float) -> None:
        """Add observed arrivals, which may be parts of one."""
        at = int(time_s // HOUR_S) % BINS
        self._observed[at // HOURS, at % HOURS] += arrivals

    def expect(self, time_s: float, arrivals: float) -> None:
        """Add the number of arrivals that a factor of 1 would have given in the hour of a time."""
        at = int(time_s // HOUR_S) % BINS
        self._expected[at // HOURS, at % HOURS] += arrivals

    def refresh(self, elapsed_s: float) -> None:
        """Calculate the factors again, and let the past count less by the time that has passed."""
        seen, due = self._observed, self._expected
        hours = (seen.sum(0) + PRIOR) / (due.sum(0) + PRIOR)
        days = (seen.sum(1) + PRIOR) / (due.sum(1) + PRIOR)
        level = (seen.sum() + PRIOR) / (due.sum() + PRIOR)
        coarse = days[:, None] * hours[None, :] / level
        fine = (seen + PRIOR * coarse) / (due + PRIOR)
        self.factors = (fine / fine.mean()).ravel()
        self._list = self.factors.tolist()
        kept = math.exp(-elapsed_s / CALENDAR_FORGETTING_S)
        self._observed *= kept
        self._expected *= kept
