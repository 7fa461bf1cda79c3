"""Jobs run only while a signal is lowest: they are suspended in between.

Each job computes in the cheapest parts of the time up to its deadline, by the forecast of the
signal at its submission (Wiesner et al. 2021, "Let's Wait Awhile", strategy `interruptible`). A
part of equal value that is not needed as a whole is used from its begin. Jobs without a deadline
start at once. The jobs do not compete: the cluster needs cores for all of them.
"""

from __future__ import annotations

import math

import numpy as np

from hpcosim_client import Policy, View, main
from hpcosim_client.job import Job
from hpcosim_client.scheduler_state import Signal

Spans = list[tuple[float, float]]
"""Begin and end of times in which a job computes, s, ascending and apart from each other."""


def interruptible(signal: str = "co2_g_per_kwh") -> Policy:
    """Return the policy.

    Args:
        signal: name of the signal.
    """
    plans: dict[int, Spans] = {}

    def decide(view: View) -> None:
        now_s = view.now_s
        for job in list(view.queue.values()):
            if job.job_id not in plans:
                plans[job.job_id] = cheapest(view.signals[signal], job, now_s)
            if _computes(plans[job.job_id], now_s):
                view.start(job)
        for job in list(view.suspended.values()):
            if _computes(plans[job.job_id], now_s):
                view.resume(job)
        for job in list(view.running.values()):
            if not _computes(plans[job.job_id], now_s):
                view.suspend(job)
        jobs = (view.queue, view.suspended, view.running)
        left = [job_id for each in jobs for job_id in each]
        next_s = min((_next_s(plans[job_id], now_s) for job_id in left), default=math.inf)
        if next_s < math.inf:
            view.set_alarm(next_s)

    return decide


def cheapest(signal: Signal, job: Job, now_s: float) -> Spans:
    """Return the times up to the deadline in which the job computes at least cost."""
    if job.deadline_s == math.inf:
        return [(now_s, math.inf)]
    latest_s = max(job.deadline_s, now_s + job.requested_s)
    begins = np.maximum(signal.times_s, now_s)
    ends = np.append(np.maximum(signal.times_s[1:], now_s), math.inf)
    chosen, left_s = [], job.requested_s
    for step in np.argsort(signal.values, kind="stable").tolist():
        begin_s, end_s = float(begins[step]), min(float(ends[step]), latest_s)
        lasts_s = min(end_s - begin_s, left_s)
        if lasts_s > 0.0:
            chosen.append((begin_s, begin_s + lasts_s))
            left_s -= lasts_s
    return _joined(sorted(chosen))


def _joined(spans: Spans) -> Spans:
    """Return ascending spans with adjacent ones joined. The last one ends with the job."""
    found: Spans = []
    for begin_s, end_s in spans:
        if found and found[-1][1] == begin_s:
            begin_s, _ = found.pop()
        found.append((begin_s, end_s))
    return [*found[:-1], (found[-1][0], math.inf)]


def _computes(spans: Spans, now_s: float) -> bool:
    return any(begin_s <= now_s < end_s for begin_s, end_s in spans)


def _next_s(spans: Spans, now_s: float) -> float:
    """Return the next begin or end after now, s."""
    return min((time_s for span in spans for time_s in span if time_s > now_s), default=math.inf)


if __name__ == "__main__":
    main(interruptible())
