"""The view of jobs that wait for their begin, are suspended or requeued, and of nodes that fail."""

from __future__ import annotations

import math

import pytest

from hpcosim_client import PolicyError, View
from hpcosim_protocol import (
    AllocateJob,
    Checkpointing,
    DecisionRejected,
    Event,
    JobCompleted,
    JobEligible,
    JobHeld,
    JobRequest,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    JobUpdated,
    NodeDrained,
    NodeFailed,
    NodeGroup,
    NodeRepaired,
    NodeReservation,
    Platform,
    Processor,
    ResumeJob,
    SetAlarm,
    SuspendJob,
)

PLATFORM = Platform(
    (NodeGroup(2, (Processor(4),), memory_mb=8.0, gres={"gpu": 1}),),
    consumable=("cores", "memory"),
)


def submitted(job_id: int, cores: int = 4, *, eligible: bool = True, **request: object) -> Event:
    """Return the submission of a job that holds 1 MB per core."""
    asked = JobRequest(**request) if request else None  # type: ignore[arg-type]
    return JobSubmitted(0.0, job_id, cores, 10.0, memory_mb=1.0, request=asked, eligible=eligible)


def view_of(*events: Event, platform: Platform = PLATFORM) -> View:
    """Return a view after these events."""
    view = View(platform)
    view.apply(0.0, events)
    return view


def rejection(decision: str, job_id: int, code: str = "node_busy") -> DecisionRejected:
    """Return the rejection of the only decision about a job."""
    return DecisionRejected(0.0, 1, 0, decision, code, "", job_id)  # type: ignore[arg-type]


def test_queue_has_only_eligible_jobs() -> None:
    """A job joins the queue in submission order when it becomes eligible."""
    view = view_of(submitted(1, eligible=False), submitted(2))
    assert (list(view.queue), list(view.pending)) == ([2], [1])
    view.apply(1.0, [JobEligible(1.0, 1)])
    assert (list(view.queue), list(view.pending)) == ([1, 2], [])
    assert [job.job_id for job in view.arrived] == [1]


def test_a_held_job_leaves_the_queue() -> None:
    """A held job is pending until it is eligible again."""
    view = view_of(submitted(1), submitted(2))
    view.apply(1.0, [JobHeld(1.0, 1)])
    assert (list(view.queue), list(view.pending)) == ([2], [1])


def test_an_updated_job_has_the_new_request() -> None:
    """An update changes requested time and request, and the job counts as arrived."""
    view = view_of(submitted(1, cores=1))
    assert view.nodes.offered(view.queue[1]).tolist() == [4, 4]
    view.apply(1.0, [JobUpdated(1.0, 1, 5.0, JobRequest(excluded_nodes=(0,)))])
    assert view.queue[1].requested_s == 5.0
    assert view.nodes.offered(view.queue[1]).tolist() == [0, 4]
    assert view.arrived == [view.queue[1]]


def test_a_suspended_job_keeps_memory_and_devices() -> None:
    """Its cores are free at once; its memory and its GPU are not."""
    view = view_of(submitted(1, gres_per_node={"gpu": 1}), submitted(2, gres_per_node={"gpu": 1}))
    job = view.queue[1]
    assert view.start(job)
    view.suspend(job)
    assert view.decisions[1:] == [SuspendJob(1)]
    assert view.nodes.free.tolist() == [4, 4]
    assert view.nodes.offered(view.queue[2]).tolist() == [0, 4]


def test_time_in_suspension_delays_the_expected_end() -> None:
    """A job suspended from 2 to 7 s is expected to end at 15 s instead of 10 s."""
    view = view_of(submitted(1))
    job = view.queue[1]
    view.start(job)
    view.apply(2.0, [])
    view.suspend(job)
    view.apply(7.0, [])
    assert view.resume(job)
    assert view.decisions == [ResumeJob(1)]
    assert job.expected_end_s(7.0) == 15.0


def test_a_job_resumes_only_on_free_cores() -> None:
    """While another job has the cores, `resume` does nothing."""
    view = view_of(submitted(1, cores=4), submitted(2, cores=8))
    first, second = view.queue.values()
    view.start(first)
    view.suspend(first)
    assert view.start(second)
    assert not view.resume(first)
    view.apply(1.0, [JobCompleted(1.0, 2, "completed")])
    assert view.resume(first)


@pytest.mark.parametrize("decision", ["suspend_job", "resume_job"])
def test_a_rejected_decision_is_undone(decision: str) -> None:
    """After a rejection the job is where it was before the decision."""
    view = view_of(submitted(1))
    job = view.queue[1]
    view.start(job)
    view.suspend(job)
    if decision == "resume_job":
        view.resume(job)
    view.apply(0.0, [rejection(decision, 1)])
    assert (1 in view.suspended) == (decision == "resume_job")
    assert view.nodes.free.tolist() == ([4, 4] if decision == "resume_job" else [0, 4])


@pytest.mark.parametrize("suspended", [False, True])
def test_a_requeued_job_is_pending_and_holds_nothing(suspended: bool) -> None:
    """Running or suspended before, it waits again and all its resources are free."""
    view = view_of(submitted(1, requeue=True, gres_per_node={"gpu": 1}))
    job = view.queue[1]
    view.start(job)
    if suspended:
        view.suspend(job)
    view.requeue(job, begin_s=9.0)
    view.apply(1.0, [JobRequeued(1.0, 1, "decision")])
    assert list(view.pending) == [1]
    assert view.left == [job]
    assert (job.allocation, job.runs) == (None, 1)
    assert math.isnan(job.start_s)
    assert view.nodes.amounts.tolist() == view.nodes.slots.capacity.tolist()


def test_a_job_that_is_not_eligible_after_all_is_pending() -> None:
    """If the server rejects a start because the job is not eligible, the job is pending."""
    view = view_of(submitted(1))
    view.start(view.queue[1])
    view.apply(0.0, [rejection("allocate_job", 1, "job_not_eligible")])
    assert (list(view.pending), list(view.queue), list(view.running)) == ([1], [], [])


@pytest.mark.parametrize("event", [NodeFailed(1.0, 0), NodeDrained(1.0, 0)])
def test_no_job_starts_on_a_node_until_it_is_repaired(event: Event) -> None:
    """The cores of its ended jobs are free only after the repair."""
    view = view_of(submitted(1, cores=2), submitted(2, cores=8))
    view.start(view.queue[1])
    view.apply(1.0, [event, JobCompleted(1.0, 1, "node_failed")])
    assert view.nodes.free.tolist() == [0, 4]
    assert not view.start(view.queue[2])
    view.apply(2.0, [NodeRepaired(2.0, 0)])
    assert view.start(view.queue[2])


def test_a_snapshot_restores_devices() -> None:
    """A job that runs in a snapshot holds the devices that the event states."""
    view = view_of(
        submitted(1, cores=1, gres_per_node={"gpu": 0.5}),
        JobStarted(0.0, 1, [1], [1], [{"gpu": [0]}]),
        submitted(2, cores=1, gres_per_node={"gpu": 1}),
    )
    assert view.nodes.offered(view.queue[2]).tolist() == [4, 0]


def test_a_job_of_a_snapshot_may_run_on_a_drained_node() -> None:
    """Its cores on that node come back hidden, and those on other nodes can be allocated."""
    view = view_of(
        NodeDrained(0.0, 0),
        submitted(1, cores=8),
        JobStarted(0.0, 1, [0, 1], [4, 4]),
        submitted(2, cores=4),
    )
    assert view.nodes.free.tolist() == [0, 0]
    view.apply(1.0, [JobCompleted(1.0, 1, "completed")])
    assert view.nodes.free.tolist() == [0, 4]
    assert view.nodes.free_cores == 4
    assert view.start(view.queue[2])


def test_stated_cores_and_devices_are_allocated() -> None:
    """`start` with nodes, cores and devices sends exactly these."""
    view = view_of(submitted(1, cores=3, gres_per_node={"gpu": 0.5}))
    devices = [{"gpu": [0]}, {"gpu": [0]}]
    assert view.start(view.queue[1], [1, 0], cores=[2, 1], gres=devices)
    assert view.decisions == [AllocateJob(1, [1, 0], [2, 1], devices)]


def test_the_policy_is_called_when_a_reservation_ends() -> None:
    """While a job waits, an alarm is set for the next begin or end of a reservation."""
    window = NodeReservation(name="w", nodes=((0, 1),), start_s=0.0, end_s=50.0)
    platform = Platform(PLATFORM.nodes, reservations=(window,))
    view = view_of(submitted(1), platform=platform)
    assert not view.start(view.queue[1])
    assert [each.at_s for each in view.decisions if isinstance(each, SetAlarm)] == [50.0]


def test_a_checkpoint_interval_needs_a_cost() -> None:
    """Jobs without checkpoints have no interval, and an interval is above 0."""
    view = view_of(submitted(1), submitted(2, checkpointing=Checkpointing(cost_s=1.0)))
    with pytest.raises(PolicyError, match="job 1 writes no checkpoints"):
        view.set_checkpoint(view.queue[1], 5.0)
    with pytest.raises(PolicyError, match="expected seconds > 0, got 0"):
        view.set_checkpoint(view.queue[2], 0.0)
