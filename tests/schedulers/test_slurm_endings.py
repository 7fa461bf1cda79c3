"""The scheduler `slurm` ends jobs for others, and jobs that cannot meet their deadlines."""

from __future__ import annotations

from typing import Any

import pytest

from hpcosim_protocol import JobRequest
from hpcosim_schedulers.slurm.policy import slurm
from hpcosim_schedulers.slurm.settings import parse_site
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.recording import STATES
from hpcosim_workloads.table import JobSpec
from support.golden_slurm import job_table_of
from support.simulating import cluster_of, simulate


def run(jobs: list[JobSpec], **settings: Any) -> Simulation:
    """Return a simulation of jobs on two nodes of one core."""
    return simulate(cluster_of(2), job_table_of(jobs), slurm(parse_site(settings)))


def preempted(mode: str, *, requeue: bool = True, grace_s: float = 0.0) -> Simulation:
    """Return a simulation in which an urgent job finds a low one on all nodes at 100 s."""
    request = JobRequest(requeue=requeue)
    jobs = [
        JobSpec(1, 0.0, 400.0, 900.0, 2, "cores", qos="low", request=request),
        JobSpec(2, 100.0, 50.0, 60.0, 2, "cores", qos="urgent", request=request),
    ]
    return run(
        jobs,
        qos={
            "low": {"preempt_mode": mode, "grace_time_s": grace_s},
            "urgent": {"preempt": ["low"], "priority": 100},
        },
        preemption={"type": "qos", "mode": "requeue"},
    )


def state(simulation: Simulation, row: int) -> str:
    """Return the state in which a job ended."""
    return STATES[simulation.recording.state[row]]


def test_cancelled_victim_makes_room() -> None:
    """With the mode `cancel` the victim ends as preempted and the urgent job starts."""
    simulation = preempted("cancel")
    assert state(simulation, 0) == "preempted"
    assert simulation.recording.start_s[1] < 200


def test_victim_ends_after_its_grace_time() -> None:
    """The urgent job waits for the grace time of the victim."""
    starts = [preempted("cancel", grace_s=grace_s).recording.start_s[1] for grace_s in (0.0, 100.0)]
    assert starts[1] >= starts[0] + 60


def test_requeued_victim_runs_again_from_its_begin() -> None:
    """With the mode `requeue` the victim starts again 121 s later and completes."""
    simulation = preempted("requeue")
    assert state(simulation, 0) == "completed"
    assert simulation.recording.start_s[0] >= 100 + 121
    assert simulation.recording.start_s[1] < 200


def test_victim_that_must_not_be_requeued_is_cancelled() -> None:
    """A job that does not permit it ends instead of waiting again."""
    assert state(preempted("requeue", requeue=False), 0) == "preempted"


def test_victim_stays_with_the_mode_off() -> None:
    """With the mode `off` the urgent job waits for the end of the other."""
    simulation = preempted("off")
    assert state(simulation, 0) == "completed"
    assert simulation.recording.start_s[1] >= 400


@pytest.mark.parametrize(("deadline_s", "expected"), [(500.0, "deadline"), (2000.0, "completed")])
def test_job_that_cannot_meet_its_deadline_ends(deadline_s: float, expected: str) -> None:
    """A waiting job ends once its limit reaches beyond its deadline, and only then."""
    jobs = [
        JobSpec(1, 0.0, 900.0, 1000.0, 2, "cores"),
        JobSpec(2, 1.0, 100.0, 200.0, 2, "cores", deadline_s=deadline_s),
    ]
    simulation = run(jobs)
    assert state(simulation, 1) == expected
    if expected == "deadline":
        assert 300 <= simulation.recording.end_s[1] <= 300 + 35
