"""Carbon-aware scheduling: jobs with slack wait for electricity of low carbon intensity."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Job
from hpcosim_client.scheduler_state import JobQueue, Signal, signal_of
from hpcosim_client.view import Policy, PolicyAlarm, View

TIE = 1e-12
"""Relative difference below which two means are equal: rounding does not delay a job."""


DELAYED = "BeginTime"
"""Reason of a job whose planned start is later."""


class _Delay(NamedTuple):
    """The planned start of a job."""

    start_s: float
    is_final: bool


def carbon_aware(inner: Policy, signal: str = "co2_g_per_kwh", slack_s: float = 0.0) -> Policy:
    """Return a policy that delays jobs to the start with the lowest mean of a signal.

    The latest start of a job is its deadline minus its requested time, or, without a deadline, its
    submission plus `slack_s`. A job is planned at its submission: from now to its latest start, it
    gets the earliest start with the lowest mean of the forecast over its requested time. It is
    planned again at each later event of the signal, unless the forecast already covered its latest
    end. When the planned start is reached, the job is a job of `inner`, as are jobs whose latest
    start has passed. So a job starts after its planned start if the cluster is full. This is the
    non-interruptible shifting of Wiesner et al. 2021, "Let's Wait Awhile".

    Args:
        slack_s: time for which a job without a deadline can be delayed, in seconds, >= 0.
    """
    delayed: dict[int, _Delay] = {}
    alarm = PolicyAlarm()
    seen: list[Signal] = []

    def decide(view: View) -> None:
        now = signal_of(view.signals, signal, "carbon-aware")
        is_new, seen[:] = not seen or seen[0] is not now, [now]
        jobs = [view.queue[job_id] for job_id, delay in delayed.items() if job_id in view.queue]
        again = [job for job in jobs if is_new and not delayed[job.job_id].is_final]
        for job in [*again, *view.arrived]:
            delayed[job.job_id] = _planned(job, now, view.now_s, slack_s)
        for job_id, delay in list(delayed.items()):
            if job_id not in view.queue or delay.start_s <= view.now_s:
                del delayed[job_id]
        with _without(view, delayed):
            inner(view)
        if view.explains:
            _explain(view, delayed)
        alarm.set_or_cancel(
            view, min((each.start_s for each in delayed.values()), default=math.inf)
        )
        if view.wake_on is not None and not all(each.is_final for each in delayed.values()):
            view.wake_on = {"signal_changed", *view.wake_on}

    return decide


def best_start_s(signal: Signal, lasts_s: float, now_s: float, latest_s: float) -> float:
    """Return the earliest start with the lowest mean of a signal over a duration.

    The mean is piecewise linear in the start. It can only have its minimum at a bound, or where
    the start or the end coincides with a change of the signal.

    Args:
        now_s: lower bound of the start, simulated seconds, not before `signal.since_s`.
        latest_s: upper bound of the start, simulated seconds.
    """
    if latest_s <= now_s:
        return now_s
    changes_s = signal.times_s[1:]
    starts_s = np.concatenate(([now_s, latest_s], changes_s, changes_s - lasts_s))
    starts_s = np.unique(starts_s[(starts_s >= now_s) & (starts_s <= latest_s)])
    ends = signal.integrals(starts_s + lasts_s)
    costs = ends - signal.integrals(starts_s)
    margin = TIE * float(np.abs(ends).max())
    return float(starts_s[np.flatnonzero(costs <= costs.min() + margin)[0]])


def _planned(job: Job, signal: Signal, now_s: float, slack_s: float) -> _Delay:
    if job.deadline_s < math.inf:
        latest_s = job.deadline_s - job.requested_s
    else:
        latest_s = job.submit_s + slack_s
    start_s = best_start_s(signal, job.requested_s, now_s, latest_s)
    return _Delay(start_s, latest_s + job.requested_s <= signal.known_until_s)


def _explain(view: View, delayed: Mapping[int, _Delay]) -> None:
    """Explain delayed jobs, and jobs that are not delayed any more but still wait."""
    for job in view.queue.values():
        if job.job_id in delayed:
            view.explain(job, DELAYED, delayed[job.job_id].start_s)
        elif job.explanation is not None and job.explanation[0] == DELAYED:
            view.explain(job, "Priority")


@contextmanager
def _without(view: View, hidden: Collection[int]) -> Iterator[None]:
    """Hide jobs of the queue for a while."""
    if not hidden:
        yield
        return
    jobs = [(job_id, view.queue.pop(job_id)) for job_id in hidden]
    yield
    together = [*view.queue.items(), *jobs]
    view.queue = JobQueue(sorted(together, key=lambda item: item[1].order))
