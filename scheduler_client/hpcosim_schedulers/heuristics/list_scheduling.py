"""List scheduling: jobs start in the order of the queue until one does not fit."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

from hpcosim_client.job import Job
from hpcosim_client.view import Policy, View
from hpcosim_protocol import EventKind
from hpcosim_schedulers.heuristics.orders import FixedKey, KeyNow
from hpcosim_schedulers.heuristics.reasons import explain_queue

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
