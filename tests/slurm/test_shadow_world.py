"""The shadow world: what a scheduler sees, and when its jobs end."""

from __future__ import annotations

from hpcosim_protocol import (
    AllocateJob,
    DecisionRejected,
    Event,
    JobCompleted,
    JobEligible,
    JobHeld,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    JobUpdated,
    NodeDrained,
    NodeFailed,
    NodeRepaired,
    SimulationBegan,
)
from hpcosim_sim.engine.jobs import submission_of
from hpcosim_slurm.worlds.cluster_copy import ShadowWorld
from hpcosim_slurm.worlds.difference import NO_STATE, applied, difference
from hpcosim_slurm.worlds.site import Site, chosen, platform_of
from hpcosim_slurm.worlds.specs import Shown, spec_of
from support.fake_cluster import EPOCH_S, FakeCluster

SITE = Site()


def copy_of(cluster: FakeCluster) -> ShadowWorld:
    """Return the shadow of a cluster as it is now."""
    return ShadowWorld(chosen(cluster.state(), SITE), SITE)


def look(world: ShadowWorld, cluster: FakeCluster, after_s: float = 0.0) -> list[Event]:
    """Let time pass in reality and in the copy, and return the events."""
    cluster.advance(cluster.now_s + after_s)
    world.note(difference(world.state, chosen(cluster.state(), SITE), cluster.now_s))
    return world.engine.outbox.take()


def started(world: ShadowWorld, job_id: int, *nodes: int) -> list[Event]:
    """Let the scheduler start a job, and return the events."""
    world.carry_out(AllocateJob(job_id, list(nodes)), 1, 0)
    return world.engine.outbox.take()


def test_the_first_events_are_those_of_the_present_jobs() -> None:
    """Jobs of the start are submitted at their real times, and run on their real nodes."""
    cluster = FakeCluster(nodes=1)
    cluster.submit(run_s=30.0)
    cluster.advance(EPOCH_S + 5.0)
    cluster.submit()
    cluster.advance(EPOCH_S + 8.0)
    assert copy_of(cluster).engine.outbox.take() == [
        SimulationBegan(EPOCH_S),
        world_submission(cluster, 1, EPOCH_S),
        JobStarted(EPOCH_S, 1, [0], [1]),
        world_submission(cluster, 2, EPOCH_S + 5.0),
    ]


def world_submission(cluster: FakeCluster, job_id: int, at_s: float) -> JobSubmitted:
    """Return the event of the submission of a job."""
    state = cluster.state()
    shown = Shown(state, platform_of(state, SITE))
    return submission_of(spec_of(cluster.jobs[job_id], at_s, shown))


def test_a_copy_ends_after_the_real_run_time_that_is_known() -> None:
    """A job that is over in reality runs for as long in the copy."""
    cluster = FakeCluster()
    world = copy_of(cluster)
    job = cluster.submit(run_s=10.0)
    look(world, cluster, 10.0)
    begun_s = cluster.now_s
    started(world, job, 2)
    assert look(world, cluster, 9.0) == []
    assert look(world, cluster, 5.0) == [JobCompleted(begun_s + 10.0, job, "completed")]


def test_a_copy_that_is_ahead_ends_when_its_run_time_becomes_known() -> None:
    """A job that the scheduler starts before Slurm does ends no earlier than the real job."""
    cluster = FakeCluster(nodes=1, starts=False)
    world = copy_of(cluster)
    job = cluster.submit(run_s=10.0)
    look(world, cluster)
    started(world, job, 0)
    cluster.starts = True
    assert look(world, cluster, 20.0) == []
    cluster.release(job)
    assert look(world, cluster, 9.0) == []
    assert look(world, cluster, 1.5) == [JobCompleted(cluster.now_s, job, "completed")]


def test_a_copy_ends_at_its_time_limit_at_the_latest() -> None:
    """A job whose run time stays unknown is killed at its time limit in the copy."""
    cluster = FakeCluster(starts=False)
    world = copy_of(cluster)
    job = cluster.submit(limit_s=60.0)
    look(world, cluster)
    started(world, job, 0)
    assert look(world, cluster, 61.0) == [JobCompleted(EPOCH_S + 60.0, job, "timeout")]


def test_a_cancelled_job_ends_at_once() -> None:
    """A job that its user cancels ends in the copy, whether it waits or runs there."""
    cluster = FakeCluster(starts=False)
    world = copy_of(cluster)
    first, second = cluster.submit(), cluster.submit()
    look(world, cluster)
    started(world, first, 0)
    cluster.cancel(first)
    cluster.cancel(second)
    assert look(world, cluster, 1.0) == [
        JobCompleted(EPOCH_S + 1.0, first, "cancelled"),
        JobCompleted(EPOCH_S + 1.0, second, "cancelled"),
    ]


def test_holds_releases_and_limits_are_events() -> None:
    """What users do to waiting jobs is told as events of the protocol."""
    cluster = FakeCluster(starts=False)
    world = copy_of(cluster)
    job = cluster.submit()
    look(world, cluster)
    cluster.hold(job)
    assert look(world, cluster) == [JobHeld(EPOCH_S, job)]
    cluster.release(job)
    assert look(world, cluster) == [JobEligible(EPOCH_S, job)]
    cluster.limit(job, 120.0)
    (event,) = look(world, cluster)
    assert isinstance(event, JobUpdated)
    assert event.requested_s == 120.0


def test_nodes_fail_are_drained_and_return() -> None:
    """Changes of nodes are events, and a failed node requeues the copy of a job on it."""
    cluster = FakeCluster(starts=False)
    world = copy_of(cluster)
    job = cluster.submit()
    look(world, cluster)
    started(world, job, 0)
    cluster.fail("node0")
    cluster.drain("node1")
    assert look(world, cluster) == [
        NodeFailed(EPOCH_S, 0),
        JobRequeued(EPOCH_S, job, "node_failed"),
        JobEligible(EPOCH_S, job),
        NodeDrained(EPOCH_S, 1),
    ]
    cluster.repair("node0")
    cluster.repair("node1")
    assert look(world, cluster) == [NodeRepaired(EPOCH_S, 0), NodeRepaired(EPOCH_S, 1)]


def test_a_failed_node_elsewhere_does_not_concern_the_copy() -> None:
    """A job that Slurm requeues because of a node runs on in the copy on another node."""
    cluster = FakeCluster()
    world = copy_of(cluster)
    job = cluster.submit()
    look(world, cluster)
    started(world, job, 3)
    cluster.fail(cluster.jobs[job].nodes[0])
    assert look(world, cluster, 1.0) == [NodeFailed(EPOCH_S + 1.0, 0)]


def test_a_requeue_by_a_user_requeues_the_copy() -> None:
    """A job that is requeued in reality waits again in the copy."""
    cluster = FakeCluster(nodes=1)
    world = copy_of(cluster)
    job = cluster.submit()
    look(world, cluster)
    started(world, job, 0)
    cluster.starts = False
    cluster.requeue(job)
    assert look(world, cluster, 1.0) == [
        JobRequeued(EPOCH_S + 1.0, job, "user"),
        JobEligible(EPOCH_S + 1.0, job),
    ]


def test_suspended_time_is_not_run_time() -> None:
    """The copy of a job that was suspended runs for the time without the suspension."""
    cluster = FakeCluster(nodes=1)
    world = copy_of(cluster)
    job = cluster.submit(run_s=10.0, limit_s=600.0)
    look(world, cluster, 4.0)
    cluster.suspend(job)
    look(world, cluster)
    look(world, cluster, 100.0)
    cluster.resume(job)
    look(world, cluster)
    look(world, cluster, 10.0)
    begun_s = cluster.now_s
    started(world, job, 0)
    assert look(world, cluster, 20.0) == [JobCompleted(begun_s + 10.0, job, "completed")]


def test_a_node_that_a_copy_holds_is_busy() -> None:
    """The copy refuses what the simulator refuses."""
    cluster = FakeCluster(starts=False)
    world = copy_of(cluster)
    first, second = cluster.submit(), cluster.submit()
    look(world, cluster)
    started(world, first, 0)
    (event,) = started(world, second, 0)
    assert isinstance(event, DecisionRejected)
    assert event.code == "node_busy"


def test_a_job_that_slurm_has_forgotten_is_over() -> None:
    """A job that vanished while the bridge was away ends in the copy."""
    cluster = FakeCluster()
    world = copy_of(cluster)
    job = cluster.submit(run_s=5.0)
    look(world, cluster)
    started(world, job, 0)
    cluster.advance(cluster.now_s + 10.0)
    cluster.forget()
    assert look(world, cluster) == [JobCompleted(cluster.now_s, job, "completed")]


def test_a_state_after_a_change_is_the_next_state() -> None:
    """The differences of states rebuild the states, up to values that change all the time."""
    cluster = FakeCluster()
    state = NO_STATE
    for _ in range(5):
        cluster.submit(run_s=3.0)
        cluster.advance(cluster.now_s + 1.0)
        after = cluster.state()
        state = applied(state, difference(state, after, cluster.now_s))
        assert state.jobs == after.jobs
        assert not difference(state, after, cluster.now_s)
