"""The live world: orders, promises, refusals, and the fall-back to shadow."""

from __future__ import annotations

import pytest

from hpcosim_protocol import (
    AllocateJob,
    DecisionRejected,
    Error,
    Events,
    Hello,
    JobCompleted,
    JobStarted,
    KillJob,
    RejectJob,
    ServerMessage,
    Welcome,
    decode_server_message,
)
from hpcosim_slurm.commands import Cancel, Order, Place, Release, Withdraw
from hpcosim_slurm.errors import SlurmError
from support.bridges import Talk
from support.fake_cluster import EPOCH_S
from support.live_scenes import LIMITS, Scene


@pytest.fixture
def scene() -> Scene:
    """A scene without jobs."""
    return Scene()


def test_an_allocation_becomes_a_command_and_an_event(scene: Scene) -> None:
    """A job starts in reality, and then for the scheduler, on the nodes of the decision."""
    job = scene.submit(run_s=10.0)
    scene.talk.decide(AllocateJob(job, [2]), wake_on=["job_started"])
    assert scene.carrier.actions == [Place(str(job), ("node2",), "main")]
    assert scene.look(1.0) == [JobStarted(EPOCH_S + 1.0, job, [2], [1])]
    scene.talk.ask()
    assert scene.look(10.0) == [JobCompleted(EPOCH_S + 11.0, job, "completed")]


def test_a_mistake_is_rejected_before_slurm_hears_of_it(scene: Scene) -> None:
    """A node that is promised to another job is busy."""
    first, second = scene.submit(), scene.submit()
    scene.talk.ask(AllocateJob(first, [0]), AllocateJob(second, [0]))
    (event,) = scene.talk.due()
    assert isinstance(event, DecisionRejected)
    assert (event.code, event.job_id) == ("node_busy", second)
    assert len(scene.carrier.actions) == 1


def test_slurms_refusal_has_slurms_words(scene: Scene) -> None:
    """An order that Slurm refuses is a rejected decision, and the job waits on."""
    job = scene.submit()
    scene.carrier.refuses = "Invalid node name specified"
    scene.talk.ask(AllocateJob(job, [0]))
    (event,) = scene.talk.due()
    assert isinstance(event, DecisionRejected)
    assert event.reason == "Slurm: Invalid node name specified"
    scene.carrier.refuses = ""
    scene.talk.decide(AllocateJob(job, [0]), wake_on=["job_started"])
    assert isinstance(scene.look(1.0)[0], JobStarted)


def test_a_job_that_slurm_does_not_start_is_withdrawn(scene: Scene) -> None:
    """After the timeout the decision is rejected, and the job is taken back."""
    job = scene.submit()
    scene.carrier.starts = False
    scene.talk.decide(AllocateJob(job, [0]))
    assert scene.look(4.0) == []
    (event,) = scene.look(2.0)
    assert isinstance(event, DecisionRejected)
    assert "has not started the job within 5 s" in event.reason
    scene.talk.ask()
    scene.talk.due()
    assert scene.carrier.actions[-1] == Withdraw(str(job), "queue")


def test_a_job_that_starts_elsewhere_is_told_as_it_is(scene: Scene) -> None:
    """Reality wins: the event has the real nodes."""
    job = scene.submit()
    scene.carrier.starts = False
    scene.talk.decide(AllocateJob(job, [0]), wake_on=["job_started"])
    scene.carrier.starts = True
    scene.carrier.carry_out([Order(Place(str(job), ("node1",), "main"), "somebody")])
    assert scene.look(1.0) == [JobStarted(EPOCH_S + 1.0, job, [1], [1])]


@pytest.mark.parametrize(
    ("decision", "state"), [(RejectJob, "rejected"), (KillJob, "killed")], ids=["reject", "kill"]
)
def test_a_cancelled_job_has_the_state_of_the_decision(
    scene: Scene, decision: type[RejectJob | KillJob], state: str
) -> None:
    """`reject_job` and `kill_job` cancel in Slurm, and end the job when Slurm has done it."""
    job = scene.submit(run_s=50.0)
    if decision is KillJob:
        scene.talk.decide(AllocateJob(job, [0]), wake_on=["job_started"])
        scene.look(1.0)
    scene.talk.ask(decision(job))
    assert scene.talk.due() == []
    assert scene.carrier.actions[-1] == Cancel(str(job))
    (event,) = scene.look(1.0)
    assert isinstance(event, JobCompleted)
    assert event.state == state


def taken_over(scene: Scene) -> ServerMessage | None:
    """Return the reply to a new scheduler that knocked, if there is one now."""
    replies = [reply for envelope, reply in scene.bridge.due() if envelope == (b"next",)]
    return decode_server_message(replies[0]) if replies else None


@pytest.mark.parametrize("starts", [True, False])
def test_the_next_scheduler_waits_for_jobs_that_slurm_is_starting(
    scene: Scene, starts: bool
) -> None:
    """It would start them a second time. It waits for their starts, at most for the timeout."""
    job = scene.submit(run_s=50.0)
    scene.carrier.starts = False
    scene.talk.decide(AllocateJob(job, [0]))
    scene.bridge.left(b"client")
    hello = Hello(versions=[1], workload_manager=True)
    assert scene.talk.say(hello, (b"next",)) is None
    scene.cluster.now_s += 3.0
    assert scene.talk.say(hello, (b"next",)) is None  # repeated: the deadline stays
    assert taken_over(scene) is None
    if starts:
        scene.carrier.starts = True
        scene.carrier.carry_out([Order(Place(str(job), ("node0",), "main"), "Slurm")])
    else:
        scene.cluster.now_s += 1.9
        assert taken_over(scene) is None
        scene.cluster.now_s += 0.2
    scene.bridge.note(scene.cluster.state())
    welcome = taken_over(scene)
    assert isinstance(welcome, Welcome)
    scene.talk.welcome, scene.talk.seq = welcome, 0
    events = scene.talk.decide()
    assert any(isinstance(event, JobStarted) for event in events) == starts


def fell_back(scene: Scene) -> str:
    """Look, and return the reason of the fall-back; empty: the bridge still acts."""
    replies = list(scene.bridge.due())
    if not scene.bridge.course.fell_back:
        return ""
    assert all(not isinstance(reply, Events) for reply in replies)
    return "fell back"


def test_a_silent_scheduler_ends_the_acting(scene: Scene) -> None:
    """A scheduler that does not decide loses the cluster, and the waiting jobs are released."""
    job = scene.submit()
    scene.cluster.now_s += 9.0
    assert not fell_back(scene)
    scene.cluster.now_s += 2.0
    assert fell_back(scene)
    assert scene.carrier.actions == [Release(str(job), "main")]


def test_a_dead_scheduler_ends_the_acting(scene: Scene) -> None:
    """A scheduler whose connection is closed loses the cluster after the same time."""
    scene.talk.decide()
    scene.bridge.left(b"client")
    scene.cluster.now_s += 9.0
    assert not fell_back(scene)
    scene.cluster.now_s += 2.0
    assert fell_back(scene)


def test_a_scheduler_that_waits_may_be_silent(scene: Scene) -> None:
    """A scheduler whose request waits for an event is not slow."""
    scene.talk.decide()
    scene.cluster.now_s += 1000.0
    assert not fell_back(scene)


def test_too_many_rejections_end_the_acting(scene: Scene) -> None:
    """A scheduler whose decisions are rejected again and again has another view of the cluster."""
    job = scene.submit()
    for _ in range(3):
        scene.talk.ask(AllocateJob(job, [7]))
        assert scene.talk.due()
    scene.talk.ask(AllocateJob(job, [7]))
    assert fell_back(scene)


def test_decisions_that_slurm_never_carries_out_end_the_acting(scene: Scene) -> None:
    """Also of one job that is placed again and again: Slurm accepts it and does nothing."""
    job = scene.submit()
    scene.carrier.starts = False
    for _ in range(LIMITS.rejected + 1):
        assert not fell_back(scene)
        scene.talk.decide(AllocateJob(job, [0]))
        assert scene.look(6.0)
    assert fell_back(scene)


def test_a_divergence_ends_the_acting(scene: Scene) -> None:
    """Somebody else starts a job on a node that the scheduler has given to another job."""
    first, second = scene.submit(run_s=900.0, limit_s=900.0), scene.submit(run_s=900.0)
    scene.talk.decide(AllocateJob(first, [0]), wake_on=["node_failed"])
    scene.look(1.0)
    scene.carrier.carry_out([Order(Place(str(second), ("node0",), "main"), "somebody")])
    scene.look(1.0)
    assert not fell_back(scene)
    scene.look(9.0)
    assert not fell_back(scene)
    scene.cluster.now_s += 2.0
    assert fell_back(scene)


def test_an_unreachable_controller_ends_the_acting(scene: Scene) -> None:
    """The jobs are released when the controller answers again."""
    job = scene.submit()
    scene.talk.decide()
    scene.carrier.silent = True
    scene.bridge.lost(SlurmError("no answer"))
    scene.cluster.now_s += 6.0
    assert fell_back(scene)
    assert scene.carrier.actions == []
    scene.carrier.silent = False
    scene.bridge.note(scene.cluster.state())
    assert scene.carrier.actions == [Release(str(job), "main")]


def test_a_bridge_that_stops_for_good_releases_the_jobs(scene: Scene) -> None:
    """The scheduler, whose request waits, hears that the session is over."""
    job = scene.submit()
    scene.talk.decide()
    assert scene.bridge.left_waiting() == 1
    (reply,) = [decode_server_message(data) for _, data in scene.bridge.stop()]
    assert isinstance(reply, Error)
    assert (reply.code, reply.fatal) == ("shutting_down", True)
    assert scene.carrier.actions == [Release(str(job), "main")]
    assert scene.bridge.left_waiting() == 0


def test_after_the_fall_back_schedulers_see_a_shadow(scene: Scene) -> None:
    """A new session drives a copy, and no command is run for it."""
    scene.cluster.now_s += 20.0
    assert fell_back(scene)
    scene.carrier.refuses = "no"
    talk = Talk(scene.bridge)
    talk.decide()
    job = scene.cluster.submit()
    talk.ask()
    scene.bridge.note(scene.cluster.state())
    assert talk.due()
    talk.decide(AllocateJob(job, [0]), wake_on=["job_started"])
    assert scene.carrier.actions == []
