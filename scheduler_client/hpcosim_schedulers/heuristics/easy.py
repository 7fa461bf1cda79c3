"""EASY backfilling: only the head of the queue has a reservation.

The head is the first job of the queue, or `ChosenHead` chooses it anew by a rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from hpcosim_client.job import Job
from hpcosim_client.profiles import NodeProfile, Reservation, profile_of
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.heuristics.list_scheduling import (
    CHANGING,
    FIXED,
    SUBMISSION,
    Key,
    KeyNow,
    explain_queue,
    f1,
    saf,
    sjf,
    sleep_while_nothing_can_start,
    start_in_order,
)
from hpcosim_schedulers.heuristics.power_aware import (
    WakeAhead,
    cheapest_start,
    nothing_sleeps,
    power_profile,
)
from hpcosim_schedulers.power.settings import Awareness

WINDOW_JOBS = 64
"""Default number of visible jobs."""

MAX_WINDOW_JOBS = 1000
"""Largest number of visible jobs."""

AGED_S = 86_400.0
"""Wait after which rules `-aged` prefer a job, simulated seconds."""


def easy(view: View) -> None:
    """EASY backfilling (Mu'alem, Feitelson 2001, section 2.1).

    Jobs start in submission order until one, the head, does not fit. Its shadow time is its
    earliest start by requested run times. The cores free at the shadow time beside those of the
    head are the extra cores. A later job, in submission order, starts if it fits now and either
    ends by the shadow time or takes extra cores only.
    """
    start_in_order(view)
    view.wake_on, shadow = None, None
    if len(view.queue) > 1:
        shadow = backfill_behind(view, view.queue.first())
    sleep_while_nothing_can_start(view)
    explain_queue(view, expected_start_s=None if shadow is None else shadow.start_s)


def backfill_behind(view: View, head: Job) -> Reservation | None:
    """Start jobs that do not delay a head that does not fit, in submission order.

    Returns:
        The reservation of the head; None: no reservation was needed, or there is none.
    """
    free_cores = view.nodes.free_cores
    if free_cores == 0:
        return None
    small = [job for job in view.queue.values() if job.cores <= free_cores]
    if not view.explains and len(small) <= (head.cores <= free_cores):
        return None  # no other job fits
    profile = profile_of(view)
    shadow = profile.earliest(head)
    if shadow is not None:
        profile.reserve(head, shadow)
    profile.start_each(view, [job for job in small if job is not head])
    return shadow


def easy_aware(awareness: Awareness) -> Policy:
    """Return EASY (see `easy`) with estimates that include the time to boot.

    Jobs are considered in submission order. A job starts if it can be allocated nodes now and no
    later start runs earlier. The first other job is the head; its reservation is not delayed by
    later jobs. With `planned`, each later job that can run within the longest boot time has a
    reservation too, so that nodes are switched on for all of them.
    """
    wake_ahead = WakeAhead(awareness)

    def decide(view: View) -> None:
        if nothing_sleeps(view):
            easy(view)
            return
        reserved = _go_through(view, awareness) if view.queue else {}
        wake_ahead.follow(view, list(reserved.values()))
        if not view.queue:
            view.wake_on = SUBMISSION
        head, reservation = next(iter(reserved.items()), (None, None))
        explain_queue(view, head, None if reservation is None else reservation.runs_s)

    return decide


def _go_through(view: View, awareness: Awareness) -> dict[Job, Reservation]:
    """Start jobs that can start now, and return the reservations of others, the head first."""
    profile, now_s = power_profile(view, awareness), view.now_s
    soon_s = now_s + float(view.nodes.switch_on_s.max())
    reservations: dict[Job, Reservation] = {}
    for job in view.queue.values():
        until_s = soon_s if reservations else math.inf
        start = cheapest_start(view, profile, awareness, job, now_s, until_s)
        if start is None or _started(view, profile, job, start):
            continue
        if not reservations or awareness == "planned":
            profile.reserve(job, start)
            reservations[job] = start
    return reservations


def _started(view: View, profile: NodeProfile, job: Job, start: Reservation) -> bool:
    """Start a job if its reservation begins now and its cores are free; return whether it did."""
    if start.start_s > view.now_s or start.allocation is None:
        return False
    if not view.start_at(job, start.allocation):
        return False
    profile.reserve(job, start)
    return True


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
        while self._head is None and some_job_fits(view):
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


def some_job_fits(view: View) -> bool:
    """Return whether a waiting job requests at most the free cores."""
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
"""Rules by name: the orders of the queue, and some of them with a limit of the wait."""
