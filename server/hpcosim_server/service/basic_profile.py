"""Events of a session in the basic profile: section 11.13 of the specification.

A client whose `hello` has no `workload_manager` knows jobs that wait, run and end. It receives the
events of a workload manager as such events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from hpcosim_protocol import (
    DecisionRejected,
    Event,
    JobCompleted,
    JobEligible,
    JobHeld,
    JobRequeued,
    JobResumed,
    JobStarted,
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


class BasicProfile:
    """Replaces the events of workload managers in one session.

    The client knows a job from the time at which it is eligible. A job that is held or requeued is
    over for the client, and submitted again when it is eligible again.
    """

    def __init__(self) -> None:
        self._jobs: dict[int, JobSubmitted] = {}  # jobs that are not over, as they are now
        self._known: dict[int, float] = {}  # submissions that the client knows: job and time, s

    def events(self, event: Event) -> Sequence[Event]:
        """Return what the client receives for an event."""
        match event:
            case JobStarted():
                return (event,)
            case JobSubmitted():
                self._jobs[event.job_id] = event
                return self._submitted(event) if event.eligible else ()
            case JobEligible():
                job = self._jobs[event.job_id]
                return self._submitted(structs.replace(job, time_s=event.time_s, eligible=True))
            case JobCompleted():
                del self._jobs[event.job_id]
                return self._completed(event, _STATES.get(event.state, event.state))
            case JobHeld() | JobRequeued():
                return self._completed(event, "killed")
            case JobUpdated():
                self._jobs[event.job_id] = structs.replace(
                    self._jobs[event.job_id], requested_s=event.requested_s, request=event.request
                )
                return ()
            case JobSuspended() | JobResumed():
                return ()
            case NodeDrained():
                return (NodeFailed(event.time_s, event.node),)
            case DecisionRejected():
                return (structs.replace(event, code=_CODES.get(event.code, event.code)),)
            case _:
                return (event,)

    def snapshot(self, events: Iterable[Event]) -> list[Event]:
        """Return what a client that resumes its session receives for a snapshot."""
        known = dict(self._known)
        self._jobs.clear()
        self._known.clear()
        received = [each for event in events for each in self.events(event)]
        jobs = {each.job_id: each for each in received if isinstance(each, JobSubmitted)}
        # In the order and with the times in which the client learned of them.
        submitted = [
            structs.replace(jobs.pop(job_id), time_s=time_s)
            for job_id, time_s in known.items()
            if job_id in jobs
        ]
        submitted += jobs.values()
        self._known = {each.job_id: each.time_s for each in submitted}
        following = iter(submitted)
        return [next(following) if isinstance(e, JobSubmitted) else e for e in received]

    def _submitted(self, job: JobSubmitted) -> Sequence[Event]:
        self._known[job.job_id] = job.time_s
        return (job,)

    def _completed(
        self, event: JobCompleted | JobHeld | JobRequeued, state: JobState
    ) -> Sequence[Event]:
        if self._known.pop(event.job_id, None) is None:
            return ()
        return (JobCompleted(event.time_s, event.job_id, state),)
