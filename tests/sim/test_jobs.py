"""The states of jobs and the transitions between them."""

from __future__ import annotations

import math

import pytest

from hpcosim_sim.engine.jobs import TRANSITIONS, JobRegister, JobStage, SimulatedJob
from hpcosim_sim.errors import IllegalTransition, Rejection
from hpcosim_sim.record.recording import Recording
from hpcosim_workloads.table import JobSpec

LEGAL = {
    ("waiting", "allocated"),
    ("waiting", "running"),
    ("waiting", "over"),
    ("allocated", "running"),
    ("allocated", "over"),
    ("running", "over"),
    ("running", "suspended"),
    ("suspended", "running"),
    ("suspended", "over"),
    ("allocated", "waiting"),
    ("running", "waiting"),
    ("suspended", "waiting"),
}
WAY: dict[JobStage, tuple[JobStage, ...]] = {
    "waiting": (),
    "allocated": ("allocated",),
    "running": ("running",),
    "suspended": ("running", "suspended"),
    "over": ("over",),
}


def one_job(state: JobStage) -> tuple[JobRegister, SimulatedJob]:
    """Return a register with one job, job 7, in a state."""
    recording = Recording()
    spec = JobSpec(7, 0.0, 1.0, math.inf, 1, "cores")
    register = JobRegister(recording)
    job = SimulatedJob(spec, recording.submitted(spec))
    register.add(job)
    for after in WAY[state]:
        register.move(job, after)
    return register, job


@pytest.mark.parametrize("after", TRANSITIONS)
@pytest.mark.parametrize("before", TRANSITIONS)
def test_transitions(before: JobStage, after: JobStage) -> None:
    """The legal transitions succeed; others raise an error and leave the state unchanged."""
    register, job = one_job(before)
    if (before, after) in LEGAL:
        register.move(job, after)
        assert job.state == after
        return
    with pytest.raises(IllegalTransition, match=f"job 7 from {before} to {after}"):
        register.move(job, after)
    assert job.state == before


@pytest.mark.parametrize("state", TRANSITIONS)
def test_job_is_in_the_collection_of_its_state_only(state: JobStage) -> None:
    """A job is in the collection of its state only; a job that is over is in none."""
    register, job = one_job(state)
    collections = {
        "waiting": register.waiting,
        "allocated": register.allocated,
        "running": register.running,
        "suspended": register.suspended,
    }
    found = [name for name, jobs in collections.items() if job in jobs.values()]
    assert found == ([] if state == "over" else [state])
    assert register.is_empty == (state == "over")


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("allocated", r"job 7 is allocated \(its nodes are being switched on\); expected a wait"),
        ("running", "job 7 is running; expected a waiting job"),
        ("over", "job 7 is over; expected a waiting job"),
    ],
)
def test_job_that_does_not_wait_is_not_found_waiting(state: JobStage, why: str) -> None:
    """The rejection contains the state of the job."""
    register, _ = one_job(state)
    with pytest.raises(Rejection, match=why) as caught:
        register.waiting_job(7)
    assert caught.value.code == "job_not_waiting"


def test_job_that_was_never_submitted_is_unknown() -> None:
    """A job that was never submitted is rejected as unknown."""
    register, _ = one_job("waiting")
    with pytest.raises(Rejection, match="job 8 does not exist") as caught:
        register.placed_job(8)
    assert caught.value.code == "unknown_job"
