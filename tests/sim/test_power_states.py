"""Power states: traces by hand, rejected decisions, and comparison with an oracle."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from hpcosim_client import View
from hpcosim_protocol import (
    AllocateJob,
    Decision,
    DecisionRejected,
    JobAllocated,
    JobCompleted,
    JobStarted,
    JobSubmitted,
    KillJob,
    NodeGroup,
    NodePowerChanged,
    NoMoreJobs,
    Platform,
    PowerState,
    PowerStates,
    Processor,
    RejectionCode,
    RejectJob,
    SetAlarm,
    SetNodePower,
    SimulationBegan,
)
from hpcosim_schedulers import make_policy
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.errors import IllegalTransition, Rejection, SimulationStuck
from hpcosim_sim.physics.allocation import check_power, tasks_by_node
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.physics.node_power import NodePower
from hpcosim_sim.record.metrics import measure
from hpcosim_sim.record.recording import STATES
from hpcosim_sim.record.results import Run, write_results
from hpcosim_sim.record.run_record import Span, node_spans
from hpcosim_workloads.table import JobSpec
from support import power_oracle as oracle
from support.examples import examples
from support.power_manager_runs import power_history
from support.power_states_runs import (
    AT_ONCE,
    KINDS,
    POWER,
    SLOW,
    Played,
    drive,
    finish,
    killed_while_its_node_boots,
    nodes_of,
    off,
    off_and_on,
    on,
    play,
    scenes,
    woken,
)
from support.random_scenes import Scene
from support.simulating import jobs_of


def spans_of(simulation: Simulation) -> list[Span]:
    """Return the rows of nodes.csv."""
    return list(node_spans(simulation.record()))


def energies_of(simulation: Simulation) -> list[float]:
    """Return the energies by node state: computing, idle, sleeping, switching on, switching off."""
    metrics = measure(simulation.record())
    return [metrics[f"{kind}_energy_j"] for kind in oracle.KINDS]


# --- whole traces, by hand --------------------------------------------------------------------


def test_off_and_on_events() -> None:
    """Each change of a node's power state is an event at its time."""
    _, events = off_and_on()
    assert events == [
        SimulationBegan(0.0),
        JobSubmitted(0.0, 1, 1, 100.0),
        NoMoreJobs(0.0),
        JobStarted(0.0, 1, [0], [1]),
        NodePowerChanged(0.0, 1, "switching_off"),
        NodePowerChanged(10.0, 1, "sleeping"),
        NodePowerChanged(30.0, 1, "switching_on"),
        NodePowerChanged(50.0, 1, "on"),
        JobCompleted(100.0, 1, "completed"),
    ]


def test_off_and_on_spans() -> None:
    """nodes.csv has a row for each power state of a node, with its power."""
    simulation, _ = off_and_on()
    assert sorted(spans_of(simulation)) == [
        Span(0.0, 10.0, [1], "switching_off", 30.0),
        Span(0.0, 100.0, [0], "computing", 110.0),
        Span(10.0, 30.0, [1], "sleeping", 5.0),
        Span(30.0, 50.0, [1], "switching_on", 80.0),
        Span(50.0, 100.0, [1], "idle", 50.0),
    ]


def test_off_and_on_energy() -> None:
    """Energies by state, wasted energy and shutdowns match the values computed by hand."""
    simulation, _ = off_and_on()
    assert energies_of(simulation) == [11_000.0, 2_500.0, 100.0, 1_600.0, 300.0]
    metrics = measure(simulation.record())
    assert metrics["energy_j"] == 15_500.0
    assert metrics["wasted_energy_j"] == 4_500.0
    assert metrics["node_shutdowns"] == 1
    assert metrics["job_filling_rate"] == 100 / 150


def test_woken_events() -> None:
    """A job with sleeping nodes is allocated and starts when the last of them is on."""
    _, events = woken()
    assert events == [
        SimulationBegan(0.0),
        JobSubmitted(0.0, 1, 1, 30.0),
        JobStarted(0.0, 1, [2], [1]),
        NodePowerChanged(0.0, 0, "switching_off"),
        NodePowerChanged(0.0, 1, "switching_off"),
        NodePowerChanged(10.0, 0, "sleeping"),
        NodePowerChanged(10.0, 1, "sleeping"),
        JobCompleted(30.0, 1, "completed"),
        NodePowerChanged(35.0, 1, "switching_on"),
        JobSubmitted(40.0, 2, 3, 10.0),
        NoMoreJobs(40.0),
        JobAllocated(40.0, 2, [2, 1, 0], [1, 1, 1]),
        NodePowerChanged(40.0, 0, "switching_on"),
        NodePowerChanged(55.0, 1, "on"),
        NodePowerChanged(60.0, 0, "on"),
        JobStarted(60.0, 2, [2, 1, 0], [1, 1, 1]),
        JobCompleted(70.0, 2, "completed"),
    ]


def test_woken_spans() -> None:
    """A node that is on and held for an allocated job is idle."""
    simulation, _ = woken()
    assert sorted(spans_of(simulation)) == [
        Span(0.0, 10.0, [0, 1], "switching_off", 30.0),
        Span(0.0, 30.0, [2], "computing", 110.0),
        Span(10.0, 35.0, [1], "sleeping", 5.0),
        Span(10.0, 40.0, [0], "sleeping", 5.0),
        Span(30.0, 60.0, [2], "idle", 50.0),
        Span(35.0, 55.0, [1], "switching_on", 80.0),
        Span(40.0, 60.0, [0], "switching_on", 80.0),
        Span(55.0, 60.0, [1], "idle", 50.0),
        Span(60.0, 70.0, [0, 1, 2], "computing", 110.0),
    ]


def test_woken_energy() -> None:
    """Energies by state match the values computed by hand."""
    simulation, _ = woken()
    assert energies_of(simulation) == [60 * 110.0, 35 * 50.0, 55 * 5.0, 40 * 80.0, 20 * 30.0]
    assert measure(simulation.record())["node_shutdowns"] == 2


def test_boot_time_is_wait_and_not_walltime() -> None:
    """Boot time counts as wait, not as run time."""
    simulation, _ = woken()
    recording = simulation.recording
    assert (recording.start_s[1], recording.end_s[1]) == (60.0, 70.0)
    assert STATES[recording.state[1]] == "completed"
    assert measure(simulation.record())["max_wait_s"] == 20.0


def test_walltime_begins_when_the_job_starts() -> None:
    """The walltime limit counts from the start of the job, when its nodes are on."""
    simulation = Simulation(
        Platform((nodes_of(1),)), jobs_of((0.0, 50.0, 1, 5.0)), Rules(kill_at_walltime=True)
    )
    drive(simulation, (0.0, [off(0)]), (15.0, [AllocateJob(1, [0])]))
    assert finish(simulation)[-1] == JobCompleted(40.0, 1, "timeout")


def test_two_jobs_wait_for_one_node() -> None:
    """Jobs allocated to a booting node start together, in order of allocation."""
    simulation = Simulation(Platform((nodes_of(1, cores=3),)), jobs_of((0.0, 5.0, 1), (0.0, 5, 2)))
    drive(
        simulation,
        (0.0, [off(0)]),
        (12.0, [AllocateJob(2, [0])]),
        (15.0, [AllocateJob(1, [0])]),
    )
    assert finish(simulation) == [
        NodePowerChanged(32.0, 0, "on"),
        JobStarted(32.0, 2, [0], [2]),
        JobStarted(32.0, 1, [0], [1]),
        JobCompleted(37.0, 2, "completed"),
        JobCompleted(37.0, 1, "completed"),
    ]


def test_the_clock_ends_with_the_last_job() -> None:
    """The run ends with the last job, also during a transition of a node."""
    simulation = Simulation(Platform((nodes_of(2),)), jobs_of((0.0, 25.0, 1)))
    drive(simulation, (0.0, [AllocateJob(1, [0]), off(1)]), (20.0, [on(1)]))
    assert finish(simulation) == [JobCompleted(25.0, 1, "completed")]
    assert simulation.now_s == 25.0
    assert simulation.power.state == ["on", "switching_on"]
    assert energies_of(simulation) == [2750.0, 0.0, 50.0, 400.0, 300.0]


def test_transitions_that_end_with_the_last_job_are_events() -> None:
    """Transitions that end at the instant of the last job are part of the run."""
    simulation = Simulation(Platform((nodes_of(2),)), jobs_of((0.0, 10.0, 1)))
    drive(simulation, (0.0, [off(1), AllocateJob(1, [0])]))
    assert finish(simulation) == [
        JobCompleted(10.0, 1, "completed"),
        NodePowerChanged(10.0, 1, "sleeping"),
    ]


def test_nodes_change_state_before_submissions() -> None:
    """At one instant, nodes change their power state before jobs are submitted."""
    simulation = Simulation(Platform((nodes_of(1),)), jobs_of((0.0, 1.0, 1), (40.0, 1.0, 1)))
    drive(simulation, (0.0, [AllocateJob(1, [0])]), (10.0, [off(0)]), (20.0, [on(0)]))
    assert finish(simulation)[:3] == [
        NodePowerChanged(40.0, 0, "on"),
        JobSubmitted(40.0, 2, 1, 1.0),
        NoMoreJobs(40.0),
    ]


def test_transitions_of_duration_zero() -> None:
    """Transitions of duration 0 happen at one instant and use no energy."""
    simulation = Simulation(Platform((nodes_of(2, AT_ONCE),)), jobs_of((0.0, 9.0, 2)))
    events = drive(simulation, (0.0, [off(0), off(1)]), (4.0, [AllocateJob(1, [0, 1])]))
    assert events[3:] == [
        NodePowerChanged(0.0, 0, "switching_off"),
        NodePowerChanged(0.0, 1, "switching_off"),
        NodePowerChanged(0.0, 0, "sleeping"),
        NodePowerChanged(0.0, 1, "sleeping"),
        JobAllocated(4.0, 1, [0, 1], [1, 1]),
        NodePowerChanged(4.0, 0, "switching_on"),
        NodePowerChanged(4.0, 1, "switching_on"),
        NodePowerChanged(4.0, 0, "on"),
        NodePowerChanged(4.0, 1, "on"),
        JobStarted(4.0, 1, [0, 1], [1, 1]),
    ]
    assert finish(simulation) == [JobCompleted(13.0, 1, "completed")]
    assert energies_of(simulation) == [2 * 9 * 110.0, 0.0, 2 * 4 * 5.0, 0.0, 0.0]
    assert sorted(spans_of(simulation)) == [
        Span(0.0, 4.0, [0, 1], "sleeping", 5.0),
        Span(4.0, 13.0, [0, 1], "computing", 110.0),
    ]


def test_power_wakes_a_scheduler_and_an_allocation_does_not() -> None:
    """By default, `node_power_changed` wakes the scheduler and `job_allocated` does not."""
    platform = Platform((nodes_of(1),))
    simulation = Simulation(platform, jobs_of((0.0, 1.0, 1)))
    simulation.advance()
    assert simulation.advance([off(0)]).now_s == 0.0
    assert simulation.advance().now_s == 10.0
    batch = simulation.advance([AllocateJob(1, [0])], wake_on=["job_started"])
    assert [type(event) for event in batch.events] == [
        JobAllocated,
        NodePowerChanged,
        NodePowerChanged,
        JobStarted,
    ]
    assert finish(simulation) == [JobCompleted(31.0, 1, "completed")]


def test_a_power_cycle_changes_no_speed() -> None:
    """A power cycle of a node does not change the run times of jobs."""
    simulation = Simulation(
        Platform((NodeGroup(1, (Processor(1, 2.5),), power_states=SLOW),)),
        jobs_of((0.0, 7.0, 1), (0.0, 7.0, 1), (0.0, 7.0, 1)),
        Rules(reference_ghz=1.0),
    )
    drive(
        simulation,
        (0.0, [AllocateJob(1, [0])]),
        (5.0, [off(0)]),
        (20.0, [on(0)]),
        (64.0, [AllocateJob(2, [0])]),
        (80.0, [off(0)]),
        (96.0, [AllocateJob(3, [0])]),
    )
    finish(simulation)
    starts_s, ends_s = simulation.recording.start_s, simulation.recording.end_s
    assert list(starts_s) == [0.0, 64.0, 116.0]
    assert [end - start for start, end in zip(starts_s, ends_s, strict=True)] == pytest.approx(
        [2.8] * 3, rel=1e-12
    )


# --- killing a job whose nodes boot -----------------------------------------------------------


def test_a_job_killed_before_it_starts() -> None:
    """A killed allocated job never starts, and its node completes the switch-on."""
    simulation, events = killed_while_its_node_boots()
    assert events[6:] == [
        NodePowerChanged(10.0, 0, "sleeping"),
        JobAllocated(15.0, 1, [0], [1]),
        NodePowerChanged(15.0, 0, "switching_on"),
        JobCompleted(20.0, 1, "killed"),
        DecisionRejected(20.0, 0, 1, "kill_job", "job_not_running", OVER, 1),
        NodePowerChanged(35.0, 0, "on"),
        JobCompleted(50.0, 2, "completed"),
    ]
    assert simulation.cluster.free == [1, 1]


def test_a_job_killed_before_it_starts_in_the_files(tmp_path: Path) -> None:
    """jobs.csv has an end but no start, nodes or energy for a job killed before its start."""
    simulation, _ = killed_while_its_node_boots()
    write_results(
        tmp_path / "out",
        simulation.record(),
        Run(hpcosim="0", scenario="power", scheduler="by hand", seed=1),
    )
    lines = (tmp_path / "out/jobs.csv").read_text().splitlines()
    assert lines[1] == "1,0.0,,20.0,killed,1,,0.0,,5.0,cores,,,,,,,0,0.0,0.0"
    metrics = measure(simulation.record())
    assert (metrics["jobs_killed"], metrics["mean_wait_s"]) == (1, 0.0)


def test_booting_nodes_of_a_killed_job_can_be_allocated() -> None:
    """A booting node of a killed job can be allocated to the next job."""
    simulation = Simulation(Platform((nodes_of(1),)), jobs_of((0.0, 5.0, 1), (0.0, 5.0, 1)))
    drive(
        simulation,
        (0.0, [off(0)]),
        (15.0, [AllocateJob(1, [0])]),
        (20.0, [KillJob(1), AllocateJob(2, [0])]),
    )
    assert finish(simulation) == [
        NodePowerChanged(35.0, 0, "on"),
        JobStarted(35.0, 2, [0], [1]),
        JobCompleted(40.0, 2, "completed"),
    ]


def test_a_node_is_free_to_be_switched_off_once_the_job_is_killed() -> None:
    """A node of a killed allocated job can be switched off in the same message."""
    simulation = Simulation(Platform((nodes_of(2),)), jobs_of((0.0, 5.0, 2), (0.0, 50.0, 1)))
    events = drive(
        simulation,
        (0.0, [off(0)]),
        (15.0, [AllocateJob(1, [0, 1])]),
        (20.0, [off(1), KillJob(1), off(1)]),
    )
    assert events[-3:] == [
        DecisionRejected(20.0, 0, 0, "set_node_power", "node_busy", BUSY.format(1)),
        JobCompleted(20.0, 1, "killed"),
        NodePowerChanged(20.0, 1, "switching_off"),
    ]
    finish(simulation)


# --- rejected decisions -----------------------------------------------------------------------


def stage() -> Simulation:
    """Return seven nodes of two cores at 12 s, each in another situation.

    Node 0 is idle, 1 runs job 1, 2 is held for job 2, which waits for 3, being switched on; 4 is
    being switched off, 5 sleeps, 6 has no power states. Jobs 3 and 4 wait.
    """
    simulation = Simulation(
        Platform((nodes_of(6, cores=2), nodes_of(1, None, cores=2))),
        jobs_of((0.0, 90.0, 1), (0.0, 9.0, 4), (0.0, 9.0, 1), (0.0, 9.0, 1)),
    )
    drive(
        simulation,
        (0.0, [AllocateJob(1, [1]), off(3), off(5)]),
        (12.0, [AllocateJob(2, [2, 3]), off(4)]),
    )
    assert simulation.power.state == [
        "on", "on", "on", "switching_on", "switching_off", "sleeping", "on"
    ]  # fmt: skip
    return simulation


def state_of(simulation: Simulation) -> Any:
    """Return all state that a power decision or an allocation can change."""
    recording = simulation.recording
    return (
        simulation.now_s,
        list(simulation.power.state),
        list(simulation.cluster.free),
        list(simulation.jobs.waiting),
        list(simulation.jobs.allocated),
        list(simulation.jobs.running),
        [list(recording.power_s), list(recording.power_node), list(recording.power_state)],
        len(simulation.clock),
    )


def wrong_state(node: int, state: str, target: str) -> str:
    """Return the reason to reject a change of a node in `state` to `target`."""
    expected = "sleeping" if target == "on" else "on"
    return f"node {node} is {state}; expected {expected} to switch it to {target}"


def unknown(node: int) -> str:
    """Return the reason to reject a change of a node that does not exist."""
    return f"set_node_power.node: node {node} does not exist; expected 0 to 6"


BUSY = "node {} is allocated to a job; expected a node without allocation"
FULL = "node {} has no free core; expected at least 1"
ALLOCATED = "job 2 is allocated (its nodes are being switched on); expected a waiting job"
OVER = "job 1 is over; expected a running, suspended or allocated job"
ALWAYS_ON = "node 6 is always on: its node group has no power_states"
NOT_ON = "allocate_job.nodes: node {} is {}; expected {}"
REFUSED: list[tuple[Decision, RejectionCode, str]] = [
    (off(7), "unknown_node", unknown(7)),
    (on(2**63 - 1), "unknown_node", unknown(2**63 - 1)),
    (off(6), "not_allowed", ALWAYS_ON),
    (on(6), "not_allowed", ALWAYS_ON),
    (off(1), "node_busy", BUSY.format(1)),
    (off(2), "node_busy", BUSY.format(2)),
    (on(0), "wrong_power_state", wrong_state(0, "on", "on")),
    (on(1), "wrong_power_state", wrong_state(1, "on", "on")),
    (on(2), "wrong_power_state", wrong_state(2, "on", "on")),
    (on(3), "wrong_power_state", wrong_state(3, "switching_on", "on")),
    (off(3), "wrong_power_state", wrong_state(3, "switching_on", "sleeping")),
    (on(4), "wrong_power_state", wrong_state(4, "switching_off", "on")),
    (off(4), "wrong_power_state", wrong_state(4, "switching_off", "sleeping")),
    (off(5), "wrong_power_state", wrong_state(5, "sleeping", "sleeping")),
    *(
        (
            SetNodePower(node, state),
            "wrong_power_state",
            f"set_node_power.state is {state}; expected on or sleeping",
        )
        for node in (0, 5)
        for state in POWER
        if state.startswith("switching")
    ),
    (
        AllocateJob(3, [4]),
        "wrong_power_state",
        NOT_ON.format(4, "switching_off", "on, switching_on or sleeping"),
    ),
    (AllocateJob(3, [2]), "node_busy", FULL.format(2)),
    (AllocateJob(3, [3]), "node_busy", FULL.format(3)),
    (AllocateJob(2, [0]), "job_not_waiting", ALLOCATED),
    (RejectJob(2), "job_not_waiting", ALLOCATED),
    (off(-1), "unknown_node", unknown(-1)),
]


@pytest.mark.parametrize(("decision", "code", "reason"), REFUSED)
def test_invalid_decision_is_rejected(decision: Decision, code: RejectionCode, reason: str) -> None:
    """An invalid decision is rejected with code and reason and changes nothing."""
    simulation = stage()
    before = state_of(simulation)
    (event,) = simulation.advance([decision], seq=41).events
    after = state_of(simulation)
    finish(simulation)
    assert isinstance(event, DecisionRejected)
    assert (event.time_s, event.seq, event.index) == (12.0, 41, 0)
    assert (event.code, event.reason) == (code, reason)
    assert after == before


@pytest.mark.parametrize("second", [off(0), on(0)], ids=["off", "on"])
def test_a_node_switched_twice_in_one_message(second: SetNodePower) -> None:
    """The second decision is rejected because the node is in a transition."""
    simulation = stage()
    first, refused = simulation.advance([off(0), second], seq=7).events
    finish(simulation)
    assert first == NodePowerChanged(12.0, 0, "switching_off")
    reason = wrong_state(0, "switching_off", second.state)
    assert refused == DecisionRejected(12.0, 7, 1, "set_node_power", "wrong_power_state", reason)


def test_a_node_without_transition_time_switched_twice_in_one_message() -> None:
    """A transition of duration 0 ends after the decisions of the message."""
    simulation = Simulation(Platform((nodes_of(1, AT_ONCE),)), jobs_of((0.0, 1.0, 1)))
    events = drive(simulation, (0.0, [off(0), on(0)]))
    assert isinstance(events[-2], DecisionRejected)
    assert events[-2].reason == wrong_state(0, "switching_off", "on")
    assert events[-1] == NodePowerChanged(0.0, 0, "sleeping")
    finish(simulation)


@pytest.mark.parametrize(
    "decisions", [[off(0), AllocateJob(3, [0])], [AllocateJob(3, [0]), off(0)]]
)
def test_a_node_switched_off_and_allocated_in_one_message(decisions: list[Decision]) -> None:
    """Of a switch-off and an allocation of one node, the first is carried out."""
    simulation = stage()
    _, refused = simulation.advance(decisions).events
    finish(simulation)
    assert isinstance(refused, DecisionRejected)
    assert refused.index == 1
    assert refused.code == (
        "node_busy" if refused.decision == "set_node_power" else "wrong_power_state"
    )


@pytest.mark.parametrize(
    ("now_s", "state"), [(5.0, "switching_off"), (15.0, "sleeping"), (21.0, "switching_on")]
)
def test_without_wake_on_allocation_nodes_must_be_on(now_s: float, state: str) -> None:
    """Without `wake_on_allocation`, an allocation of a node that is not on is rejected."""
    simulation = Simulation(
        Platform((nodes_of(2),)), jobs_of((0.0, 5.0, 2)), Rules(wake_on_allocation=False)
    )
    script: list[tuple[float, list[Decision]]] = [
        (0.0, [off(1)]), (20.0, [on(1)]), (now_s, [AllocateJob(1, [0, 1])])
    ]  # fmt: skip
    events = drive(simulation, *sorted(script, key=lambda step: step[0])[: 2 + (now_s > 20)])
    assert events[-1] == DecisionRejected(
        now_s, 0, 0, "allocate_job", "wrong_power_state", NOT_ON.format(1, state, "on"), 1
    )
    assert list(simulation.jobs.waiting) == [1]
    assert simulation.cluster.free == [1, 1]
    finish(simulation)


def test_a_node_that_is_being_switched_off_cannot_be_allocated() -> None:
    """A node that is being switched off cannot be allocated."""
    simulation = Simulation(Platform((nodes_of(1),)), jobs_of((0.0, 5.0, 1)))
    events = drive(simulation, (0.0, [off(0)]), (9.5, [AllocateJob(1, [0])]))
    reason = NOT_ON.format(0, "switching_off", "on, switching_on or sleeping")
    assert events[-1] == DecisionRejected(9.5, 0, 0, "allocate_job", "wrong_power_state", reason, 1)
    finish(simulation)


def test_waiting_jobs_with_all_nodes_asleep_are_stuck() -> None:
    """A simulation in which all nodes sleep and jobs wait is stuck."""
    simulation = Simulation(
        Platform((nodes_of(1),)), jobs_of((0.0, 5.0, 1)), Rules(wake_on_allocation=False)
    )
    drive(simulation, (0.0, [off(0)]), (10.0, []))
    with pytest.raises(SimulationStuck, match=r"at 10.0 s: 1 job waits"):
        simulation.advance()


# --- the table of transitions -----------------------------------------------------------------

LEGAL = {
    ("on", "switching_off"),
    ("switching_off", "sleeping"),
    ("sleeping", "switching_on"),
    ("switching_on", "on"),
}
CYCLE: tuple[PowerState, ...] = ("switching_off", "sleeping", "switching_on")


@pytest.mark.parametrize("after", POWER)
@pytest.mark.parametrize("before", POWER)
def test_transitions(before: PowerState, after: PowerState) -> None:
    """A node enters only the next state of its cycle; others raise an error."""
    power = NodePower(Cluster(Platform((nodes_of(2),)), 0.0), np.random.default_rng(0))
    way = CYCLE[: CYCLE.index(before) + 1] if before != "on" else ()
    for state in way:
        power.enter(7.0, 1, state)
    since_s = 7.0 if way else -math.inf
    if (before, after) in LEGAL:
        power.enter(7.0, 1, after)
        assert power.state == ["on", after]
        return
    wrong = f"of node 1 from {before} to {after}: {before} since {since_s} s"
    with pytest.raises(IllegalTransition, match=re.escape(wrong)):
        power.enter(7.0, 1, after)
    assert power.state == ["on", before]


def test_a_node_with_tasks_cannot_be_switched() -> None:
    """Switching a node with tasks raises an error."""
    simulation = Simulation(Platform((nodes_of(2),)), jobs_of((0.0, 5.0, 1)))
    drive(simulation, (0.0, [AllocateJob(1, [1])]))
    with pytest.raises(
        IllegalTransition, match="node 1 from on to switching_off: the node has tasks"
    ):
        simulation.power.enter(0.0, 1, "switching_off")
    finish(simulation)


# --- times that vary --------------------------------------------------------------------------


def varying(mean_s: float, deviation_s: float) -> PowerStates:
    """Return power states with random transition times of equal distribution."""
    return PowerStates(5.0, mean_s, 80.0, mean_s, 30.0, deviation_s, deviation_s)


def times_of_transitions(states: PowerStates, seed: int, cycles: int = 20) -> list[float]:
    """Return the durations of transitions of ten nodes, each switched off and on several times."""
    simulation = Simulation(
        Platform((nodes_of(1, None), nodes_of(10, states))),
        jobs_of((0.0, 1e6, 1)),
        rng=np.random.default_rng(seed),
    )
    simulation.advance()
    decisions: list[Decision] = [AllocateJob(1, [0]), *(off(node) for node in range(1, 11))]
    switched = Counter[int]()
    while decisions:
        events = simulation.advance(decisions, wake_on=["node_power_changed"]).events
        decisions = []
        for event in events:
            if isinstance(event, NodePowerChanged) and event.state in ("on", "sleeping"):
                switched[event.node] += 1
                if switched[event.node] < 2 * cycles:
                    decisions.append(off(event.node) if event.state == "on" else on(event.node))
        if not decisions and min(switched.values(), default=0) < 2 * cycles:
            decisions = [SetAlarm(simulation.now_s + 1e5)]
    simulation.advance([KillJob(1)])
    since_s: dict[int, float] = {}
    times_s = []
    recording = simulation.recording
    for time_s, node in zip(recording.power_s, recording.power_node, strict=True):
        if node in since_s:
            times_s.append(time_s - since_s.pop(node))
        else:
            since_s[node] = time_s
    return times_s


def test_transition_times_depend_on_the_seed() -> None:
    """Transition times depend on the seed only."""
    states = varying(100.0, 5.0)
    first = times_of_transitions(states, 1)
    assert first == times_of_transitions(states, 1)
    assert first != times_of_transitions(states, 2)
    assert len(set(first)) > 390


def test_transition_times_have_mean_and_deviation_of_the_platform() -> None:
    """Mean and standard deviation of transition times are those of the platform."""
    times_s = times_of_transitions(varying(100.0, 5.0), 1)
    assert len(times_s) == 400
    assert np.mean(times_s) == pytest.approx(100.0, abs=1.0)
    assert np.std(times_s) == pytest.approx(5.0, abs=0.7)


def test_times_are_never_negative() -> None:
    """A negative sample of a transition time becomes 0."""
    times_s = times_of_transitions(varying(1.0, 10.0), 3)
    assert min(times_s) == 0.0
    assert 0.36 < times_s.count(0.0) / len(times_s) < 0.56  # 46 % of the samples are below 0


def test_times_without_a_deviation_are_exact() -> None:
    """Transition times without a standard deviation are exact."""
    assert set(times_of_transitions(varying(100.0, 0.0), 4)) == {100.0}


def test_on_and_off_vary_each_by_its_own_deviation() -> None:
    """Switch-on and switch-off times vary by their own standard deviations."""
    states = PowerStates(5.0, 100.0, 80.0, 50.0, 30.0, switch_on_sd_s=5.0)
    simulation = Simulation(Platform((nodes_of(1, states),)), jobs_of((0.0, 1.0, 1)))
    drive(simulation, (0.0, [off(0)]), (60.0, [AllocateJob(1, [0])]))
    finish(simulation)
    _, asleep_s, _, on_s = simulation.recording.power_s
    assert asleep_s == 50.0
    assert on_s != 160.0


# --- random runs against the oracle -----------------------------------------------------------


def slow(scene: Scene, played: Played) -> oracle.Outcome:
    """Return the run of the oracle with the same decisions."""
    return oracle.run(
        scene.platform,
        {
            job.job_id: oracle.OracleJob(
                job.submit_s, job.cores, job.run_s, job.placement == "whole_nodes"
            )
            for job in scene.jobs.rows()
        },
        played.messages,
        wakes=scene.rules.wake_on_allocation,
        begin_s=played.simulation.start_s,
        until_s=played.simulation.now_s,
    )


MANY = examples(150)


@MANY
@given(scenes())
def test_states_and_jobs_match_the_oracle(scene: Scene) -> None:
    """Nodes change their states, and jobs start and end, just when the slow simulator says.

    A decision is refused if and only if the slow simulator refuses it.
    """
    played = play(scene)
    expected, recording = slow(scene, played), played.simulation.recording
    history = [power_history(recording, node) for node in range(scene.platform.node_count)]
    assert history == expected.history
    starts_s = dict(zip(recording.job_id, recording.start_s, strict=True))
    assert {job: at_s for job, at_s in starts_s.items() if at_s == at_s} == expected.start_s
    assert dict(zip(recording.job_id, recording.end_s, strict=True)) == expected.end_s
    assert played.simulation.now_s == expected.over_s
    refused = {
        (event.seq, event.index)
        for event in played.events
        if isinstance(event, DecisionRejected) and event.decision != "set_alarm"
    }
    assert refused == expected.refused


@MANY
@given(scenes())
def test_times_and_energies_match_the_oracle(scene: Scene) -> None:
    """Metrics and node states in nodes.csv equal those of the oracle."""
    played = play(scene)
    expected = slow(scene, played)
    total_j = expected.all_energy_j()
    measured = dict(zip(oracle.KINDS, energies_of(played.simulation), strict=True))
    assert measured == pytest.approx(total_j, rel=1e-9, abs=1e-9)
    metrics = measure(played.simulation.record())
    all_j = sum(total_j.values())
    assert metrics["energy_j"] == pytest.approx(all_j, rel=1e-9, abs=1e-9)
    wasted_j = all_j - total_j["computing"]
    assert metrics["wasted_energy_j"] == pytest.approx(wasted_j, rel=1e-9, abs=1e-6)
    times_s = [dict.fromkeys(oracle.KINDS, 0.0) for _ in expected.time_s]
    energies_j = [dict.fromkeys(oracle.KINDS, 0.0) for _ in expected.time_s]
    for span in spans_of(played.simulation):
        for node in span.nodes:
            times_s[node][span.state] += span.end_s - span.start_s
            energies_j[node][span.state] += (span.end_s - span.start_s) * span.power_w
    for node in range(len(times_s)):
        assert times_s[node] == pytest.approx(expected.time_s[node], rel=1e-9, abs=1e-9)
        assert energies_j[node] == pytest.approx(expected.energy_j[node], rel=1e-9, abs=1e-9)


@MANY
@given(scenes(vary=True))
def test_times_add_up(scene: Scene) -> None:
    """The node-seconds of all states add up to nodes * makespan."""
    simulation = play(scene).simulation
    record = simulation.record()
    assert sum(record.state_node_s.values()) == pytest.approx(
        scene.platform.node_count * record.duration_s, rel=1e-9
    )


@MANY
@given(scenes(vary=True))
def test_shutdowns_are_counted(scene: Scene) -> None:
    """`node_shutdowns` is the number of begun switch-offs."""
    simulation, events, _ = play(scene)
    begun = [
        event
        for event in events
        if isinstance(event, NodePowerChanged) and event.state == "switching_off"
    ]
    assert measure(simulation.record())["node_shutdowns"] == len(begun)


@MANY
@given(scenes(vary=True))
def test_jobs_run_on_nodes_that_are_on(scene: Scene) -> None:
    """Nodes of an allocated or running job are never switched off."""
    _, events, _ = play(scene)
    power = dict.fromkeys(range(scene.platform.node_count), "on")
    waiting: dict[int, list[int]] = {}
    running: dict[int, list[int]] = {}
    for event in events:
        if isinstance(event, NodePowerChanged):
            power[event.node] = event.state
            assert not any(event.node in nodes for nodes in running.values())
            if any(event.node in nodes for nodes in waiting.values()):
                assert event.state in ("switching_on", "on")
        elif isinstance(event, JobAllocated):
            assert {power[node] for node in event.nodes} != {"on"}
            waiting[event.job_id] = event.nodes
        elif isinstance(event, JobStarted):
            assert {power[node] for node in event.nodes} == {"on"}
            waiting.pop(event.job_id, None)
            running[event.job_id] = event.nodes
        elif isinstance(event, JobCompleted):
            waiting.pop(event.job_id, None)
            running.pop(event.job_id, None)


# --- the scheduler's view ---------------------------------------------------------------------


def newcomer(simulation: Simulation) -> View:
    """Return a view built from a snapshot."""
    view = View(simulation.cluster.platform, wake_on_allocation=simulation.rules.wake_on_allocation)
    view.apply(simulation.now_s, simulation.snapshot())
    return view


def test_a_snapshot_by_hand() -> None:
    """A snapshot contains the nodes that are not on and the jobs, also the allocated ones."""
    simulation = stage()
    events = simulation.snapshot()
    finish(simulation)
    assert events == [
        SimulationBegan(0.0),
        NodePowerChanged(12.0, 3, "switching_on"),
        NodePowerChanged(12.0, 4, "switching_off"),
        NodePowerChanged(10.0, 5, "sleeping"),
        JobSubmitted(0.0, 1, 1, 90.0),
        JobSubmitted(0.0, 2, 4, 9.0),
        JobSubmitted(0.0, 3, 1, 9.0),
        JobSubmitted(0.0, 4, 1, 9.0),
        JobAllocated(12.0, 2, [2, 3], [2, 2]),
        JobStarted(0.0, 1, [1], [1]),
        NoMoreJobs(12.0),
    ]


@MANY
@given(scenes(vary=True))
def test_a_snapshot_brings_a_view_up_to_date(scene: Scene) -> None:
    """A view from a snapshot equals a view from all events."""

    def look(simulation: Simulation, view: View) -> None:
        other = newcomer(simulation)
        assert other.now_s == view.now_s
        assert other.nodes.free.tolist() == view.nodes.free.tolist()
        assert other.nodes.free_cores == view.nodes.free_cores == view.nodes.free.sum()
        assert other.nodes.power == view.nodes.power == simulation.power.state
        numbers = range(len(view.nodes.free))
        assert list(map(other.nodes.can_be_given, numbers)) == list(
            map(view.nodes.can_be_given, numbers)
        )
        assert list(other.queue) == list(view.queue)
        assert places_of(other) == places_of(view)
        for job_id in simulation.jobs.running:
            assert other.running[job_id].start_s == view.running[job_id].start_s
        assert other.no_more_jobs == view.no_more_jobs

    play(scene, look)


def places_of(view: View) -> dict[int, tuple[list[int], list[int], list[int]]]:
    """Return the allocations of the running jobs."""
    found = {}
    for job_id, job in view.running.items():
        assert job.allocation is not None
        place = job.allocation
        found[job_id] = (place.nodes.tolist(), place.tasks.tolist(), place.cores_per_node.tolist())
    return found


def test_a_snapshot_contains_the_allocation_times() -> None:
    """A view from a snapshot expects the same ends of jobs as a view from all events."""
    simulation = Simulation(Platform((nodes_of(1),)), jobs_of((0.0, 5.0, 1), (18.0, 5.0, 1)))
    view = View(simulation.cluster.platform)
    events = drive(simulation, (0.0, [off(0)]), (15.0, [AllocateJob(1, [0])]))
    batch = simulation.advance()
    view.apply(batch.now_s, [*events, *batch.events])
    assert batch.now_s == 18.0
    other = newcomer(simulation)
    finish(simulation)
    assert other.running[1].start_s == view.running[1].start_s == 35.0  # 20 s to switch on


@MANY
@given(scenes(vary=True))
def test_a_view_shows_the_cores_that_the_server_accepts(scene: Scene) -> None:
    """A view shows the free cores that the server accepts for an allocation."""

    def accepts(simulation: Simulation, node: int, cores: int) -> bool:
        job = JobSpec(99, 0.0, 1.0, 1.0, cores, "cores")
        try:
            tasks_by_node(simulation.cluster, job, AllocateJob(99, [node], [cores]))
            check_power(simulation.power, [node], scene.rules.wake_on_allocation)
        except Rejection:
            return False
        return True

    def look(simulation: Simulation, view: View) -> None:
        for node, free in enumerate(view.nodes.free.tolist()):
            assert free == 0 or accepts(simulation, node, free)
            assert not accepts(simulation, node, free + 1)

    play(scene, look)


@MANY
@given(scenes(vary=True))
def test_starts_through_the_view_are_accepted(scene: Scene) -> None:
    """The server accepts starts through the view if their nodes are not switched."""
    rng, random = np.random.default_rng(scene.seed), Random(scene.seed)
    simulation = Simulation(scene.platform, scene.jobs, scene.rules, rng)
    view = View(scene.platform, wake_on_allocation=scene.rules.wake_on_allocation)
    batch = simulation.advance()
    for turn in range(1000):
        view.apply(batch.now_s, batch.events)
        assert not any(rejected.decision == "allocate_job" for rejected in view.rejected)
        # Before the jobs: they use no node that is switched off, but possibly one that is woken.
        idle = (view.nodes.free == view.nodes.capacity).tolist()
        left = []
        for node, state in enumerate(view.nodes.power):
            if state == "on" and idle[node] and turn < 60 and random.random() < 0.3:
                view.set_node_power(node, on=False)
            elif state == "sleeping" and (random.random() < 0.3 or turn >= 60):
                view.set_node_power(node, on=True)
            else:
                left.append(node)
        for job in list(view.queue.values()):
            view.start(job, left)
        if view.queue:
            view.set_alarm(view.now_s + 10.0)
        batch = simulation.advance(
            view.decisions,
            wake_on=random.choice([None, KINDS]),
            elapsed_s=random.choice([0.0, 2.5]),
        )
        if batch.ended:
            return
    raise AssertionError("the run does not end")


def test_a_node_to_be_switched_off_has_no_free_cores() -> None:
    """A view has no free cores on a node that is to be switched off, until it sleeps."""
    simulation = Simulation(Platform((nodes_of(1),)), jobs_of((0.0, 5.0, 1)))
    view = View(simulation.cluster.platform)
    view.apply(*simulation.advance()[:2])
    view.set_node_power(0, on=False)
    assert not view.start(view.queue[1])
    view.apply(*simulation.advance(view.decisions)[:2])
    assert (view.nodes.free.tolist(), view.nodes.free_cores, list(view.queue)) == ([0], 0, [1])
    view.apply(*simulation.advance()[:2])
    assert view.start(view.queue[1])
    view.apply(*simulation.advance(view.decisions)[:2])
    assert not view.rejected
    finish(simulation)


def test_a_rejected_switch_off_restores_the_view() -> None:
    """A rejected switch-off restores the view."""
    simulation = Simulation(Platform((nodes_of(1),)), jobs_of((0.0, 5.0, 1), (9.0, 5.0, 1)))
    view = View(simulation.cluster.platform)
    view.apply(*simulation.advance()[:2])
    assert view.start(view.queue[1])
    view.set_node_power(0, on=False)
    view.apply(*simulation.advance(view.decisions)[:2])
    assert [refused.code for refused in view.rejected] == ["node_busy"]
    assert view.nodes.power == ["on"]
    view.apply(*simulation.advance()[:2])
    assert (view.nodes.free.tolist(), view.nodes.free_cores) == ([1], 1)
    finish(simulation)


BOTH: tuple[list[int], list[float]] = ([0, 1], [30.0, 30.0, 35.0])
ONE: tuple[list[int], list[float]] = ([1], [0.0, 5.0, 10.0])


@pytest.mark.parametrize(
    ("name", "asleep", "starts_s"),
    [
        *((name, *case) for name in ("fcfs", "easy", "sjf") for case in (BOTH, ONE)),
        ("conservative", *BOTH),
        ("conservative", *ONE),
        ("minmin", *BOTH),
        ("minmin", *ONE),
    ],
)
def test_jobs_wait_for_nodes_in_transition(
    name: str, asleep: list[int], starts_s: list[float]
) -> None:
    """Jobs wait for nodes in transitions and start when cores are available."""
    platform = Platform((nodes_of(2, cores=2),))
    table = jobs_of((0.0, 5.0, 2), (1.0, 5.0, 2), (2.0, 5.0, 2), placement="one_node")
    simulation, view = Simulation(platform, table), View(platform)
    policy = make_policy(name)
    batch = simulation.advance([off(node) for node in asleep])
    while not batch.ended:
        view.apply(batch.now_s, batch.events)
        assert not view.rejected
        policy(view)
        batch = simulation.advance(view.decisions, wake_on=view.wake_on)
    assert list(simulation.recording.start_s) == starts_s
