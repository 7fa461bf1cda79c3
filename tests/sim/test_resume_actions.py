"""Resumes of users that must wait: for cores and for reservations."""

from __future__ import annotations

from typing import Any

import pytest

from hpcosim_protocol import (
    AllocateJob,
    DecisionRejected,
    KillJob,
    NodeGroup,
    NodeReservation,
    Platform,
    Processor,
    ResumeJob,
    SuspendJob,
)
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.engine.site_events import JobAction, SiteEvents
from hpcosim_sim.errors import SimulationStuck
from support.site_scenes import job, table

MAINTENANCE = NodeReservation(name="maint", nodes=((0, 0),), start_s=50.0, end_s=60.0)


def scene(*jobs: Any, actions: Any = (), reserved: Any = ()) -> Simulation:
    """Return a simulation of a node with two cores that has begun."""
    platform = Platform((NodeGroup(1, (Processor(2),)),), reservations=reserved)
    found = [
        each
        if isinstance(each, JobAction)
        else JobAction(at_s=each[0], job_id=each[1], kind=each[2])
        for each in actions
    ]
    site_events = SiteEvents((), tuple(found))
    simulation = Simulation(platform, table(*jobs), site_events=site_events)
    simulation.advance(wake_on=["no_more_jobs"])
    return simulation


def start(job_id: int) -> AllocateJob:
    """Return the decision to start a job on the node."""
    return AllocateJob(job_id, [0])


def resumed_s(simulation: Simulation, *decisions: Any) -> float:
    """Return when a job is resumed after decisions."""
    events = simulation.advance(decisions, wake_on=["job_resumed"]).events
    return next(event.time_s for event in events if type(event).__name__ == "JobResumed")


TWO = (job(1, run_s=20.0, cores=2), job(2, run_s=30.0, cores=2))


def test_resume_waits_for_the_cores_of_the_job() -> None:
    """A job whose cores are busy at its resume runs again as soon as they are free."""
    simulation = scene(*TWO, actions=[(5.0, 1, "suspend"), (10.0, 1, "resume")])
    simulation.advance([start(1)], wake_on=["job_suspended"])
    assert resumed_s(simulation, start(2)) == 35.0
    simulation.advance()
    assert simulation.recording.end_s.tolist() == [50.0, 35.0]


def test_cores_that_a_decision_frees_resume_a_job() -> None:
    """A job resumes at the instant at which a decision frees its cores."""
    simulation = scene(*TWO, actions=[(5.0, 1, "suspend"), (10.0, 1, "resume")])
    simulation.advance([start(1)], wake_on=["job_suspended"])
    simulation.advance([start(2)], wake_on=["job_started"])
    events = simulation.advance([KillJob(2)], elapsed_s=10.0, wake_on=["job_resumed"]).events
    assert [event.time_s for event in events] == [15.0, 15.0]


@pytest.mark.parametrize("kind", ["cancel", "requeue", "suspend"])
def test_pending_resume_is_revoked(kind: Any) -> None:
    """A job that is cancelled, requeued or suspended again is not resumed any more."""
    actions = [(5.0, 1, "suspend"), (10.0, 1, "resume"), (15.0, 1, kind)]
    first = job(1, run_s=20.0, cores=2, requeue=True)
    simulation = scene(first, TWO[1], actions=actions)
    simulation.advance([start(1)], wake_on=["job_suspended"])
    simulation.advance([start(2)], wake_on=["job_completed"])
    while not {2} <= {simulation.recording.job_id[row] for row in _over(simulation)}:
        simulation.advance(wake_on=["job_completed"])
    assert 1 not in simulation.jobs.running
    assert simulation.actions.ignored == 0


def _over(simulation: Simulation) -> list[int]:
    ends = simulation.recording.end_s
    return [row for row, end_s in enumerate(ends) if end_s == end_s]


def test_resume_waits_for_the_end_of_a_reservation() -> None:
    """A job whose rest overlaps a reservation resumes at the end of the reservation."""
    actions = [(5.0, 1, "suspend"), (40.0, 1, "resume")]
    simulation = scene(TWO[0], actions=actions, reserved=(MAINTENANCE,))
    simulation.advance([start(1)], wake_on=["job_suspended"])
    assert resumed_s(simulation) == 60.0


def test_resume_regards_the_rest_of_the_requested_time() -> None:
    """A job whose rest ends before a reservation resumes at once."""
    actions = [(12.0, 1, "suspend"), (42.0, 1, "resume")]
    simulation = scene(TWO[0], actions=actions, reserved=(MAINTENANCE,))
    simulation.advance([start(1)], wake_on=["job_suspended"])
    assert resumed_s(simulation) == 42.0


def test_decision_to_resume_into_a_reservation_is_rejected() -> None:
    """The scheduler may not resume a job that would run into a reservation."""
    simulation = scene(TWO[0], reserved=(MAINTENANCE,))
    simulation.advance([start(1)], wake_on=["job_started"])
    simulation.advance([SuspendJob(1)], elapsed_s=5.0, wake_on=["job_suspended"])
    batch = simulation.advance([ResumeJob(1)], elapsed_s=35.0, wake_on=[])
    (event,) = [each for each in batch.events if isinstance(each, DecisionRejected)]
    assert (event.code, event.reason) == (
        "reserved",
        "node 0 is reserved by maint from 50.0 to 60.0 s; job 1 would run until 55.0 s",
    )


def test_resume_that_no_window_permits_is_given_up() -> None:
    """A job that fits between no two windows is suspended for ever: the simulation is stuck."""
    often = NodeReservation(name="m", nodes=((0, 0),), start_s=8.0, end_s=9.0, repeat_s=10.0)
    longer = JobAction(at_s=1.5, job_id=1, kind="update", requested_s=100.0)
    actions = [(1.0, 1, "suspend"), longer, (2.0, 1, "resume")]
    simulation = scene(job(1, run_s=7.0, cores=2), actions=actions, reserved=(often,))
    simulation.advance([start(1)], wake_on=["job_suspended"])
    simulation.advance()  # tells the update
    with pytest.raises(SimulationStuck):
        simulation.advance()
