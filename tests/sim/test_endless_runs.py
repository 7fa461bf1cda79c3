"""Runs that would never end: schedulers that only wake or requeue, and jobs that nobody starts."""

from __future__ import annotations

import pytest

from hpcosim_protocol import AllocateJob, Decision, Explain, RejectJob, RequeueJob, SetAlarm
from hpcosim_sim.engine.simulation import WAKEUPS_WHILE_DUE, Batch, Rules, Simulation
from hpcosim_sim.engine.site_events import JobAction, SiteEvents
from hpcosim_sim.errors import SimulationStuck
from support.simulating import cluster_of, jobs_of
from support.site_scenes import after, final_states, job, table

LIMIT = 10
NEVER = "QOSMaxWallDurationPerJobLimit"


def nap(simulation: Simulation, *decisions: Decision) -> Batch:
    """Send decisions and set an alarm in one second, and let time pass."""
    return simulation.advance([*decisions, SetAlarm(simulation.now_s + 1.0, 1)])


def test_a_scheduler_that_only_wakes_is_stuck_after_the_limit() -> None:
    """The error names the job that waits, the scheduler's reason and the setting."""
    simulation = Simulation(cluster_of(1), jobs_of((0.0, 5.0, 1)), Rules(stuck_after_wakeups=LIMIT))
    simulation.advance()
    nap(simulation, Explain(1, "Lazy"))
    for _ in range(LIMIT - 1):
        nap(simulation)
    with pytest.raises(SimulationStuck, match=r"1 job waits.*job 1: Lazy.*stuck_after_wakeups"):
        nap(simulation)
    assert simulation.now_s == LIMIT + 1


def test_more_wakeups_are_permitted_while_a_job_runs() -> None:
    """The end of a running job is due; the limit is `WAKEUPS_WHILE_DUE` times the setting."""
    simulation = Simulation(
        cluster_of(1), jobs_of((0.0, 1e6, 1), (0.0, 1.0, 1)), Rules(stuck_after_wakeups=LIMIT)
    )
    simulation.advance()
    nap(simulation, AllocateJob(1, [0]))
    for _ in range(WAKEUPS_WHILE_DUE * LIMIT):
        nap(simulation)
    with pytest.raises(SimulationStuck, match=r"1 job waits \(2\)"):
        nap(simulation)


def test_wakeups_without_jobs_before_a_submission_are_not_counted() -> None:
    """A power manager may wake as often as it likes while no job is there."""
    simulation = Simulation(
        cluster_of(1), jobs_of((0.0, 1.0, 1), (1e4, 1.0, 1)), Rules(stuck_after_wakeups=1)
    )
    simulation.advance()
    nap(simulation, AllocateJob(1, [0]))
    while simulation.now_s < 9_000.0:
        nap(simulation)


def test_jobs_that_are_only_requeued_are_stuck() -> None:
    """A job that a scheduler starts and requeues in turn, while time passes, never ends."""
    simulation = Simulation(
        cluster_of(1),
        table(job(1, run_s=100.0, requeue=True)),
        Rules(stuck_after_wakeups=LIMIT),
    )
    simulation.advance()

    def in_turn() -> None:
        for _ in range(2 * LIMIT):
            nap(simulation, AllocateJob(1, [0]))
            nap(simulation, RequeueJob(1))

    with pytest.raises(SimulationStuck, match="jobs were requeued at 11 times"):
        in_turn()


def given_up(simulation: Simulation, job_id: int) -> None:
    """Reject a job at the end."""
    simulation.advance([RejectJob(job_id, "cancelled", NEVER, at_end=True)])


def test_a_job_given_up_waits_until_nothing_else_can_happen() -> None:
    """It ends with the state and the reason of its rejection when the last other job ends."""
    simulation = Simulation(cluster_of(1), jobs_of((0.0, 9.0, 1), (0.0, 5.0, 1), (3.0, 1.0, 1)))
    simulation.advance()
    given_up(simulation, 1)
    assert simulation.now_s == 3.0  # the next submission
    simulation.advance([AllocateJob(2, [0])], wake_on=["job_completed"])
    assert list(simulation.jobs.waiting) == [1, 3]
    simulation.advance([AllocateJob(3, [0])])
    assert final_states(simulation) == {1: "cancelled", 2: "completed", 3: "completed"}
    assert simulation.recording.reasons[0] == NEVER
    assert simulation.recording.end_s[0] == 9.0


def test_a_change_of_a_job_revokes_that_it_was_given_up() -> None:
    """An update of the job by its user comes later: the job waits for it and can then start."""
    update = JobAction(at_s=50.0, job_id=1, kind="update", requested_s=1.0)
    simulation = Simulation(
        cluster_of(1), table(job(1)), site_events=SiteEvents(job_actions=(update,))
    )
    simulation.advance()
    simulation.advance([RejectJob(1, "cancelled", NEVER, at_end=True)], wake_on=["job_updated"])
    assert simulation.now_s == 50.0
    simulation.advance([AllocateJob(1, [0])])
    assert final_states(simulation) == {1: "completed"}


def test_a_job_that_waits_for_one_given_up_is_eligible_after_its_end() -> None:
    """`afterany` is met by the end of the job that never started."""
    simulation = Simulation(
        cluster_of(1), table(job(1), job(2, dependencies=(after("afterany", 1),)))
    )
    simulation.advance()
    given_up(simulation, 1)
    assert list(simulation.jobs.waiting) == [2]
    simulation.advance([AllocateJob(2, [0])])
    assert final_states(simulation) == {1: "cancelled", 2: "completed"}
