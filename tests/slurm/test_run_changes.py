"""Decisions about runs in a live world: kill with a time of grace, requeue, suspend, resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_protocol import (
    AllocateJob,
    Decision,
    DecisionRejected,
    Event,
    JobCompleted,
    JobEligible,
    JobRequeued,
    JobResumed,
    JobStarted,
    JobSuspended,
    KillJob,
    RequeueJob,
    ResumeJob,
    SuspendJob,
)
from hpcosim_sim.record.recording import STATES
from hpcosim_slurm.commands import (
    Begin,
    Cancel,
    Hold,
    Place,
    Requeue,
    Resume,
    Suspend,
    Terminate,
    Withdraw,
)
from support.fake_cluster import EPOCH_S
from support.live_scenes import CREDENTIAL_S, LIMITS, Scene

RUN_EVENTS = [
    *("job_requeued", "job_suspended", "job_resumed", "job_completed", "decision_rejected"),
]


@pytest.fixture
def scene() -> Scene:
    """A scene without jobs, in mode place."""
    return Scene()


def decided(scene: Scene, *decisions: Decision, after_s: float = 1.0) -> list[Event]:
    """Decide, let time pass, and return the events that wake the scheduler."""
    found = scene.talk.decide(*decisions, wake_on=RUN_EVENTS)
    return found or scene.look(after_s)


def test_a_suspended_job_is_resumed(scene: Scene) -> None:
    """Each is an event when Slurm has done it; meanwhile another job may have the node."""
    job = scene.run(run_s=20.0)
    assert decided(scene, SuspendJob(job)) == [JobSuspended(EPOCH_S + 2.0, job)]
    other = scene.run(run_s=5.0)
    (rejected,) = decided(scene, ResumeJob(job))
    assert isinstance(rejected, DecisionRejected)
    assert rejected.code == "node_busy"
    assert decided(scene, after_s=5.0) == [JobCompleted(EPOCH_S + 8.0, other, "completed")]
    assert decided(scene, ResumeJob(job)) == [JobResumed(EPOCH_S + 9.0, job)]
    actions = [each for each in scene.carrier.actions if not isinstance(each, Place)]
    assert actions == [Suspend(str(job)), Resume(str(job))]


def test_cores_of_a_job_that_is_being_resumed_are_taken(scene: Scene) -> None:
    """A second decision of the same request cannot give them to another job."""
    job, other = scene.run(run_s=50.0), scene.submit()
    decided(scene, SuspendJob(job))
    scene.talk.ask(ResumeJob(job), AllocateJob(other, [0]))
    (event,) = scene.talk.due()
    assert isinstance(event, DecisionRejected)
    assert (event.code, event.job_id) == ("node_busy", other)


@pytest.mark.parametrize("decision", [SuspendJob, KillJob, RequeueJob])
def test_cores_that_a_decision_frees_are_given_in_the_same_request(
    scene: Scene, decision: type[SuspendJob | KillJob | RequeueJob]
) -> None:
    """As in a simulation, so that a scheduler can preempt; Slurm waits until they are free."""
    job, other = scene.run(run_s=50.0), scene.submit()
    scene.talk.decide(decision(job), AllocateJob(other, [0]), wake_on=["job_started"])
    assert scene.carrier.actions[-1] == Place(str(other), ("node0",), "main")
    assert scene.look(1.0)[-1] == JobStarted(EPOCH_S + 2.0, other, [0], [1])


def test_a_job_is_resumed_when_another_has_freed_its_cores(scene: Scene) -> None:
    """Slurm would resume it at once, also beside the other job."""
    job = scene.run(run_s=50.0)
    decided(scene, SuspendJob(job))
    other = scene.run(run_s=50.0)
    scene.talk.decide(KillJob(other), ResumeJob(job), wake_on=["job_resumed"])
    assert Resume(str(job)) not in scene.carrier.actions
    scene.look(1.0)
    assert scene.carrier.actions[-2:] == [Cancel(str(other)), Resume(str(job))]
    assert scene.look(1.0)[-1] == JobResumed(EPOCH_S + 5.0, job)


def test_a_requeued_job_waits_in_its_partition_again(scene: Scene) -> None:
    """It is taken back, and starts by a decision when Slurm permits it."""
    job = scene.run(run_s=50.0)
    assert decided(scene, RequeueJob(job)) == [JobRequeued(EPOCH_S + 2.0, job, "decision")]
    scene.talk.ask()
    assert scene.look() == []
    assert scene.carrier.actions[1:] == [Requeue(str(job)), Withdraw(str(job), "queue")]
    assert scene.look(CREDENTIAL_S) == [JobEligible(EPOCH_S + 1.0 + CREDENTIAL_S, job)]


def test_a_requeued_job_begins_when_the_scheduler_says(scene: Scene) -> None:
    """`begin_s` after the time at which Slurm permits it becomes Slurm's earliest start."""
    job, begin_s = scene.run(run_s=50.0), EPOCH_S + 500.0
    decided(scene, RequeueJob(job, begin_s=begin_s))
    scene.talk.decide(wake_on=["job_eligible"])
    assert scene.carrier.actions[-1] == Begin(str(job), begin_s)
    assert scene.look(400.0) == []
    assert scene.look(100.0)[-1] == JobEligible(begin_s, job)


def test_a_job_that_a_user_requeues_is_taken_back(scene: Scene) -> None:
    """Otherwise Slurm would start it again by itself, on the nodes that it had."""
    job = scene.run(run_s=50.0)
    scene.talk.ask(wake_on=["job_requeued"])
    scene.cluster.requeue(job)
    assert scene.look()[0] == JobRequeued(EPOCH_S + 1.0, job, "user")
    scene.talk.decide()
    assert scene.carrier.actions[-1] == Withdraw(str(job), "queue")


def test_in_mode_hold_a_requeued_job_is_held() -> None:
    """Without a partition for them, jobs wait held."""
    scene = Scene("hold", waiting="")
    job = scene.submit(run_s=50.0)
    scene.talk.decide(AllocateJob(job, [0]), wake_on=["job_started"])
    scene.cluster.starts = True
    scene.cluster.release(job)
    assert scene.look(1.0)
    scene.cluster.starts = False
    assert decided(scene, RequeueJob(job)) == [JobRequeued(EPOCH_S + 2.0, job, "decision")]
    scene.talk.decide()
    assert scene.carrier.actions[-1] == Hold(str(job))
    assert scene.cluster.jobs[job].is_held


@pytest.mark.parametrize("catches", [False, True])
def test_a_job_is_killed_after_a_time_of_grace(scene: Scene, catches: bool) -> None:
    """It gets SIGTERM, and may end by it; a job that goes on is cancelled after that time."""
    job = scene.run(run_s=50.0, fails=not catches)
    found = decided(scene, KillJob(job, grace_s=3.0))
    end_s = EPOCH_S + 2.0
    if catches:
        assert found == []
        assert scene.carrier.actions[-1] == Terminate(str(job))
        assert scene.look(2.0) == []  # now it is cancelled, which the next look shows
        found, end_s = scene.look(1.0), EPOCH_S + 5.0
    assert found == [JobCompleted(end_s, job, "killed")]
    assert isinstance(scene.carrier.actions[-1], Cancel if catches else Terminate)


def test_a_job_that_ends_in_its_time_of_grace_ends_as_usual(scene: Scene) -> None:
    """Nothing is cancelled then."""
    job = scene.run(run_s=3.0)
    found = decided(scene, KillJob(job, grace_s=30.0), after_s=2.0)
    assert found == [JobCompleted(EPOCH_S + 3.0, job, "completed")]
    scene.talk.ask()
    scene.look(60.0)
    assert scene.carrier.actions[-1] == Terminate(str(job))


def test_a_suspended_job_gets_no_signal(scene: Scene) -> None:
    """Slurm signals no suspended job; it is cancelled when its time of grace is over."""
    job = scene.run(run_s=50.0)
    decided(scene, SuspendJob(job))
    assert decided(scene, KillJob(job, grace_s=2.0)) == []
    assert scene.look(1.0) == []
    assert scene.look(1.0) == [JobCompleted(EPOCH_S + 5.0, job, "killed")]
    assert scene.carrier.actions[-2:] == [Suspend(str(job)), Cancel(str(job))]


def test_a_requeue_waits_for_its_time_of_grace(scene: Scene) -> None:
    """Without a signal: a job that ends cannot be requeued."""
    job = scene.run(run_s=50.0)
    assert decided(scene, RequeueJob(job, grace_s=2.0)) == []
    assert len(scene.carrier.actions) == 1
    assert scene.look(1.0) == []
    assert scene.look(1.0) == [JobRequeued(EPOCH_S + 4.0, job, "decision")]


@pytest.mark.parametrize(
    ("decision", "code"),
    [
        (SuspendJob, "job_not_running"),
        (RequeueJob, "not_requeueable"),
        (KillJob, "job_not_running"),
    ],
)
@pytest.mark.parametrize("refuses", [True, False])
def test_what_slurm_does_not_do_is_rejected(
    scene: Scene, decision: type[SuspendJob | RequeueJob | KillJob], code: str, refuses: bool
) -> None:
    """Slurm refuses it in its words, or the bridge sees no effect in time."""
    job = scene.run(run_s=50.0)
    scene.carrier.obeys = False
    scene.carrier.refuses = "Requested operation is presently disabled" if refuses else ""
    (event,) = decided(scene, decision(job), after_s=1.0 if refuses else 6.0)
    assert isinstance(event, DecisionRejected)
    assert (event.code, event.job_id) == (code, job)
    late = "within 5 s; the job is RUNNING"
    assert (scene.carrier.refuses or late) in event.reason


def test_a_decision_is_not_given_twice(scene: Scene) -> None:
    """Slurm would suspend a suspended job again without a word."""
    job = scene.run(run_s=50.0)
    scene.carrier.obeys = False
    scene.talk.decide(SuspendJob(job), wake_on=["decision_rejected"])
    scene.look(5.0)
    scene.talk.ask(SuspendJob(job), SuspendJob(job))
    (event,) = scene.talk.due()
    assert isinstance(event, DecisionRejected)
    assert "Slurm has not carried out the last suspend_job yet" in event.reason


def test_a_bridge_that_starts_again_knows_times_of_grace(tmp_path: Path) -> None:
    """The journal has them: the job is cancelled in time, once."""
    scene = Scene(journal=tmp_path / "journal")
    job = scene.run(run_s=50.0)
    assert decided(scene, KillJob(job, grace_s=10.0)) == []
    scene.bridge.close()
    scene.bridge = scene.talk.bridge = scene.new_bridge()
    scene.look(8.0)
    assert scene.carrier.actions[-1] == Terminate(str(job))
    scene.look(1.0)
    list(scene.bridge.due())
    scene.look(1.0)
    assert scene.carrier.actions.count(Cancel(str(job))) == 1
    session = scene.bridge.course.session
    assert session is not None
    recording = session.world.engine.recording
    assert STATES[recording.state[0]] == "killed"


def test_after_a_fall_back_suspended_jobs_go_on_when_there_is_room(scene: Scene) -> None:
    """Nobody else would resume a job that the scheduler has suspended."""
    job = scene.run(run_s=50.0)
    decided(scene, SuspendJob(job))
    other = scene.run(run_s=30.0)
    scene.talk.decide()
    scene.bridge.left(b"client")
    scene.cluster.now_s += LIMITS.silent_s + 1.0
    list(scene.bridge.due())
    assert scene.bridge.course.fell_back
    assert Resume(str(job)) not in scene.carrier.actions
    scene.cluster.cancel(other)
    scene.bridge.note(scene.cluster.state())
    assert scene.carrier.actions[-1] == Resume(str(job))
    scene.bridge.note(scene.cluster.state())
    assert scene.carrier.actions.count(Resume(str(job))) == 1
