"""EASY backfilling behind a head that is chosen anew, and rules that choose it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from hpcosim_client.job import Job
from hpcosim_client.profiles import Reservation
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.heuristics.easy import backfill_behind
from hpcosim_schedulers.heuristics.list_scheduling import sleep_while_nothing_can_start
from hpcosim_schedulers.heuristics.orders import CHANGING, FIXED, Key, KeyNow, f1, saf, sjf
from hpcosim_schedulers.heuristics.reasons import explain_queue

WINDOW_JOBS = 64
"""Default number of visible jobs."""

MAX_WINDOW_JOBS = 1000
"""Largest number of visible jobs."""

AGED_S = 86_400.0
"""Wait after which rules `-aged` prefer a job, simulated seconds."""


class ChosenHead:
    """The rounds of EASY backfilling in which the head of the queue is chosen.

    In a round one of the first `window_jobs` waiting jobs is chosen. If it fits, it starts, and the
    next round follows. Otherwise it is the head until the next event: it has a reservation, and the
    other jobs are backfilled behind it in submission order, as in `easy`. There is a round only
    while at least two jobs wait and at least one has enough free cores. A choice of the first job
    in every round gives the schedule of `easy`.

    Args:
        window_jobs: number of visible jobs, >= 1.
    """

    def __init__(self, window_jobs: int = WINDOW_JOBS) -> None:
        self.window_jobs = window_jobs
        self._head: Job | None = None  # the job that did not fit
        self._reservation: Reservation | None = None

    def begin(self, view: View) -> None:
        """Begin the rounds of an event."""
        self._head = self._reservation = None

    def look(self, view: View) -> list[Job] | None:
        """Return the visible jobs of the next round; None: no round until the next event."""
        while self._head is None and _some_job_fits(view):
            if len(view.queue) > 1:
                return view.queue.first_jobs(self.window_jobs)
            self.take(view, view.queue.first())
        sleep_while_nothing_can_start(view)
        shadow = self._reservation
        explain_queue(view, self._head, None if shadow is None else shadow.start_s)
        return None

    def take(self, view: View, job: Job) -> None:
        """Choose a job in a round."""
        if job.cores <= view.nodes.free_cores and view.start(job):
            return
        self._head = job
        if len(view.queue) > 1:
            self._reservation = backfill_behind(view, job)


def _some_job_fits(view: View) -> bool:
    free_cores = view.nodes.free_cores
    return free_cores > 0 and any(job.cores <= free_cores for job in dict.values(view.queue))


Rule = Callable[[Sequence[Job], float], int]
"""Takes the visible jobs and the simulated second; returns the index of the chosen one."""


def easy_by_rule(rule: Rule, window_jobs: int = WINDOW_JOBS) -> Policy:
    """Return EASY backfilling whose head is chosen by a rule; see `ChosenHead`."""
    rounds = ChosenHead(window_jobs)

    def decide(view: View) -> None:
        rounds.begin(view)
        while (jobs := rounds.look(view)) is not None:
            rounds.take(view, jobs[rule(jobs, view.now_s)])

    return decide


RankNow = Callable[[Job, float], float | tuple[float, ...]]
"""A key of an order: takes a job and the simulated second; the least key comes first."""


def least(rank: RankNow) -> Rule:
    """Return the rule that chooses the job with the least key; ties by submission."""

    def choose(jobs: Sequence[Job], now_s: float) -> int:
        ranks = [rank(job, now_s) for job in jobs]
        return ranks.index(min(ranks))

    return choose


def aged(key: KeyNow, limit_s: float = AGED_S) -> KeyNow:
    """Return an order that prefers jobs that have waited long (Lelong, Reis, Trystram 2017).

    Args:
        key: the order of the other jobs; keys > minus infinity.
        limit_s: jobs that have waited longer come first, in submission order.
    """
    return lambda job, now_s: key(job, now_s) if now_s - job.submit_s <= limit_s else -math.inf


def _rank_of(name: str) -> RankNow:
    fixed = FIXED[name]
    return lambda job, _: fixed(job)


_AGED: Mapping[str, Key] = {"sjf": sjf, "saf": saf, "f1": f1}


def _aged_rule(key: Key) -> Rule:
    return least(aged(lambda job, _: key(job)))


RULES: Mapping[str, Rule] = {
    **{name: least(_rank_of(name)) for name in FIXED},
    **{name: least(key) for name, key in CHANGING.items()},
    **{f"{name}-aged": _aged_rule(key) for name, key in _AGED.items()},
}
"""Rules by name: the orders of `orders`, and some of them with a limit of the wait."""
