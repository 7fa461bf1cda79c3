"""Nodes that fail and return between two looks at the cluster."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from hpcosim_protocol import Event, JobCompleted, JobRequeued, NodeFailed, NodeRepaired
from hpcosim_slurm.hooks import Bell, HookReader
from hpcosim_slurm.worlds.difference import difference
from support.fake_cluster import BOOTED_S, EPOCH_S
from support.live_scenes import Scene

NOW_S = EPOCH_S + 1.0


@pytest.fixture
def scene() -> Scene:
    """A scene without jobs, in mode place."""
    return Scene()


def told(scene: Scene) -> list[Event]:
    """Let the bridge look, and return the events of nodes and ends that it tells."""
    scene.talk.ask(wake_on=["node_failed", "job_requeued", "job_completed"])
    kinds = NodeFailed | NodeRepaired | JobRequeued | JobCompleted
    return [event for event in scene.look() if isinstance(event, kinds)]


def test_a_node_that_has_booted_had_failed(scene: Scene) -> None:
    """Slurm has requeued its job, and shows the node as it was; an earlier job there is over."""
    scene.cluster.jobs[99] = replace(
        scene.cluster.jobs[scene.cluster.submit()], id=99, state="over", nodes=("node1",)
    )
    job = scene.run(1, run_s=50.0)
    scene.cluster.booted_s["node1"] = NOW_S
    scene.cluster.requeue(job)
    assert told(scene) == [
        NodeFailed(NOW_S, 1),
        JobRequeued(NOW_S, job, "node_failed"),
        NodeRepaired(NOW_S, 1),
    ]


def test_the_node_of_a_job_that_ended_by_its_failure_had_failed(scene: Scene) -> None:
    """It was set down and up again: only the state of the job shows it."""
    job = scene.run(1, run_s=50.0)
    scene.cluster.cancel(job)
    scene.cluster.jobs[job] = replace(scene.cluster.jobs[job], slurm_state="NODE_FAIL")
    assert told(scene) == [
        JobCompleted(NOW_S, job, "node_failed"),
        NodeFailed(NOW_S, 1),
        NodeRepaired(NOW_S, 1),
    ]


def test_a_hook_tells_why_a_job_was_requeued(scene: Scene, tmp_path: Path) -> None:
    """Slurm's commands show the requeue by a user and by a failure in the same way."""
    job, other = scene.run(1, run_s=50.0), scene.run(2, run_s=50.0)
    with Bell(tmp_path / "bell") as bell:
        heard = HookReader(scene.cluster.state, bell)
        scene.bridge.note(heard.read())
        scene.cluster.requeue(job)
        scene.cluster.requeue(other)
        said = f"ended {job} NODE_FAIL\nended {other} PENDING\nended x NODE_FAIL\n"
        threading.Timer(0.05, bell.path.write_text, (said,)).start()  # after the requeue is seen
        scene.talk.ask(wake_on=["job_requeued"])
        scene.bridge.note(heard.read())
    kinds = NodeFailed | NodeRepaired | JobRequeued
    assert [event for event in scene.talk.due() if isinstance(event, kinds)] == [
        NodeFailed(NOW_S + 1.0, 1),
        JobRequeued(NOW_S + 1.0, job, "node_failed"),
        NodeRepaired(NOW_S + 1.0, 1),
        JobRequeued(NOW_S + 1.0, other, "user"),
    ]


def test_a_boot_of_an_idle_node_is_no_failure(scene: Scene) -> None:
    """Neither is one that leaves its job alone: slurmctld computes times of boot anew."""
    job = scene.run(1, run_s=50.0)
    scene.cluster.booted_s = dict.fromkeys(("node0", "node1"), NOW_S)
    assert told(scene) == []
    scene.cluster.cancel(job)
    scene.cluster.advance(scene.cluster.now_s + 1.0)
    assert [type(event) for event in scene.look()] == [JobCompleted]


def test_the_node_that_is_still_down_is_the_one_that_failed(scene: Scene) -> None:
    """The other nodes of its job had no failure."""
    job = scene.submit(cpus=2, run_s=50.0)
    jobs = scene.cluster.jobs
    jobs[job] = replace(
        jobs[job], state="running", started_s=EPOCH_S, nodes=("node0", "node1"), partition="main"
    )
    scene.look()
    jobs[job] = replace(jobs[job], state="over", slurm_state="NODE_FAIL", ended_s=NOW_S)
    scene.cluster.down["node1"] = "DOWN"
    assert told(scene) == [JobCompleted(EPOCH_S, job, "node_failed"), NodeFailed(EPOCH_S, 1)]


def test_a_time_of_boot_that_varies_is_no_change(scene: Scene) -> None:
    """The journal would have it again and again."""
    before = scene.cluster.state()
    scene.cluster.booted_s["node1"] = BOOTED_S + 2.0
    assert not difference(before, scene.cluster.state(), NOW_S)
