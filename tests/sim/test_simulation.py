"""`Simulation.advance`: whole event traces of small scenarios."""

from __future__ import annotations

import pytest

from hpcosim_protocol import (
    Alarm,
    AllocateJob,
    JobCompleted,
    JobStarted,
    JobSubmitted,
    NoMoreJobs,
    SetAlarm,
    SimulationBegan,
    SubmitJob,
)
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.errors import SimulationStuck
from support.simulating import cluster_of, jobs_of


def test_two_jobs_on_two_nodes_whole_trace() -> None:
    """Two jobs, the second submitted while the first runs, give exactly these batches."""
    simulation = Simulation(cluster_of(2), jobs_of((5.0, 10.0, 1), (8.0, 2.0, 2)))
    assert simulation.advance() == (
        5.0,
        [SimulationBegan(5.0), JobSubmitted(5.0, 1, 1, 10.0)],
        False,
    )
    assert simulation.advance([AllocateJob(1, [1])]) == (
        8.0,
        [JobStarted(5.0, 1, [1], [1]), JobSubmitted(8.0, 2, 2, 2.0), NoMoreJobs(8.0)],
        False,
    )
    assert simulation.advance() == (15.0, [JobCompleted(15.0, 1, "completed")], False)
    assert simulation.advance([AllocateJob(2, [0, 1])]) == (
        17.0,
        [JobStarted(15.0, 2, [0, 1], [1, 1]), JobCompleted(17.0, 2, "completed")],
        False,
    )
    assert simulation.advance() == (17.0, [], True)


def test_all_of_one_instant_comes_in_one_batch_in_order() -> None:
    """At one instant completions come before submissions before alarms."""
    simulation = Simulation(cluster_of(1), jobs_of((0.0, 10.0, 1), (10.0, 1.0, 1), (10.0, 1.0, 1)))
    simulation.advance()
    batch = simulation.advance([SetAlarm(10.0, 7), AllocateJob(1, [0])])
    assert [type(event) for event in batch.events] == [
        JobStarted,
        JobCompleted,
        JobSubmitted,
        JobSubmitted,
        NoMoreJobs,
        Alarm,
    ]


def test_a_simulation_with_waiting_jobs_and_no_event_is_stuck() -> None:
    """A scheduler that starts no job gets an error with the waiting jobs."""
    simulation = Simulation(cluster_of(1), jobs_of((3.0, 1.0, 1), (4.0, 1.0, 1)))
    simulation.advance()
    simulation.advance()
    with pytest.raises(SimulationStuck, match=r"2 jobs wait \(1, 2\), the first since 3\.0 s"):
        simulation.advance()


def test_a_job_submitted_in_reply_to_the_last_completion_runs() -> None:
    """With dynamic jobs, a submission in reply to the last event continues the simulation."""
    simulation = Simulation(cluster_of(1), jobs_of((0.0, 5.0, 1)), Rules(dynamic_jobs=True))
    simulation.advance()
    simulation.advance([AllocateJob(1, [0])])
    batch = simulation.advance([SubmitJob(2, cores=1, run_s=3.0)])
    assert batch == (5.0, [JobSubmitted(5.0, 2, 1, 3.0)], False)
    batch = simulation.advance([AllocateJob(2, [0])])
    assert batch.events[-1] == JobCompleted(8.0, 2, "completed")
    assert simulation.advance().ended


def test_elapsed_s_passes_before_the_decisions() -> None:
    """Events within `elapsed_s` precede the decisions of the request."""
    simulation = Simulation(cluster_of(2), jobs_of((0.0, 10.0, 1), (2.0, 10.0, 1)))
    simulation.advance()
    batch = simulation.advance([AllocateJob(1, [0])], elapsed_s=3.0)
    assert batch.events == [
        JobSubmitted(2.0, 2, 1, 10.0),
        NoMoreJobs(2.0),
        JobStarted(3.0, 1, [0], [1]),
    ]


def test_events_outside_of_wake_on_are_returned_at_the_end() -> None:
    """Events outside of `wake_on` are returned when no further event can occur."""
    simulation = Simulation(cluster_of(1), jobs_of((0.0, 1.0, 1), (5.0, 1.0, 1)))
    simulation.advance()
    batch = simulation.advance([AllocateJob(1, [0])], wake_on=[])
    assert batch == (
        5.0,
        [
            JobStarted(0.0, 1, [0], [1]),
            JobCompleted(1.0, 1, "completed"),
            JobSubmitted(5.0, 2, 1, 1.0),
            NoMoreJobs(5.0),
        ],
        False,
    )


def test_replaced_alarms_take_no_memory() -> None:
    """The heap drops cancelled timers when they are the majority."""
    simulation = Simulation(cluster_of(1), jobs_of((0.0, 1.0, 1)))
    simulation.advance()
    for _ in range(10):
        simulation.advance(
            [SetAlarm(5.0 + i) for i in range(1000)] + [SetAlarm(1.0 + simulation.now_s)]
        )
    assert len(simulation.clock) < 1000
