"""Run times of jobs that have not ended, drawn from what jobs of the same user did before."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from numpy.random import Generator

SHORTEST_RUN_S = 1.0
UNLIMITED_S = 365 * 86_400.0
"""Requested run time from which a job counts as one without a limit, s."""

_Kind = tuple[str | None, bool]
"""A user, or None for all, and whether the jobs have time limits."""


class EndedJob(NamedTuple):
    """A job of the history.

    Attributes:
        user: its user.
        requested_s: its requested run time, s.
        run_s: its run time, s; None: it was ended at its limit.
    """

    user: str
    requested_s: float
    run_s: float | None


class RunTimes:
    """Run times as shares of the requested times, by user.

    A run time is drawn as requested time x the share of an ended job. Of n jobs of the same user
    each is drawn with probability 1 / (n + 1), and with the rest one of the jobs of all users: the
    predictive distribution of a Dirichlet process whose base is all users' (Blackwell and MacQueen
    1973, DOI 10.1214/aos/1176342372). So a user without history has that of all, and the weight of
    the own history grows with its length. In the same way a job of all users is replaced by one of
    which nothing is known: it runs until its limit.

    Of a job that runs already, only shares come into question by which it would still run. Jobs
    without limits have a history of their own, of run times instead of shares.

    Args:
        history: ended jobs.
    """

    def __init__(self, history: Iterable[EndedJob]) -> None:
        self._shares: dict[_Kind, list[float]] = {}
        for job in history:
            scale_s = _scale_s(job.requested_s)
            if scale_s > 0.0:
                share = math.inf if job.run_s is None else max(0.0, job.run_s) / scale_s
                for user in (job.user, None):
                    self._shares.setdefault(_kind(user, job.requested_s), []).append(share)
        for shares in self._shares.values():
            shares.sort()

    def resampled(self, generator: Generator) -> RunTimes:
        """Return run times of a history that is drawn from this one with replacement.

        The spread between such histories is what a short history leaves unknown (the bootstrap).
        """
        drawn = RunTimes(())
        drawn._shares = {
            kind: _resampled(shares, generator) for kind, shares in self._shares.items()
        }
        return drawn

    def draw(self, generator: Generator, user: str, requested_s: float, elapsed_s: float) -> float:
        """Return a run time, s.

        Args:
            generator: the source of randomness; two numbers are drawn.
            user: the job's user.
            requested_s: its requested run time, s.
            elapsed_s: time for which it has run, s.

        Returns:
            A run time > `elapsed_s`; infinity: it runs until it is ended at its limit.
        """
        chosen, place = generator.random(2).tolist()
        scale_s = _scale_s(requested_s)
        if scale_s <= 0.0:
            return math.inf
        for name in (user, None):
            shares = self._shares.get(_kind(name, requested_s), [])
            first = bisect_right(shares, elapsed_s / scale_s)
            left = len(shares) - first
            if chosen * (left + 1) < left:
                share = shares[first + int(place * left)]
                is_ended = share == math.inf or (scale_s == requested_s and share >= 1.0)
                return math.inf if is_ended else max(scale_s * share, elapsed_s + SHORTEST_RUN_S)
            chosen = chosen * (left + 1) - left  # again uniform from 0 to 1
        return math.inf


def _scale_s(requested_s: float) -> float:
    return requested_s if requested_s < UNLIMITED_S else 1.0


def _kind(user: str | None, requested_s: float) -> _Kind:
    return user, requested_s < UNLIMITED_S


def _resampled(shares: Sequence[float], generator: Generator) -> list[float]:
    chosen = generator.integers(len(shares), size=len(shares)).tolist()
    return sorted(shares[at] for at in chosen)
