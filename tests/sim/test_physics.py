"""The platform models under random decisions, compared with a reference replay of the events."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import (
    AllocateJob,
    CancelAlarm,
    Decision,
    DecisionRejected,
    Explain,
    JobCompleted,
    JobStarted,
    JobSubmitted,
    KillJob,
    NodeGroup,
    Platform,
    PowerStates,
    Processor,
    RejectionCode,
    RejectJob,
    SetAlarm,
    SetNodePower,
    SubmitJob,
)
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.record.metrics import measure
from hpcosim_sim.record.recording import STATES
from hpcosim_sim.record.results import Run, write_results
from hpcosim_workloads.table import PLACEMENTS, JobSpec, JobTable
from support.examples import examples
from support.random_scenes import Scene, Span, play, processors, replay, rules
from support.simulating import cluster_of, jobs_of
from support.site_refusals import SITE_REFUSED

# --- strategies -------------------------------------------------------------------------------


@st.composite
def platforms(draw: st.DrawFn) -> Platform:
    """Return a heterogeneous platform."""
    groups = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = draw(st.lists(processors(), min_size=1, max_size=3))
        groups.append(NodeGroup(draw(st.integers(1, 3)), tuple(kinds)))
    return Platform(tuple(groups))


@st.composite
def workloads(draw: st.DrawFn, most_cores: int) -> JobTable:
    """Return jobs of every placement; some exceed the platform."""
    submits_s = sorted(draw(st.lists(st.integers(0, 30), min_size=1, max_size=10)))
    rows = [
        (
            submit_s + draw(st.sampled_from([0.0, 0.1])),
            draw(st.integers(1, 60)) / 7,
            draw(st.integers(1, most_cores + 2)),
            draw(st.integers(1, 60)) / 7,
        )
        for submit_s in submits_s
    ]
    table = jobs_of(*sorted(rows))
    table.placement[:] = draw(st.lists(st.integers(0, 2), min_size=len(table), max_size=len(table)))
    return table


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Return a random scene."""
    platform = draw(platforms())
    jobs = draw(workloads(platform.core_count))
    return Scene(platform, jobs, draw(rules()), draw(st.integers(0, 2**32)))


# --- reference integration --------------------------------------------------------------------


class Energies(NamedTuple):
    """Result of the reference integration."""

    all_j: float
    idle_j: float
    computing_node_s: float


def integrate(scene: Scene, runs: dict[int, Span], start_s: float, end_s: float) -> Energies:
    """Integrate the power of every processor from change to change, recomputed at each change."""
    nodes = [group.processors for group in scene.platform.nodes for _ in range(group.count)]
    times_s = {start_s, end_s}
    for run in runs.values():
        times_s |= {run.start_s, run.end_s}
    ordered_s = sorted(times_s)
    all_j: list[float] = []
    idle_j: list[float] = []
    computing_node_s: list[float] = []
    for from_s, to_s in pairwise(ordered_s):
        here = [run for run in runs.values() if run.start_s <= from_s and run.end_s >= to_s]
        for node, slots in enumerate(nodes):
            power_w, tasks_on_node = 0.0, 0
            for slot, processor in enumerate(slots):
                tasks = sum(run.tasks.get((node, slot), 0) for run in here)
                assert tasks <= processor.cores
                tasks_on_node += tasks
                if tasks:
                    power_w += processor.static_w + tasks * processor.dynamic_w
                else:
                    power_w += processor.static_w * processor.idle_fraction
            all_j.append(power_w * (to_s - from_s))
            if tasks_on_node:
                computing_node_s.append(to_s - from_s)
            else:
                idle_j.append(all_j[-1])
    return Energies(math.fsum(all_j), math.fsum(idle_j), math.fsum(computing_node_s))


MANY = examples(120)


@MANY
@given(scenes())
def test_energy_is_the_integral_of_power(scene: Scene) -> None:
    """Energy by state equals that of the reference integration."""
    simulation, events, _ = play(scene)
    slow = integrate(scene, replay(scene, events), simulation.start_s, simulation.now_s)
    metrics = measure(simulation.record())
    node_s = scene.platform.node_count * (simulation.now_s - simulation.start_s)
    assert metrics["energy_j"] == pytest.approx(slow.all_j, rel=1e-9, abs=1e-9)
    assert metrics["wasted_energy_j"] == pytest.approx(slow.idle_j, rel=1e-9, abs=1e-9)
    filled = slow.computing_node_s / node_s if node_s else 0.0
    assert metrics["job_filling_rate"] == pytest.approx(filled, rel=1e-9, abs=1e-12)


@MANY
@given(scenes())
def test_no_core_is_held_twice(scene: Scene) -> None:
    """The tasks on a node never exceed its cores, and a whole-node job is alone."""
    _, events, _ = play(scene)
    runs = replay(scene, events)
    capacity = scene.platform.cores_by_node()
    for run in runs.values():
        here = [other for other in runs.values() if other.start_s <= run.start_s < other.end_s]
        for node, cores in enumerate(capacity):
            mine = [other for other in here if node in other.nodes]
            tasks = sum(n for o in mine for (at, _), n in o.tasks.items() if at == node)
            assert tasks <= cores
            assert len(mine) <= 1 or not any(other.whole for other in mine)


@MANY
@given(scenes())
def test_no_job_is_lost(scene: Scene) -> None:
    """Every job ends once; exactly the jobs that exceed the platform are rejected."""
    simulation, events, _ = play(scene)
    assert list(simulation.recording.job_id) == scene.jobs.job_id.tolist()
    told = Counter(event.job_id for event in events if isinstance(event, JobSubmitted))
    over = Counter(event.job_id for event in events if isinstance(event, JobCompleted))
    capacity = scene.platform.cores_by_node()
    for row, job in enumerate(scene.jobs.rows()):
        fits = job.cores <= (max(capacity) if job.placement == "one_node" else sum(capacity))
        assert told[job.job_id] == over[job.job_id] == fits
        state = STATES[simulation.recording.state[row]]
        assert state in {"completed", "timeout", "killed", "rejected"}
        assert fits or state == "rejected"
        assert (simulation.recording.start_s[row] == simulation.recording.start_s[row]) == (
            state != "rejected"
        )


@MANY
@given(scenes())
def test_a_job_runs_as_long_as_its_slowest_core_needs(scene: Scene) -> None:
    """Run time is scaled by the slowest clock and limited by the walltime."""
    simulation, events, _ = play(scene)
    clocks = [
        [processor.clock_ghz for processor in group.processors]
        for group in scene.platform.nodes
        for _ in range(group.count)
    ]
    states = {event.job_id: event.state for event in events if isinstance(event, JobCompleted)}
    specs = {job.job_id: job for job in scene.jobs.rows()}
    for job_id, run in replay(scene, events).items():
        full_s = specs[job_id].run_s
        if scene.rules.reference_ghz is not None:
            slowest_ghz = min(clocks[node][slot] for (node, slot), n in run.tasks.items() if n)
            full_s *= scene.rules.reference_ghz / slowest_ghz
        late = scene.rules.kill_at_walltime and full_s > specs[job_id].requested_s
        due_s = run.start_s + (specs[job_id].requested_s if late else full_s)
        if states[job_id] == "killed":
            assert run.end_s <= due_s
        else:
            assert run.end_s == pytest.approx(due_s, rel=1e-12)
            assert states[job_id] == ("timeout" if late else "completed")
    assert simulation.recording.over == len(scene.jobs)


@examples(50)
@given(scenes())
def test_same_seed_same_bytes(scene: Scene) -> None:
    """The same scene gives the same files to the byte."""
    run = Run(hpcosim="0", scenario="random", scheduler="monkey", seed=scene.seed)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("one", "two"):
            write_results(Path(folder) / name, play(scene).simulation.record(), run)
        files = sorted(Path(folder, "one").iterdir())
        assert len(files) == 5
        for file in files:
            assert file.read_bytes() == Path(folder, "two", file.name).read_bytes()


def columns(simulation: Simulation) -> dict[str, list[Any]]:
    """Return all columns of the recording, with NaN as None."""
    recording = simulation.recording
    names = ("job_id", "submit_s", "start_s", "end_s", "state", "changes")
    found = {name: getattr(recording, name) for name in names}
    found |= {name: getattr(recording.periods, name) for name in ("nodes", "tasks")}
    return {
        name: [None if value != value else value for value in column]
        for name, column in found.items()
    }


@MANY
@given(scenes())
def test_wake_on_changes_no_physics(scene: Scene) -> None:
    """The same decisions at the same times give the same run with any `wake_on`."""
    played = play(scene)
    at: dict[float, list[Decision]] = {}
    for time_s, decisions in played.decided:
        kept = [decision for decision in decisions if not isinstance(decision, SetAlarm)]
        at.setdefault(time_s, []).extend(kept)
    simulation = Simulation(scene.platform, scene.jobs, scene.rules)
    batch = simulation.advance(wake_on=["simulation_began"])
    due: list[Decision] = []
    for time_s in sorted(at):
        if time_s > batch.now_s:
            batch = simulation.advance([*due, SetAlarm(time_s)], wake_on=[])
            while not batch.ended and batch.now_s < time_s:
                batch = simulation.advance(wake_on=[])
        due = at[time_s]
    while not batch.ended:
        batch = simulation.advance(due, wake_on=[])
        due = []
    assert columns(simulation) == columns(played.simulation)
    assert simulation.now_s == played.simulation.now_s
    assert simulation.record().energy_j == pytest.approx(
        played.simulation.record().energy_j, rel=1e-12
    )


# --- rejected decisions -----------------------------------------------------------------------


def stage(**more: Any) -> Simulation:
    """Return a cluster of two groups with a job on node 0, three that wait and one that is over.

    Nodes 0 and 1 have 2 cores, node 2 has 4, and it can be switched off. Job 1 holds a core of
    node 0, job 5 is over; jobs 2 (3 cores), 3 (one node, 2 cores) and 4 (whole nodes, 2 cores)
    wait; job 6 is yet to come.
    """
    states = PowerStates(5.0, 20.0, 80.0, 10.0, 30.0)
    large = NodeGroup(1, (Processor(4, 2.0, 90.0),), power_states=states)
    platform = Platform((NodeGroup(2, (Processor(2),)), large))
    table = jobs_of(
        (0.0, 90.0, 1), (0.0, 9.0, 3), (0.0, 9.0, 2), (0.0, 9.0, 2), (0.0, 1.0, 1), (50.0, 9.0, 1)
    )
    table.placement[:] = [PLACEMENTS.index("cores")] * 2 + [1, 2, 0, 0]
    simulation = Simulation(platform, table, Rules(**more))
    simulation.advance()
    simulation.advance(
        [AllocateJob(1, [0]), AllocateJob(5, [1]), SetAlarm(99.0, 7)], wake_on=["job_completed"]
    )
    assert simulation.now_s == 1.0
    return simulation


def state_of(simulation: Simulation) -> Any:
    """Return a deep copy of all state that a decision can change."""
    cluster = simulation.cluster
    jobs = simulation.jobs
    return deepcopy(
        (
            simulation.now_s,
            cluster.free,
            cluster.levels(range(len(cluster.free))),
            simulation.power.state,
            [meter.energy_j for meter in cluster.meters],
            list(jobs.waiting),
            list(jobs.running),
            [(job.spec, job.started_s, job.nodes, job.tasks) for job in jobs.in_order()],
            simulation.alarms.times_s(),
            len(simulation.clock),
            simulation.clock.next_s(),
            columns(simulation),
            sorted(simulation.job_ids),
        )
    )


DYNAMIC = {"dynamic_jobs": True}
REFUSED: list[tuple[Decision, RejectionCode, dict[str, Any]]] = [
    (AllocateJob(9, [1]), "unknown_job", {}),
    (AllocateJob(6, [1]), "unknown_job", {}),  # not submitted yet
    (RejectJob(9), "unknown_job", {}),
    (KillJob(9), "unknown_job", {}),
    (AllocateJob(1, [1]), "job_not_waiting", {}),
    (AllocateJob(5, [1]), "job_not_waiting", {}),
    (RejectJob(1), "job_not_waiting", {}),
    (RejectJob(5), "job_not_waiting", {}),
    (KillJob(2), "job_not_running", {}),
    (KillJob(5), "job_not_running", {}),
    (SubmitJob(1, 1, 1.0), "job_exists", DYNAMIC),
    (SubmitJob(5, 1, 1.0), "job_exists", DYNAMIC),
    (SubmitJob(6, 1, 1.0), "job_exists", DYNAMIC),
    (AllocateJob(2, [3]), "unknown_node", {}),
    (AllocateJob(2, [-1]), "unknown_node", {}),
    (AllocateJob(2, [2**63]), "unknown_node", {}),
    (AllocateJob(2, [0, 1], [2, 1]), "node_busy", {}),
    (AllocateJob(3, [0], [2]), "node_busy", {}),
    (AllocateJob(4, [0, 1]), "node_busy", {}),
    (AllocateJob(4, [0, 1], [1, 1]), "node_busy", {}),
    (AllocateJob(2, []), "bad_allocation", {}),
    (AllocateJob(2, [1, 1], [1, 2]), "bad_allocation", {}),
    (AllocateJob(2, [1]), "bad_allocation", {}),
    (AllocateJob(2, [2, 1]), "bad_allocation", {}),
    (AllocateJob(2, [2], [1, 2]), "bad_allocation", {}),
    (AllocateJob(2, [1, 2], [0, 3]), "bad_allocation", {}),
    (AllocateJob(2, [1, 2], [-1, 4]), "bad_allocation", {}),
    (AllocateJob(2, [1, 2], [1, 1]), "bad_allocation", {}),
    (AllocateJob(2, [1, 2], [2, 2]), "bad_allocation", {}),
    (AllocateJob(3, [1, 2], [1, 1]), "bad_allocation", {}),
    (AllocateJob(3, [0, 1]), "bad_allocation", {}),
    (SetAlarm(1.0), "bad_time", {}),
    (SetAlarm(0.5, 7), "bad_time", {}),
    (SetAlarm(math.inf), "bad_time", {}),
    (SetAlarm(math.nan), "bad_time", {}),
    (CancelAlarm(8), "unknown_alarm", {}),
    (SubmitJob(9, 0, 1.0), "bad_job", DYNAMIC),
    (SubmitJob(9, -1, 1.0), "bad_job", DYNAMIC),
    (SubmitJob(9, 9, 1.0), "bad_job", DYNAMIC),
    (SubmitJob(9, 5, 1.0, placement="one_node"), "bad_job", DYNAMIC),
    (SubmitJob(9, 2**63, 1.0), "bad_job", DYNAMIC),
    (SubmitJob(9, 1, 0.0), "bad_job", DYNAMIC),
    (SubmitJob(9, 1, math.nan), "bad_job", DYNAMIC),
    (SubmitJob(9, 1, math.inf), "bad_job", DYNAMIC),
    (SubmitJob(9, 1, 1.0, -1.0), "bad_job", DYNAMIC),
    (SubmitJob(9, 1, 1.0), "not_allowed", {}),
    (SubmitJob(9, 1, 1.0), "not_allowed", {"dynamic_jobs": True, "max_jobs": 6}),
    (SetNodePower(0, "sleeping"), "not_allowed", {}),
    (SetNodePower(3, "sleeping"), "unknown_node", {}),
    (SetNodePower(2, "on"), "wrong_power_state", {}),
    (Explain(2, "not a name"), "bad_reason", {}),
    (Explain(2, "Resources", 0.5), "bad_time", {}),
    (Explain(77, "Resources"), "unknown_job", {}),
]


@pytest.mark.parametrize(("decision", "code", "more"), REFUSED)
def test_invalid_decision_is_rejected(
    decision: Decision, code: RejectionCode, more: dict[str, Any]
) -> None:
    """An invalid decision is rejected with its code and index and changes nothing."""
    simulation = stage(**more)
    before = state_of(simulation)
    batch = simulation.advance([decision], seq=41)
    assert state_of(simulation) == before
    assert not batch.ended
    assert batch.now_s == 1.0
    (event,) = batch.events
    assert isinstance(event, DecisionRejected)
    assert (event.time_s, event.seq, event.index, event.code) == (1.0, 41, 0, code)
    assert event.decision == type(decision).__struct_config__.tag
    assert event.job_id == getattr(decision, "job_id", None)
    assert event.reason


REASONS: list[tuple[Decision, str, dict[str, Any]]] = [
    (AllocateJob(2, []), "allocate_job.nodes is empty; expected at least 1 node", {}),
    (AllocateJob(2, [3]), "allocate_job.nodes: node 3 does not exist; expected 0 to 2", {}),
    (AllocateJob(2, [1, 1]), "node 1 occurs 2 times in allocate_job.nodes", {}),
    (AllocateJob(2, [1]), "job 2 requests 3 cores; free on the nodes: 2", {}),
    (AllocateJob(2, [2, 1]), "job 2 requests 3 cores; it fits without node 1", {}),
    (AllocateJob(2, [2], [1, 2]), "allocate_job.cores has 2 entries; expected 1", {}),
    (AllocateJob(2, [1, 2], [0, 3]), "allocate_job.cores contains 0; expected at least 1", {}),
    (AllocateJob(2, [1, 2], [1, 1]), "allocate_job.cores adds up to 2; job 2 requests 3", {}),
    (AllocateJob(2, [0, 1], [2, 1]), "allocate_job.cores takes 2 of node 0; free: 1", {}),
    (AllocateJob(3, [1, 2], [1, 1]), "job 3 has placement one_node; expected 1 node, got 2", {}),
    (AllocateJob(4, [0, 1], [1, 1]), "node 0 has an allocation; job 4 has placement whole", {}),
    (SetAlarm(0.5, 7), "set_alarm.at_s is 0.5; expected a time above 1.0 (now)", {}),
    (CancelAlarm(8), "cancel_alarm: alarm 8 is not pending", {}),
    (SubmitJob(9, 0, 1.0), "submit_job.cores is 0; expected at least 1", DYNAMIC),
    (SubmitJob(9, 1, 0.0), "submit_job.run_s is 0.0; expected above 0", DYNAMIC),
    (SubmitJob(9, 1, 1.0, -1.0), "submit_job.requested_s is -1.0; expected above 0", DYNAMIC),
    (SubmitJob(5, 1, 1.0), "submit_job.job_id 5 is in use", DYNAMIC),
    (SubmitJob(9, 1, 1.0), "submit_job requires dynamic_jobs: true", {}),
]


@pytest.mark.parametrize(("decision", "reason", "more"), REASONS)
def test_reason_of_a_rejection_names_field_value_and_expectation(
    decision: Decision, reason: str, more: dict[str, Any]
) -> None:
    """The reason of a rejection contains the field, its value and the expected value."""
    (event,) = stage(**more).advance([decision]).events
    assert isinstance(event, DecisionRejected)
    assert reason in event.reason


def test_every_rejection_code_is_tried() -> None:
    """The decisions above and those of `site_refusals` cover every rejection code."""
    tried = {code for _, code, _ in (*REFUSED, *SITE_REFUSED)}
    assert tried == set(get_args(RejectionCode))


def test_other_decisions_are_carried_out() -> None:
    """A rejected decision does not affect the other decisions of the message."""
    simulation = stage()
    batch = simulation.advance([AllocateJob(3, [1]), KillJob(9), KillJob(1)], seq=3)
    assert [type(event) for event in batch.events] == [JobStarted, DecisionRejected, JobCompleted]
    assert isinstance(batch.events[1], DecisionRejected)
    assert batch.events[1].index == 1
    assert simulation.cluster.free == [2, 0, 4]


# --- single rules -----------------------------------------------------------------------------


def run_one(
    platform: Platform, nodes: list[int], job: JobSpec, rules: Rules | None = None
) -> Simulation:
    """Run one job on these nodes to its end."""
    table = jobs_of((job.submit_s, job.run_s, job.cores, job.requested_s), placement=job.placement)
    simulation = Simulation(platform, table, rules)
    simulation.advance()
    simulation.advance([AllocateJob(1, nodes)])
    return simulation


UNLIKE = Platform(
    (
        NodeGroup(1, (Processor(1, 2.0, 50.0, 5.0, 0.5), Processor(2, 1.0, 30.0, 3.0, 0.1))),
        NodeGroup(1, (Processor(2, 4.0, 80.0, 8.0, 0.0),)),
    )
)


@pytest.mark.parametrize(
    ("nodes", "cores", "run_s", "energy_j"),
    [
        # Idle: 25 + 3 W and 0 W. 10 s at 2 GHz.
        ([0], 1, 10.0, 10 * (50 + 5 + 3 + 0)),  # the first processor alone
        ([0], 2, 20.0, 20 * (50 + 5 + 30 + 3 + 0)),  # a core at 1 GHz
        ([1], 2, 5.0, 5 * (25 + 3 + 80 + 16)),
        ([1, 0], 3, 10.0, 10 * (50 + 5 + 3 + 80 + 16)),
        ([0, 1], 5, 20.0, 20 * (50 + 5 + 30 + 6 + 80 + 16)),
    ],
)
def test_one_job_by_hand(nodes: list[int], cores: int, run_s: float, energy_j: float) -> None:
    """Run time and energy of a job on different processors equal the values computed by hand."""
    job = JobSpec(1, 0.0, 10.0, 10.0, cores, "cores")
    simulation = run_one(UNLIKE, nodes, job, Rules(reference_ghz=2.0))
    assert simulation.now_s == run_s
    assert simulation.record().energy_j == pytest.approx(energy_j, rel=1e-12)


@pytest.mark.parametrize(
    ("run_s", "requested_s", "end_s", "state"),
    [(10.0, 4.0, 4.0, "timeout"), (4.0, 10.0, 4.0, "completed"), (4.0, 4.0, 4.0, "completed")],
)
def test_walltime(run_s: float, requested_s: float, end_s: float, state: str) -> None:
    """A job is killed at its requested time unless it ends at that instant."""
    job = JobSpec(1, 0.0, run_s, requested_s, 1, "cores")
    simulation = run_one(cluster_of(1), [0], job, Rules(kill_at_walltime=True))
    assert simulation.now_s == end_s
    assert STATES[simulation.recording.state[0]] == state


def test_walltime_applies_to_the_scaled_run_time() -> None:
    """A job whose scaled run time exceeds its requested time is killed."""
    job = JobSpec(1, 0.0, 10.0, 15.0, 1, "cores")
    rules = Rules(reference_ghz=2.0, kill_at_walltime=True)
    simulation = run_one(cluster_of(1, clock_ghz=1.0), [0], job, rules)
    assert simulation.now_s == 15.0
    assert STATES[simulation.recording.state[0]] == "timeout"


def test_whole_nodes_are_exclusive() -> None:
    """A node held by a whole-node job has no free cores until the job ends."""
    table = jobs_of((0.0, 5.0, 1), (0.0, 5.0, 1))
    table.placement[0] = PLACEMENTS.index("whole_nodes")
    simulation = Simulation(cluster_of(1, 4), table)
    simulation.advance()
    batch = simulation.advance([AllocateJob(1, [0]), AllocateJob(2, [0])])
    assert isinstance(batch.events[-1], DecisionRejected)
    assert batch.events[-1].code == "node_busy"
    assert simulation.cluster.free == [0]
    simulation.advance()
    batch = simulation.advance([AllocateJob(2, [0])])
    assert batch.now_s == 10.0
    assert simulation.cluster.free == [4]


def test_a_job_submitted_at_the_last_alarm() -> None:
    """With dynamic jobs, a scheduler may submit a job at the last alarm."""
    simulation = Simulation(cluster_of(1), jobs_of((0.0, 1.0, 1)), Rules(dynamic_jobs=True))
    simulation.advance()
    simulation.advance([AllocateJob(1, [0]), SetAlarm(5.0)])
    assert simulation.advance().now_s == 5.0
    batch = simulation.advance([SubmitJob(9, 1, 1.0)])
    assert not batch.ended
    assert [type(event) for event in batch.events] == [JobSubmitted]
    assert simulation.advance([AllocateJob(9, [0])]).now_s == 6.0
