"""Events for clients of earlier editions of the protocol: section 5.14 of the specification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from hpcosim_protocol import (
    DecisionRejected,
    Event,
    JobCompleted,
    JobEligible,
    JobHeld,
    JobRequeued,
    JobResumed,
    JobState,
    JobSubmitted,
    JobSuspended,
    JobUpdated,
    NodeDrained,
    NodeFailed,
    RejectionCode,
)

_STATES: Mapping[JobState, JobState] = {
    "failed": "completed",
    "cancelled": "killed",
    "preempted": "killed",
    "deadline": "killed",
}
_CODES: Mapping[RejectionCode, RejectionCode] = {
    "job_not_eligible": "job_not_waiting",
    "node_unavailable": "node_busy",
    "reserved": "node_busy",
    "insufficient_memory": "node_busy",
    "insufficient_gres": "node_busy",
    "insufficient_licenses": "node_busy",
    "constraint_violated": "bad_allocation",
}


class Translation:
    """Translates the events of one session.

    The client knows a job from the time at which it is eligible. A job that is held or requeued is
    over for the client, and submitted again when it is eligible again.
    """

    def __init__(self) -> None:
        self._jobs: dict[int, JobSubmitted] = {}  # jobs that are not over, as they are now
        self._known: dict[int, float] = {}  # submissions that the client knows: job and time, s

    def events(self, event: Event) -> Sequence[Event]:
        """Return what the client receives for an event."""
        translate = _TRANSLATE.get(type(event))
        return (event,) if translate is None else translate(self, event)

    def snapshot(self, events: Iterable[Event]) -> list[Event]:
        """Return what a client that resumes its session receives for a snapshot."""
        known = dict(self._known)
        self._jobs.clear()
        self._known.clear()
        translated = [each for event in events for each in self.events(event)]
        jobs = {each.job_id: each for each in translated if isinstance(each, JobSubmitted)}
        # In the order and with the times in which the client learned of them.
        submitted = [
            structs.replace(jobs.pop(job_id), time_s=time_s)
            for job_id, time_s in known.items()
            if job_id in jobs
        ]
        submitted += jobs.values()
        self._known = {each.job_id: each.time_s for each in submitted}
        following = iter(submitted)
        return [next(following) if isinstance(e, JobSubmitted) else e for e in translated]

    def _submitted(self, event: JobSubmitted) -> Sequence[Event]:
        self._jobs[event.job_id] = event
        if not event.eligible:
            return ()
        self._known[event.job_id] = event.time_s
        return (event,)

    def _eligible(self, event: JobEligible) -> Sequence[Event]:
        self._known[event.job_id] = event.time_s
        job = self._jobs[event.job_id]
        return (structs.replace(job, time_s=event.time_s, eligible=True),)

    def _waits_again(self, event: JobHeld | JobRequeued) -> Sequence[Event]:
        if event.job_id not in self._known:
            return ()
        del self._known[event.job_id]
        return (JobCompleted(event.time_s, event.job_id, "killed"),)

    def _updated(self, event: JobUpdated) -> Sequence[Event]:
        job = self._jobs[event.job_id]
        self._jobs[event.job_id] = structs.replace(
            job, requested_s=event.requested_s, request=event.request
        )
        return ()

    def _completed(self, event: JobCompleted) -> Sequence[Event]:
        del self._jobs[event.job_id]
        if event.job_id not in self._known:
            return ()
        del self._known[event.job_id]
        state = _STATES.get(event.state)
        return (event if state is None else structs.replace(event, state=state),)

    def _drained(self, event: NodeDrained) -> Sequence[Event]:
        return (NodeFailed(event.time_s, event.node),)

    def _rejected(self, event: DecisionRejected) -> Sequence[Event]:
        code = _CODES.get(event.code)
        return (event if code is None else structs.replace(event, code=code),)

    def _nothing(self, event: Event) -> Sequence[Event]:
        return ()


_TRANSLATE: Mapping[type[Event], Callable[[Translation, Any], Sequence[Event]]] = {
    JobSubmitted: Translation._submitted,
    JobEligible: Translation._eligible,
    JobHeld: Translation._waits_again,
    JobRequeued: Translation._waits_again,
    JobUpdated: Translation._updated,
    JobSuspended: Translation._nothing,
    JobResumed: Translation._nothing,
    JobCompleted: Translation._completed,
    NodeDrained: Translation._drained,
    DecisionRejected: Translation._rejected,
}
