"""Energy attribution: comparison with the oracle, and cases by hand."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import (
    AllocateJob,
    Contention,
    Decision,
    Event,
    KillJob,
    NodeGroup,
    Platform,
    Processor,
    RejectJob,
    SetAlarm,
)
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.physics.cluster import places
from hpcosim_sim.record.recording import STATES
from hpcosim_sim.record.replay import JobChange, Replay, changes_of
from hpcosim_sim.record.run_record import job_energies_j
from hpcosim_workloads.synthetic.lublin import poisson
from hpcosim_workloads.table import PLACEMENTS, JobTable, job_table
from support.contention_scenes import ask_oracle, scenes
from support.examples import examples
from support.random_scenes import Monkey, Played, Scene
from support.simulating import cluster_of, jobs_of, simulate


def play_some(scene: Scene, batches: int) -> Played:
    """Schedule a scene at random for a number of batches or to its end."""
    simulation = Simulation(scene.platform, scene.jobs, scene.rules)
    monkey, random = Monkey(scene), Random(scene.seed + 1)
    events: list[Event] = []
    batch = simulation.advance()
    while not batch.ended:
        events += batch.events
        if not batches:
            break
        batches -= 1
        monkey.now_s = batch.now_s
        monkey.hear(batch.events)
        batch = simulation.advance(monkey.decide(), elapsed_s=random.choice([0.0, 0.0, 0.25, 3.0]))
    return Played(simulation, events, [])


def energies_of(simulation: Simulation) -> list[float]:
    """Return the energy of each job up to now, by row."""
    return list(simulation.record().job_energies_j)


def exact_energies_j(simulation: Simulation) -> list[float]:
    """Return the energy of each job from a replay with rational numbers, by row."""
    platform, recording = simulation.cluster.platform, simulation.recording
    energies_j = [Fraction(0)] * len(recording)
    there: dict[tuple[int, int], tuple[Processor, dict[int, int]]] = {}
    since_s = Fraction(0)

    def charge(now_s: Fraction) -> None:
        for processor, jobs in there.values():
            for row, tasks in jobs.items():
                share_w = Fraction(processor.static_w) / len(jobs)
                power_w = share_w + tasks * Fraction(processor.dynamic_w)
                energies_j[row] += power_w * (now_s - since_s)

    replay = Replay(platform, recording)
    for change in changes_of(recording):
        assert isinstance(change, JobChange)
        charge(Fraction(change.time_s))
        since_s, row = Fraction(change.time_s), change.row
        if change.starts:
            replay.apply(change)
        for slot, processor, node, tasks in places(replay.parts[row]):
            _, jobs = there.setdefault((node, slot), (processor, {}))
            if change.starts:
                jobs[row] = tasks
            else:
                del jobs[row]
        if not change.starts:
            replay.apply(change)
    charge(Fraction(simulation.now_s))
    return [float(energy_j) for energy_j in energies_j]


MANY = examples(300)


@MANY
@given(scenes(), st.integers(0, 60))
def test_job_energy_matches_exact_arithmetic(scene: Scene, batches: int) -> None:
    """The energy of each job equals that of an exact replay, during a run and at its end."""
    simulation = play_some(scene, batches).simulation
    assert energies_of(simulation) == pytest.approx(exact_energies_j(simulation), rel=1e-12, abs=0)


@pytest.mark.parametrize("cores", [1, 2, 16])
@pytest.mark.parametrize("processors", [1, 2])
def test_energies_are_exact_where_nodes_are_never_idle(cores: int, processors: int) -> None:
    """With many jobs on one processor, the energies have no accumulated rounding error."""
    [group] = cluster_of(3, cores, static_w=97.3, dynamic_w=3.1).nodes
    platform = Platform((NodeGroup(3, group.processors * processors),))
    jobs = poisson(
        np.random.default_rng(4),
        jobs=400,
        mean_interarrival_s=1.0,
        cores=(1, 3),
        run_s=(0.1, 300.0),
        overestimate=1.0,
    )
    simulation = simulate(platform, jobs)
    assert energies_of(simulation) == pytest.approx(exact_energies_j(simulation), rel=1e-12, abs=0)


@MANY
@given(scenes(), st.integers(0, 60))
def test_job_energy_matches_the_oracle(scene: Scene, batches: int) -> None:
    """The energy of each job equals that of the reference integration."""
    played = play_some(scene, batches)
    slow = ask_oracle(scene, played)
    recording = played.simulation.recording
    energies_j = energies_of(played.simulation)
    assert len(energies_j) == len(recording)
    for job_id, energy_j in zip(recording.job_id, energies_j, strict=True):
        assert energy_j == pytest.approx(slow.job_j.get(job_id, 0.0), rel=1e-9, abs=1e-9)


# --- by hand ----------------------------------------------------------------------------------

# Idle: 50 W. Active: 100 W, and 10 W a task.
FOUR = Platform((NodeGroup(1, (Processor(4, 1.0, 100.0, 10.0, 0.5),)),))
# Node 0 has two processors, node 1 one.
UNLIKE = Platform(
    (
        NodeGroup(1, (Processor(1, 1.0, 50.0, 5.0, 0.5), Processor(2, 1.0, 30.0, 3.0, 0.1))),
        NodeGroup(1, (Processor(2, 1.0, 80.0, 8.0, 0.25),)),
    )
)


def decide(
    platform: Platform, jobs: JobTable, *steps: tuple[float, list[Decision]], until_s: float
) -> Simulation:
    """Carry out decisions at their times, then let time pass to `until_s` or the end."""
    simulation = Simulation(platform, jobs, Rules())
    batch = simulation.advance(wake_on=["simulation_began"])
    for time_s, decisions in [*steps, (until_s, [])]:
        while not batch.ended and simulation.now_s < time_s:
            batch = simulation.advance([SetAlarm(time_s)], wake_on=[])
        if decisions:
            batch = simulation.advance(decisions, wake_on=["job_started", "job_completed"])
    return simulation


def test_static_power_is_shared_by_jobs_and_not_by_tasks() -> None:
    """Two jobs on a processor are charged half of its static power each, and their own tasks."""
    jobs = jobs_of((0.0, 10.0, 2), (4.0, 4.0, 1))
    simulation = decide(
        FOUR, jobs, (0.0, [AllocateJob(1, [0])]), (4.0, [AllocateJob(2, [0])]), until_s=10.0
    )
    assert energies_of(simulation) == pytest.approx(
        [(4 + 2) * 100 + 4 * 50 + 10 * 2 * 10, 4 * 50 + 4 * 10], rel=1e-12
    )
    assert simulation.record().energy_j == pytest.approx(sum(energies_of(simulation)), rel=1e-12)


def test_idle_power_is_charged_to_no_job() -> None:
    """Idle power of a processor is charged to no job."""
    jobs = jobs_of((0.0, 2.0, 1), (0.0, 3.0, 4))
    simulation = decide(
        FOUR, jobs, (1.0, [AllocateJob(1, [0])]), (10.0, [AllocateJob(2, [0])]), until_s=13.0
    )
    assert energies_of(simulation) == pytest.approx([2 * 110, 3 * 140], rel=1e-12)
    assert simulation.record().energy_j == pytest.approx(
        2 * 110 + 3 * 140 + (1 + 7) * 50, rel=1e-12
    )


def test_consecutive_jobs_share_no_static_power() -> None:
    """A job that ends and a job that starts at the same instant share no static power."""
    jobs = jobs_of((0.0, 2.0, 4), (0.0, 3.0, 4))
    simulation = decide(
        FOUR, jobs, (0.0, [AllocateJob(1, [0])]), (2.0, [AllocateJob(2, [0])]), until_s=5.0
    )
    assert energies_of(simulation) == pytest.approx([2 * 140, 3 * 140], rel=1e-12)


@pytest.mark.parametrize(
    ("placement", "cores", "tasks", "power_w"),
    [
        ("cores", 1, {0: 1}, 50 + 5),  # the second processor of node 0 is idle
        ("cores", 2, {0: 2}, 50 + 5 + 30 + 3),
        ("whole_nodes", 1, {0: 1}, 50 + 5),  # held, but without a task: charged to no job
        ("whole_nodes", 4, {1: 1, 0: 3}, 50 + 5 + 30 + 6 + 80 + 8),
        ("cores", 5, {0: 3, 1: 2}, 50 + 5 + 30 + 6 + 80 + 16),
    ],
)
def test_a_job_is_charged_for_the_processors_with_its_tasks(
    placement: str, cores: int, tasks: dict[int, int], power_w: float
) -> None:
    """A job is charged the static power of the processors with its tasks only."""
    jobs = jobs_of((0.0, 7.0, cores))
    jobs.placement[:] = PLACEMENTS.index(placement)
    allocation = AllocateJob(1, list(tasks), list(tasks.values()))
    simulation = decide(UNLIKE, jobs, (0.0, [allocation]), until_s=7.0)
    assert energies_of(simulation) == pytest.approx([7 * power_w], rel=1e-12)


def test_a_killed_job_of_many_nodes() -> None:
    """A killed job is charged on each node up to its kill; the remaining jobs are charged alone."""
    # Job 1 on all three processors from 0 to 4; job 2 on the second of node 0 from 0 to 9;
    # job 3 on node 1 from 1 to 9.
    jobs = jobs_of((0.0, 99.0, 3), (0.0, 9.0, 1), (0.0, 8.0, 1))
    simulation = decide(
        UNLIKE,
        jobs,
        (0.0, [AllocateJob(1, [0, 1], [2, 1]), AllocateJob(2, [0])]),
        (1.0, [AllocateJob(3, [1])]),
        (4.0, [KillJob(1)]),
        until_s=9.0,
    )
    assert [STATES[code] for code in simulation.recording.state] == [
        "killed",
        "completed",
        "completed",
    ]
    assert energies_of(simulation) == pytest.approx(
        [
            4 * (50 + 5) + 4 * (15 + 3) + 1 * 80 + 3 * 40 + 4 * 8,
            4 * 15 + 5 * 30 + 9 * 3,
            3 * 40 + 5 * 80 + 8 * 8,
        ],
        rel=1e-12,
    )
    idle_j = 5 * 0.5 * 50  # of the first processor of node 0, from 4 to 9
    assert simulation.record().energy_j == pytest.approx(
        sum(energies_of(simulation)) + idle_j, rel=1e-12
    )


def test_a_running_job_is_charged_up_to_end_s() -> None:
    """A running job is charged up to `end_s`; waiting and rejected jobs have energy 0."""
    jobs = jobs_of((0.0, 99.0, 2), (0.0, 99.0, 1), (0.0, 9.0, 1), (0.0, 9.0, 1))
    simulation = decide(
        FOUR,
        jobs,
        (0.0, [AllocateJob(1, [0]), RejectJob(4)]),
        (6.0, [AllocateJob(2, [0])]),
        until_s=10.0,
    )
    assert simulation.now_s == 10.0
    assert energies_of(simulation) == pytest.approx(
        [6 * 100 + 4 * 50 + 10 * 20, 4 * 50 + 4 * 10, 0, 0], rel=1e-12
    )
    later = job_energies_j(FOUR, simulation.recording, 12.0)
    assert list(later) == pytest.approx(
        [6 * 100 + 6 * 50 + 12 * 20, 6 * 50 + 6 * 10, 0, 0], rel=1e-12
    )


def test_a_stalled_task_draws_full_power() -> None:
    """Contention increases the energy of jobs through their run time, not their power."""
    constants = Contention(100.0, -1.0, 0.0, 0.0, 50.0, 0.0)
    processor = Processor(2, 1.0, 100.0, 10.0, 0.5, contention=constants)
    jobs = job_table(
        job_id=[1, 2], run_s=10.0, requested_s=10.0, cores=1, ops=10e9, memory_volume_mb=1000.0
    )
    platform = Platform((NodeGroup(1, (processor,)),))
    simulation = decide(
        platform, jobs, (0.0, [AllocateJob(1, [0]), AllocateJob(2, [0])]), until_s=16.0
    )
    assert simulation.recording.end_s.tolist() == [16.0, 16.0]
    assert energies_of(simulation) == pytest.approx([16 * (50 + 10)] * 2, rel=1e-12)


def test_a_task_that_has_ended_is_charged_until_the_job_ends() -> None:
    """A task that has ended is charged to its job until the job ends."""
    constants = Contention(100.0, -1.0, 0.0, 0.0, 50.0, 0.0)
    fast = Processor(2, 2.0, 100.0, 10.0, 0.5, contention=constants)
    slow = Processor(2, 1.0, 60.0, 6.0, 0.5, contention=constants)
    platform = Platform((NodeGroup(1, (fast,)), NodeGroup(1, (slow,))))
    jobs = job_table(job_id=[1, 2], run_s=10.0, requested_s=10.0, cores=[2, 1], ops=[10e9, 40e9])
    # Without memory demand. Job 1 on node 0: until 5; on node 1: until 10.
    simulation = decide(
        platform,
        jobs,
        (0.0, [AllocateJob(1, [0, 1], [1, 1]), AllocateJob(2, [0])]),
        until_s=20.0,
    )
    assert simulation.recording.end_s.tolist() == [10.0, 20.0]
    assert energies_of(simulation) == pytest.approx(
        [10 * (50 + 10) + 10 * (60 + 6), 10 * 50 + 10 * 100 + 20 * 10], rel=1e-12
    )
