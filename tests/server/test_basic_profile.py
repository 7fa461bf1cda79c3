"""Events of sessions in the basic profile of the protocol."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

import pytest

from hpcosim_protocol import (
    DecisionRejected,
    Event,
    JobCompleted,
    JobEligible,
    JobHeld,
    JobRequest,
    JobRequeued,
    JobResumed,
    JobStarted,
    JobState,
    JobSubmitted,
    JobSuspended,
    JobUpdated,
    NodeDrained,
    NodeFailed,
    NodeRepaired,
    RejectionCode,
)
from hpcosim_server.service.session import BasicProfile
from hpcosim_sim.engine.outbox import Outbox, mask_of

EXTENSION_STATES = {"failed", "cancelled", "preempted", "deadline"}
HELD = JobRequest(hold=True)


def received(*events: Event) -> list[Event]:
    """Return what a client in the basic profile receives for events."""
    profile = BasicProfile()
    return [each for event in events for each in profile.events(event)]


def test_a_job_is_submitted_when_it_is_eligible() -> None:
    """The client learns of a job at the time from which it may be allocated."""
    submitted = JobSubmitted(1.0, 7, 4, 60.0, user="ann", request=HELD, eligible=False)

    assert received(submitted) == []
    assert received(submitted, JobEligible(5.0, 7)) == [
        JobSubmitted(5.0, 7, 4, 60.0, user="ann", request=HELD)
    ]


@pytest.mark.parametrize(
    "waits_again", [JobHeld(3.0, 7), JobRequeued(3.0, 7, "node_failed")], ids=["held", "requeued"]
)
def test_a_job_that_waits_again_is_killed_and_submitted_again(waits_again: Event) -> None:
    """A job that is held or requeued ends for the client, and comes back when it is eligible."""
    assert received(
        JobSubmitted(1.0, 7, 4, 60.0),
        waits_again,
        JobUpdated(4.0, 7, 90.0, JobRequest(nice=1)),
        JobEligible(9.0, 7),
        JobCompleted(10.0, 7, "killed"),
    ) == [
        JobSubmitted(1.0, 7, 4, 60.0),
        JobCompleted(3.0, 7, "killed"),
        JobSubmitted(9.0, 7, 4, 90.0, request=JobRequest(nice=1)),
        JobCompleted(10.0, 7, "killed"),
    ]


def test_a_job_that_the_client_does_not_know_ends_without_event() -> None:
    """The end of a job that never was eligible, or that waits again, is not reported."""
    assert (
        received(JobSubmitted(1.0, 7, 4, 60.0, eligible=False), JobCompleted(2.0, 7, "cancelled"))
        == []
    )
    assert received(
        JobSubmitted(1.0, 7, 4, 60.0), JobHeld(2.0, 7), JobCompleted(3.0, 7, "cancelled")
    )[1:] == [JobCompleted(2.0, 7, "killed")]


@pytest.mark.parametrize("state", get_args(JobState))
def test_states_are_those_of_the_basic_profile(state: JobState) -> None:
    """A final state of workload managers is reported as one that the client knows."""
    ended = received(JobSubmitted(1.0, 7, 4, 60.0), JobCompleted(2.0, 7, state))[-1]

    assert isinstance(ended, JobCompleted)
    assert ended.state not in EXTENSION_STATES
    assert ended.state == state or state in EXTENSION_STATES


@pytest.mark.parametrize("code", get_args(RejectionCode))
def test_codes_are_those_of_the_basic_profile(code: RejectionCode) -> None:
    """A code of workload managers for an allocation is reported as one that the client knows."""
    (event,) = received(DecisionRejected(1.0, 2, 0, "allocate_job", code, "a reason", 7))

    assert isinstance(event, DecisionRejected)
    assert (
        re.fullmatch("(job_not_eligible|node_unav|reserved|insuff|constraint).*", event.code)
        is None
    )
    assert (event.reason, event.job_id) == ("a reason", 7)


def test_other_events_of_workload_managers_are_left_out() -> None:
    """Suspension is not reported; a drained node counts as failed."""
    started = JobStarted(1.0, 7, [0], [4])
    nodes: Sequence[Event] = (NodeFailed(4.0, 1), NodeRepaired(5.0, 0))

    assert received(
        started, JobSuspended(2.0, 7), JobResumed(3.0, 7), NodeDrained(3.0, 0), *nodes
    ) == [started, NodeFailed(3.0, 0), *nodes]


def test_a_snapshot_replaces_what_the_client_knows() -> None:
    """After a snapshot, the jobs in it are those that the client knows."""
    profile = BasicProfile()
    profile.events(JobSubmitted(1.0, 7, 4, 60.0))
    eligible = JobSubmitted(0.0, 9, 1, 10.0)
    waiting = JobSubmitted(0.0, 8, 1, 10.0, eligible=False)

    assert profile.snapshot([eligible, waiting, JobSuspended(5.0, 9)]) == [eligible]
    assert profile.events(JobEligible(6.0, 8)) == (JobSubmitted(6.0, 8, 1, 10.0),)
    assert profile.events(JobHeld(6.0, 9)) == (JobCompleted(6.0, 9, "killed"),)


def test_events_of_the_profile_wake_the_client() -> None:
    """An event that is left out does not wake the client; one that takes its place does."""
    outbox = Outbox()
    outbox.profile = BasicProfile().events
    wake = mask_of(["job_submitted"])

    outbox.add(JobSubmitted(1.0, 7, 4, 60.0, eligible=False))
    assert (outbox.kinds & wake, outbox.events) == (0, [])
    outbox.add(JobEligible(2.0, 7))
    assert outbox.kinds & wake
    assert outbox.take() == [JobSubmitted(2.0, 7, 4, 60.0)]
