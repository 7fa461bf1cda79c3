"""A follower's picture of a cluster: changes, checks, repairs, restarts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_twin.cluster.follow import Difference, Follower, FollowSettings, differences
from hpcosim_twin.cluster.observation import EndedJob
from hpcosim_twin.cluster.observer import Accounted
from support.fake_cluster import EPOCH_S, FakeCluster
from support.twin_sources import FakeSource

SETTINGS = FollowSettings(poll_s=10.0, check_s=50.0, learn_s=1e9)


def present(state: ClusterState) -> dict[int, LiveJob]:
    """Return the jobs that wait or run."""
    return {number: job for number, job in state.jobs.items() if job.state != "over"}


def node_states(state: ClusterState) -> dict[str, str]:
    """Return Slurm's words for the states of the nodes."""
    return {name: node.slurm_state for name, node in state.nodes.items()}


def picture(follower: Follower) -> ClusterState:
    """Return the state of a follower's picture."""
    assert follower.snapshot is not None
    return follower.snapshot.observation.state


def pass_time(source: FakeSource, follower: Follower, steps: int) -> None:
    """Let polls pass."""
    for _ in range(steps):
        source.elapsed_s += SETTINGS.poll_s
        source.cluster.advance(source.cluster.now_s + SETTINGS.poll_s)
        follower.step()


def change_at_random(cluster: FakeCluster, generator: np.random.Generator) -> None:
    """Do something that a user or an operator does."""
    waiting = [job.id for job in cluster.jobs.values() if job.state == "pending"]
    running = [job.id for job in cluster.jobs.values() if job.state == "running"]
    action = int(generator.integers(7))
    if action == 0 and waiting:
        cluster.cancel(int(generator.choice(waiting)))
    elif action == 1 and waiting:
        cluster.limit(int(generator.choice(waiting)), float(generator.integers(10, 100)))
    elif action == 2 and running:
        cluster.requeue(int(generator.choice(running)))
    elif action == 3:
        node = f"node{generator.integers(cluster.nodes)}"
        (cluster.repair if node in cluster.down else cluster.drain)(node)
    else:
        cluster.submit(run_s=float(generator.integers(1, 80)), limit_s=60.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_picture_is_the_controllers_at_every_poll(seed: int) -> None:
    """After submissions, ends, cancellations, requeues and drains, it has the same jobs."""
    generator = np.random.default_rng(seed)
    source = FakeSource(FakeCluster())
    follower = Follower(source, SETTINGS)
    follower.step()
    for _ in range(100):
        change_at_random(source.cluster, generator)
        if generator.random() < 0.2:
            source.cluster.forget()
        pass_time(source, follower, 1)
        assert present(picture(follower)) == present(source.cluster.state())
        assert node_states(picture(follower)) == node_states(source.cluster.state())
    assert not follower.counts.differences
    assert follower.counts.checks > 15


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda cluster: cluster.submit(run_s=500.0), "missing job"),
        (lambda cluster: cluster.cancel(6), "wrong state"),
        (lambda cluster: cluster.limit(6, 77.0), "wrong request"),
        (lambda cluster: cluster.hold(6), "wrong request"),
    ],
)
def test_a_lost_change_is_counted_and_repaired(
    change: Callable[[FakeCluster], object], kind: str
) -> None:
    """A full reading finds what no change has told."""
    source = FakeSource(FakeCluster())
    for _ in range(6):
        source.cluster.submit(run_s=500.0, limit_s=600.0)
    follower = Follower(source, SETTINGS)
    follower.step()
    source.lost = {6, 7}
    change(source.cluster)
    pass_time(source, follower, 5)
    assert dict(follower.counts.differences) == {kind: 1}
    assert present(picture(follower)) == present(source.cluster.state())
    pass_time(source, follower, 10)
    assert follower.counts.differences.total() == 1


def test_a_job_on_other_nodes_is_a_difference() -> None:
    """A job that was requeued and started elsewhere has wrong nodes."""
    cluster = FakeCluster()
    cluster.submit(run_s=500.0, limit_s=600.0)
    before = cluster.state()
    cluster.drain("node0")
    cluster.requeue(1)
    found = differences(before, cluster.state())
    assert found == {Difference("wrong nodes", "1"), Difference("node", "node0")}


def test_a_controller_that_does_not_answer_leaves_the_last_picture() -> None:
    """Its age grows, the failure is told; then the picture is the controller's again."""
    source = FakeSource(FakeCluster())
    source.cluster.submit(run_s=500.0, limit_s=600.0)
    follower = Follower(source, SETTINGS)
    follower.step()
    source.is_down = True
    source.cluster.submit(run_s=500.0, limit_s=600.0)
    pass_time(source, follower, 30)
    assert follower.failure == "squeue: Unable to contact slurm controller"
    assert follower.age_s == 300.0
    assert list(picture(follower).jobs) == [1]
    source.is_down = False
    pass_time(source, follower, 1)
    assert (follower.failure, follower.age_s) == ("", 0.0)
    assert picture(follower).jobs == source.cluster.state().jobs
    assert not follower.counts.differences


def test_a_follower_begins_with_the_picture_of_the_last_one(tmp_path: Path) -> None:
    """It has a picture before the controller answers, and its history after."""
    source, path = FakeSource(FakeCluster()), tmp_path / "twin" / "state.json"
    source.cluster.submit(run_s=5.0)
    source.cluster.submit(run_s=500.0, limit_s=600.0)
    follower = Follower(source, SETTINGS, path)
    follower.step()
    pass_time(source, follower, 6)
    follower.save()
    assert path.stat().st_mode & 0o777 == 0o600
    source.is_down = True
    source.cluster.now_s += 40.0
    again = Follower(source, SETTINGS, path)
    assert again.snapshot is not None
    assert picture(again).jobs == picture(follower).jobs
    assert again.age_s == 40.0
    again.step()
    assert again.failure
    source.is_down = False
    source.cluster.forget()
    pass_time(source, again, 1)
    assert present(picture(again)) == present(source.cluster.state())
    assert [job.run_s for job in again.snapshot.observation.history] == [5.0]


@pytest.mark.parametrize("content", ["", "{", '{"format": "hpcosim twin 2"}', "[1]"])
def test_a_damaged_state_file_is_left_out(tmp_path: Path, content: str) -> None:
    """The twin begins anew."""
    path = tmp_path / "state.json"
    path.write_text(content)
    follower = Follower(FakeSource(FakeCluster()), SETTINGS, path)
    assert follower.snapshot is None
    assert math.isinf(follower.age_s)
    follower.step()
    follower.save()
    assert Follower(FakeSource(FakeCluster()), SETTINGS, path).snapshot is not None


def test_a_clock_that_is_set_back_is_counted() -> None:
    """The picture follows the cluster, whatever the clock shows."""
    source = FakeSource(FakeCluster())
    follower = Follower(source, SETTINGS)
    follower.step()
    pass_time(source, follower, 3)
    source.cluster.now_s -= 3600.0
    source.cluster.submit(run_s=500.0, limit_s=600.0)
    pass_time(source, follower, 1)
    assert follower.counts.clock_jumps == 1
    assert picture(follower).at_s == EPOCH_S + 40.0 - 3600.0
    assert picture(follower).jobs == source.cluster.state().jobs


def test_ended_jobs_are_kept_up_to_a_number() -> None:
    """The last ones stay in the picture and in the history, after the controller forgot them."""
    source = FakeSource(FakeCluster())
    settings = FollowSettings(check_s=10.0, learn_s=1e9, most_past=5, most_history=8)
    follower = Follower(source, settings)
    for _ in range(30):
        source.cluster.submit(run_s=5.0)
        pass_time(source, follower, 1)
        source.cluster.forget()
    pass_time(source, follower, 1)
    assert list(picture(follower).jobs) == [26, 27, 28, 29, 30]
    assert follower.snapshot is not None
    assert len(follower.snapshot.observation.history) == 8


def test_an_unchanged_picture_has_one_version_for_a_minute() -> None:
    """Answers of one version may be given again; time makes a new one."""
    source = FakeSource(FakeCluster())
    source.cluster.submit(run_s=5000.0, limit_s=6000.0)
    follower = Follower(source, FollowSettings(check_s=20.0, learn_s=1e9, fresh_s=60.0))
    follower.step()
    versions = []
    for _ in range(12):
        pass_time(source, follower, 1)
        assert follower.snapshot is not None
        versions.append(follower.snapshot.version)
    assert [versions.count(each) for each in sorted(set(versions))] == [5, 6, 1]
    source.cluster.submit(run_s=500.0, limit_s=600.0)
    pass_time(source, follower, 1)
    assert follower.snapshot is not None
    assert follower.snapshot.version == max(versions) + 1


def test_a_site_that_cannot_be_read_again_stays_as_it_was() -> None:
    """While slurm.conf is edited, the queue is followed."""
    source = FakeSource(FakeCluster())
    follower = Follower(source, FollowSettings(check_s=20.0, learn_s=30.0))
    follower.step()
    source.is_site_unreadable = True
    for _ in range(10):
        source.cluster.submit(run_s=500.0, limit_s=600.0)
        pass_time(source, follower, 1)
        assert present(picture(follower)) == present(source.cluster.state())
    assert (follower.failure, follower.counts.failures) == ("", 0)
    source.is_site_unreadable = False
    source.settings = {"enforce": []}
    pass_time(source, follower, 3)
    assert follower.snapshot is not None
    assert follower.snapshot.observation.settings == {"enforce": []}


def test_jobs_that_the_accounting_alone_knows_are_patterns_of_submissions() -> None:
    """They are in the picture as jobs that are over, also after full readings."""
    source, forgotten = FakeSource(FakeCluster()), FakeCluster()
    forgotten.submit(run_s=5.0)
    forgotten.advance(forgotten.now_s + 10.0)
    (job,) = forgotten.state().jobs.values()
    source.accounting = Accounted([], [replace(job, id=17, submitted_s=job.submitted_s - 86_400.0)])
    follower = Follower(source, FollowSettings(check_s=20.0))
    pass_time(source, follower, 50)
    assert follower.counts.checks >= 2
    assert not follower.counts.differences
    assert picture(follower).jobs[17].state == "over"


def test_the_accounting_is_read_rarely() -> None:
    """The history of a day grows by the jobs that end; then it is read again."""
    source = FakeSource(FakeCluster())
    source.accounting = Accounted([EndedJob("ann", 60.0, 7.0)], [])
    settings = FollowSettings(check_s=20.0, learn_s=100.0, history_s=1000.0)
    follower = Follower(source, settings)
    follower.step()
    source.cluster.submit(run_s=15.0)
    pass_time(source, follower, 90)
    assert source.readings_of_history == 1
    assert follower.snapshot is not None
    assert [job.run_s for job in follower.snapshot.observation.history] == [7.0, 15.0]
    pass_time(source, follower, 20)
    assert source.readings_of_history == 2
