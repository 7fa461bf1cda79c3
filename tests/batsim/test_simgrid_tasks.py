"""Durations of parallel tasks on networks, against times measured with SimGrid 3.32."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_batsim.inputs.tasks import task_of
from support.shared_jobs import end_times_by_bridge_s
from support.sharing_oracle import end_times_s
from support.simgrid_tasks import Scene, scenes

SCENES = list(scenes())
ALONE = [scene for scene in SCENES if len(scene.raw) == 1]
TOGETHER = [scene for scene in SCENES if len(scene.raw) > 1]


def test_file_has_scenes_of_one_task_and_of_several() -> None:
    """No scene is lost by the selection."""
    assert len(ALONE) == 59
    assert len(SCENES) == 75


@pytest.mark.parametrize("scene", ALONE, ids=lambda scene: scene.name)
def test_duration_of_a_task_alone_is_that_of_simgrid(scene: Scene, tmp_path: Path) -> None:
    """A task alone takes the measured time, to 9 digits."""
    platform = scene.platform(tmp_path)
    (measured,) = scene.tasks(platform)
    pstates = [0] * len(platform.hosts)
    task = task_of(measured.profile, {}, platform, measured.hosts, pstates)
    assert measured.start_s + task.duration_s == pytest.approx(measured.end_s, rel=1e-9)


@pytest.mark.parametrize("scene", TOGETHER, ids=lambda scene: scene.name)
def test_reference_of_shared_resources_is_simgrid(scene: Scene, tmp_path: Path) -> None:
    """The slow reference gives the measured ends, to 9 digits."""
    platform = scene.platform(tmp_path)
    tasks = scene.tasks(platform)
    measured = {task.name: task.end_s for task in tasks}
    assert end_times_s(platform, tasks) == pytest.approx(measured, rel=1e-9)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_jobs_end_when_they_do_in_simgrid(scene: Scene, tmp_path: Path) -> None:
    """Jobs that slow each other down end at the measured times, to 8 digits."""
    platform = scene.platform(tmp_path)
    tasks = scene.tasks(platform)
    measured = {task.name: task.end_s for task in tasks}
    hosts = [host for task in tasks for host in set(task.hosts)]
    share_hosts = len(set(hosts)) < len(hosts)
    ends_s = end_times_by_bridge_s(platform, tasks, share_hosts=share_hosts)
    assert ends_s == pytest.approx(measured, rel=1e-8)
