"""List scheduling: jobs start in the order of the queue until one does not fit.

`FIXED` and `CHANGING` have the orders of the queue by name: jobs in ascending order of a key, ties
in submission order. Symbols of keys: r requested time (s), n cores, s submission time (s), w wait
so far (s).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any

from hpcosim_client.job import Job
from hpcosim_client.profiles import profile_of
from hpcosim_client.view import Policy, View
from hpcosim_protocol import EventKind

SUBMISSION: frozenset[EventKind] = frozenset({"job_submitted", "job_eligible"})
"""Events after which a job may be in the queue."""
ROOM: frozenset[EventKind] = frozenset(
    {
        "job_completed",
        "job_requeued",
        "job_suspended",
        "job_eligible",
        "job_held",
        "job_updated",
        "node_power_changed",
        "node_repaired",
    }
)
"""Events after which a job that did not fit may fit, or is not the head of the queue any more."""


Start = Callable[[View, Job], bool]
"""Starts a job if enough cores are free, and returns whether it started."""


Key = Callable[[Job], float]
FixedKey = Callable[[Job], float | tuple[float, ...]]
KeyNow = Callable[[Job, float], float]

# Lower bound of r and s in F1 to F4, which take logarithms (as in RLScheduler, Zhang et al. 2020).
LEAST = 0.1


def start_soonest_on(view: View, job: Job) -> bool:
    """Start a job on nodes that are on first, then booting, then sleeping nodes."""
    place = view.nodes.find_soonest_on(job)
    return place is not None and view.start_at(job, place)


def first_come_first_served(view: View, start: Start = View.start) -> None:
    """Start jobs in submission order until one does not fit."""
    start_in_order(view, start)
    explain_queue(view)


def start_in_order(view: View, start: Start = View.start) -> None:
    """Start jobs as `first_come_first_served` does, without explanations."""
    while view.queue:
        job = view.queue.first()
        if job.cores > view.nodes.free_cores or not start(view, job):
            view.wake_on = ROOM  # a new submission is behind this job
            return
    sleep_while_nothing_can_start(view)


def by_fixed_key(key: FixedKey, start: Start = View.start) -> Policy:
    """Return the policy for an order, ascending, by a key that does not depend on the time."""
    heap: list[tuple[Any, int, Job]] = []

    def decide(view: View) -> None:
        for job in view.arrived:
            heappush(heap, (key(job), job.order, job))
        while heap:
            job = heap[0][2]
            if job.job_id in view.queue and not start(view, job):
                break
            heappop(heap)
        sleep_while_nothing_can_start(view)
        explain_queue(view, heap[0][2] if heap else None)

    return decide


def by_changing_key(key: KeyNow, start: Start = View.start) -> Policy:
    """Return the policy for an order, ascending, by a key that depends on the time."""

    def decide(view: View) -> None:
        head = None
        if view.queue and view.nodes.free_cores:
            now_s = view.now_s
            heap = [(key(job, now_s), job.order, job) for job in view.queue.values()]
            heapify(heap)
            while heap and start(view, heap[0][2]):
                heappop(heap)
            head = heap[0][2] if heap else None
        elif view.queue and view.explains:
            head = min(view.queue.values(), key=lambda job: (key(job, view.now_s), job.order))
        sleep_while_nothing_can_start(view)
        explain_queue(view, head)

    return decide


def by_random_order(start: Start = View.start) -> Policy:
    """Return the policy that orders the queue at random at every event; see `Start`."""

    def decide(view: View) -> None:
        jobs = view.queue.values() if view.nodes.free_cores else []
        while jobs:
            sampled = int(view.rng.integers(len(jobs)))
            if not start(view, jobs[sampled]):
                break
            jobs[sampled] = jobs[-1]
            jobs.pop()
        sleep_while_nothing_can_start(view)

    return decide


def sleep_while_nothing_can_start(view: View) -> None:
    """Set `wake_on` to the events after which a job could start."""
    if not view.queue:
        view.wake_on = SUBMISSION
    elif view.nodes.free_cores == 0:
        view.wake_on = ROOM


def sjf(job: Job) -> float:
    """Shortest requested time first."""
    return job.requested_s


def ljf(job: Job) -> float:
    """Longest requested time first."""
    return -job.requested_s


def smallest(job: Job) -> float:
    """Fewest cores first."""
    return job.cores


def saf(job: Job) -> float:
    """Smallest area first: least r n."""
    return job.requested_s * job.cores


def snf(job: Job) -> tuple[float, ...]:
    """Smallest need first: fewest cores, then shortest requested time (Pulungan et al. 2026)."""
    return job.cores, job.requested_s


def f1(job: Job) -> float:
    """log10(r) n + 870 log10(s) (Carastan-Santos, de Camargo 2017, table 3).

    Like F2 to F4 it depends on the origin of simulated time, because it uses s itself.
    """
    return math.log10(_r(job)) * job.cores + 870 * math.log10(_s(job))


def f2(job: Job) -> float:
    """sqrt(r) n + 25600 log10(s) (Carastan-Santos, de Camargo 2017, table 3)."""
    return math.sqrt(_r(job)) * job.cores + 25600 * math.log10(_s(job))


def f3(job: Job) -> float:
    """R n + 6860000 log10(s) (Carastan-Santos, de Camargo 2017, table 3)."""
    return _r(job) * job.cores + 6860000 * math.log10(_s(job))


def f4(job: Job) -> float:
    """R sqrt(n) + 530000 log10(s) (Carastan-Santos, de Camargo 2017, table 3)."""
    return _r(job) * math.sqrt(job.cores) + 530000 * math.log10(_s(job))


def wfp3(job: Job, now_s: float) -> float:
    """See `wfp3_key`."""
    return wfp3_key(now_s - job.submit_s, job.requested_s, job.cores)


def unicep(job: Job, now_s: float) -> float:
    """See `unicep_key`."""
    return unicep_key(now_s - job.submit_s, job.requested_s, job.cores)


def lxf(job: Job, now_s: float) -> float:
    """See `lxf_key`."""
    return lxf_key(now_s - job.submit_s, job.requested_s, job.cores)


# The formulas of numbers alone, which the compiled engine compiles.


def wfp3_key(wait_s: float, requested_s: float, cores: int) -> float:
    """-(w / r)^3 n (Tang et al. 2009), with the true wait.

    The program of RLScheduler has the wrong sign of the wait; this function has the right one.
    """
    ratio = wait_s / (requested_s if requested_s > 0 else LEAST)
    return -math.pow(ratio, 3.0) * cores


def unicep_key(wait_s: float, requested_s: float, cores: int) -> float:
    """-w / (log2(n) r) (Tang et al. 2009), with the true wait.

    log2(1) is 0, so a job of one core that has waited has the limit of the formula, minus infinity;
    before it has waited, 0.
    """
    if wait_s == 0:
        return 0.0
    if cores == 1:
        return -math.inf
    return -wait_s / (math.log2(cores) * (requested_s if requested_s > 0 else LEAST))


def lxf_key(wait_s: float, requested_s: float, cores: int) -> float:
    """Largest expansion factor first: -(w + r) / r."""
    return -wait_s / (requested_s if requested_s > 0 else LEAST)


def _r(job: Job) -> float:
    return job.requested_s if job.requested_s > 0 else LEAST


def _s(job: Job) -> float:
    return job.submit_s if job.submit_s > 0 else LEAST


FIXED: Mapping[str, FixedKey] = {
    key.__name__: key for key in (sjf, ljf, smallest, saf, snf, f1, f2, f3, f4)
}
"""Orders with a key that does not depend on the time."""

CHANGING: Mapping[str, KeyNow] = {key.__name__: key for key in (wfp3, unicep, lxf)}
"""Orders with a key that depends on the time."""


def explain_queue(
    view: View,
    head: Job | None = None,
    expected_start_s: float | None = None,
    reason: str = "Resources",
) -> None:
    """Explain that one job, the head of the queue, waits for resources and all others for it.

    Call it after the decisions of a policy; it does nothing unless the view explains. Its cost does
    not grow with the queue: it visits the jobs that arrived, the previous head and the head.

    Args:
        head: the first job that does not fit; None: the first job of the queue.
        expected_start_s: expected start of the head, simulated seconds; infinity: unknown. None:
            its earliest start by the requested times of running jobs.
    """
    if not view.explains:
        return
    before, view.head = view.head, head or (view.queue.first() if view.queue else None)
    for job in view.arrived if before is None else (*view.arrived, before):
        if job is not view.head and job.job_id in view.queue:
            view.explain(job, "Priority")
    if view.head is None:
        return
    if expected_start_s is None:
        earliest = profile_of(view).earliest(view.head)
        expected_start_s = math.inf if earliest is None else earliest.start_s
    view.explain(view.head, reason, expected_start_s if expected_start_s < math.inf else None)
