"""The replay of recordings made by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hpcosim_protocol import NodeGroup, Platform, PowerStates, Processor
from hpcosim_sim.record.recording import Recording
from hpcosim_sim.record.replay import (
    BEGIN,
    Change,
    JobChange,
    KindChange,
    PowerChange,
    Replay,
    changes_of,
    position_of,
)
from hpcosim_workloads.table import JobSpec
from support.simulating import cluster_of

OTHER_KIND = 1
OTHER = NodeGroup(1, (Processor(1, 1.0, 20.0, 22.0),), 0.0, PowerStates(5.0, 1.0, 9.0, 2.0, 60.0))


def recording_of(jobs: int = 0) -> Recording:
    """Return a recording of 1-core jobs submitted at 0 s, with one added node kind."""
    recording = Recording()
    recording.kinds.append(OTHER)
    for number in range(jobs):
        recording.submitted(JobSpec(number, 0.0, 9.0, 9.0, 1, "cores"))
    return recording


def test_changes_of_nodes_and_jobs_are_in_order() -> None:
    """Changes of nodes keep their place between changes of jobs, also at one instant."""
    recording = recording_of(2)
    recording.started(0, 0.0, [0], [1])
    recording.ended(0, 5.0, "completed")
    recording.powered(5.0, 0, "switching_off")
    recording.started(1, 5.0, [1], [1])
    recording.powered(7.0, 0, "sleeping")
    assert list(changes_of(recording)) == [
        JobChange(0.0, 0, True, 0),
        JobChange(5.0, 0, False, 0),
        PowerChange(5.0, [0], "switching_off"),
        JobChange(5.0, 1, True, 1),
        PowerChange(7.0, [0], "sleeping"),
    ]


def test_equal_changes_at_one_instant_are_merged() -> None:
    """Equal changes of nodes merge unless state or instant differ or a job changes in between."""
    recording = recording_of(1)
    for node in (2, 0):
        recording.powered(1.0, node, "switching_off")
    recording.powered(1.0, 1, "switching_on")
    recording.started(0, 1.0, [3], [1])
    recording.powered(1.0, 4, "switching_on")
    assert list(changes_of(recording)) == [
        PowerChange(1.0, [2, 0], "switching_off"),
        PowerChange(1.0, [1], "switching_on"),
        JobChange(1.0, 0, True, 0),
        PowerChange(1.0, [4], "switching_on"),
    ]


def test_node_changes_its_kind_before_it_is_switched_off_and_after_it_is_on() -> None:
    """A change of kind precedes a switch-off and follows a switch-on of the same instant."""
    recording = recording_of()
    recording.changed_kind(1.0, 0, OTHER_KIND)
    recording.powered(1.0, 0, "switching_off")
    recording.powered(3.0, 0, "sleeping")
    recording.powered(4.0, 0, "switching_on")
    recording.powered(5.0, 0, "on")
    recording.changed_kind(5.0, 0, 0)
    assert [(type(change), change.time_s) for change in changes_of(recording)] == [
        (KindChange, 1.0),
        (PowerChange, 1.0),
        (PowerChange, 3.0),
        (PowerChange, 4.0),
        (PowerChange, 5.0),
        (KindChange, 5.0),
    ]


def test_replay_has_the_state_after_each_change() -> None:
    """After each change, the replay has the energy, kind and power state of each node."""
    recording = recording_of(1)
    recording.started(0, 1.0, [1], [1])
    recording.ended(0, 3.0, "completed")
    recording.changed_kind(3.0, 0, OTHER_KIND)
    recording.powered(4.0, 0, "switching_off")
    replay = Replay(cluster_of(2), recording)
    for change in changes_of(recording):
        replay.apply(change)
    replay.cluster.settle(6.0)
    assert replay.cluster.group_of == [OTHER_KIND, 0]
    assert replay.power == ["switching_off", "on"]
    assert replay.parts == {}
    energy_j = sum(meter.energy_j for meter in replay.cluster.meters)
    node_0_j = 3 * 50.0 + 1 * 20.0 + 2 * 60.0
    assert energy_j == pytest.approx(node_0_j + 1 * 50.0 + 2 * 110.0 + 3 * 50.0)


def test_replay_begins_with_every_node_on_and_of_its_own_kind() -> None:
    """A replay starts with all nodes on, idle and of their own kind."""
    platform = Platform((NodeGroup(1, (Processor(1, 1.0),)), NodeGroup(1, (Processor(2, 1.0),))))
    replay = Replay(platform, recording_of())
    assert replay.cluster.group_of == [0, 1]
    assert replay.power == ["on", "on"]
    assert replay.cluster.levels([0, 1]) == [(0,), (0,)]


def test_changes_since_a_position_continue_those_before() -> None:
    """Changes that are read after every step are those that are read at the end."""
    recording, position, off = recording_of(1), BEGIN, set[int]()
    found: list[Change] = []

    def switch_on_and_change() -> None:
        recording.powered(5.0, 0, "on")
        recording.changed_kind(5.0, 0, 0)

    steps: tuple[Callable[[], None], ...] = (
        lambda: recording.started(0, 1.0, [1], [1]),
        lambda: recording.changed_kind(1.0, 0, OTHER_KIND),
        lambda: recording.powered(1.0, 0, "switching_off"),
        lambda: recording.powered(3.0, 0, "sleeping"),
        lambda: recording.ended(0, 3.0, "completed"),
        lambda: recording.powered(4.0, 0, "switching_on"),
        switch_on_and_change,
    )
    for step in steps:
        step()
        found += changes_of(recording, position, off)
        position = position_of(recording)
        off = {0} if recording.power_state and recording.power_state[-1] else set()
    assert found == list(changes_of(recording))
    assert len(found) == 8
