"""Jobs become eligible when their conditions are met, and not before."""

from __future__ import annotations

from typing import Any

import pytest

from hpcosim_protocol import (
    AllocateJob,
    Dependency,
    Event,
    JobHeld,
    JobSubmitted,
    KillJob,
    RejectJob,
)
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.engine.site_events import JobAction, SiteEvents
from hpcosim_workloads.table import JobSpec
from support.simulating import cluster_of
from support.site_scenes import after, final_states, job, rejection, table


class Greedy:
    """A scheduler that allocates the first node with a free core to each eligible job."""

    def __init__(self, nodes: int, actions: tuple[JobAction, ...], *jobs: JobSpec) -> None:
        self.simulation = Simulation(
            cluster_of(nodes),
            table(*jobs),
            Rules(validate=True),
            site_events=SiteEvents(job_actions=actions),
        )
        self.events: list[Event] = []
        self.queue: list[int] = []

    def run(self) -> Simulation:
        """Run the simulation to its end."""
        batch = self.simulation.advance()
        while not batch.ended:
            self.events += batch.events
            for event in batch.events:
                name, job_id = type(event).__name__, getattr(event, "job_id", 0)
                if name == "JobEligible" or (isinstance(event, JobSubmitted) and event.eligible):
                    self.queue.append(job_id)
                if name in ("JobCompleted", "JobHeld") and job_id in self.queue:
                    self.queue.remove(job_id)
            free = [node for node, cores in enumerate(self.simulation.cluster.free) if cores]
            chosen = self.queue[: len(free)]
            self.queue = self.queue[len(free) :]
            decisions = [AllocateJob(j, [node]) for j, node in zip(chosen, free, strict=False)]
            batch = self.simulation.advance(decisions)
        return self.simulation


def starts(simulation: Simulation) -> dict[int, float]:
    """Return the start of each job that started."""
    recording = simulation.recording
    pairs = zip(recording.job_id, recording.start_s, strict=True)
    return {job_id: start_s for job_id, start_s in pairs if start_s == start_s}


def run(*jobs: JobSpec, nodes: int = 9, actions: tuple[JobAction, ...] = ()) -> Simulation:
    """Run jobs of one core, each as soon as it is eligible."""
    return Greedy(nodes, actions, *jobs).run()


@pytest.mark.parametrize(
    ("dependency", "start_s"),
    [
        (after("after", 1), 3.0),
        (after("after", 1, delay_s=4.0), 7.0),
        (after("afterok", 1), 13.0),
        (after("afterok", 1, delay_s=2.0), 15.0),
        (after("afterany", 1), 13.0),
        (after("afterany", 1, 3), 25.0),
        (after("afterok", 99), 0.0),
        (after("after", 99, delay_s=4.0), 0.0),
    ],
)
def test_job_waits_for_its_dependency(dependency: Dependency, start_s: float) -> None:
    """A job starts when the other jobs meet the condition, and the delay is over."""
    simulation = run(job(2, dependencies=(dependency,)), job(1, 3.0), job(3, 15.0))
    assert starts(simulation)[2] == start_s


def test_dependencies_that_never_can_be_met_cancel_the_job() -> None:
    """`afternotok` of a completed job cancels the job at once, and those that need it."""
    simulation = run(
        job(1),
        job(2, dependencies=(after("afternotok", 1),)),
        job(3, dependencies=(after("afterok", 2),)),
        job(4, dependencies=(after("afternotok", 3),)),
    )
    assert final_states(simulation) == {
        1: "completed",
        2: "cancelled",
        3: "cancelled",
        4: "completed",
    }
    assert list(simulation.recording.end_s) == [10.0, 10.0, 10.0, 20.0]
    assert simulation.recording.reasons[1] == "has a dependency that can never be met"


def test_job_that_needs_the_failure_of_an_unknown_job_is_cancelled() -> None:
    """An unknown job counts as completed: `afternotok` can never be met."""
    simulation = run(job(1, dependencies=(after("afternotok", 99),)))
    assert final_states(simulation) == {1: "cancelled"}
    assert list(simulation.recording.end_s) == [0.0]


def test_long_chain_of_impossible_dependencies_is_cancelled() -> None:
    """A chain longer than Python's stack is cancelled job by job."""
    chain = [job(n, dependencies=(after("afterok", n - 1),)) for n in range(2, 3000)]
    simulation = Simulation(cluster_of(1), table(job(1), *chain))
    simulation.advance()
    simulation.advance([RejectJob(1)])
    assert len(final_states(simulation)) == 2999


def test_dependency_on_a_job_that_is_over_is_met_or_impossible_at_submission() -> None:
    """A job submitted after the end of the other job is eligible or cancelled at once."""
    simulation = run(
        job(1),
        job(2, 50.0, dependencies=(after("afterok", 1),)),
        job(3, 50.0, dependencies=(after("afternotok", 1),)),
    )
    assert starts(simulation)[2] == 50.0
    assert final_states(simulation)[3] == "cancelled"


def test_one_of_several_dependencies_suffices_with_any() -> None:
    """With `any_dependency` the first met dependency counts, and impossible ones do not."""
    alternatives = (after("afternotok", 1), after("afterok", 2))
    simulation = run(
        job(1), job(2, run_s=30.0), job(3, dependencies=alternatives, any_dependency=True)
    )
    assert starts(simulation)[3] == 30.0


def test_job_rejected_at_submission_is_over_for_dependencies() -> None:
    """A job that cannot run lets `afternotok` start and cancels `afterok`."""
    simulation = run(
        job(2, dependencies=(after("afternotok", 1),)),
        job(3, dependencies=(after("afterok", 1),)),
        job(1, 5.0, cores=99),
    )
    assert starts(simulation) == {2: 5.0}
    assert final_states(simulation)[3] == "cancelled"


def test_singletons_of_a_user_and_name_run_one_after_the_other() -> None:
    """A singleton waits for earlier jobs of its user and name, not for those of others."""
    singleton = (after("singleton"),)
    simulation = run(
        job(1, name="a", spec={"user": "ada"}),
        job(2, name="a", spec={"user": "ada"}, dependencies=singleton),
        job(3, name="a", spec={"user": "bob"}, dependencies=singleton),
        job(4, name="b", spec={"user": "ada"}, dependencies=singleton),
        job(5, name="a", spec={"user": "ada"}, dependencies=singleton),
    )
    assert starts(simulation) == {1: 0.0, 2: 10.0, 3: 0.0, 4: 0.0, 5: 20.0}


def test_array_runs_at_most_its_limit() -> None:
    """The first tasks by index are eligible; each end admits the next."""
    tasks = [job(9 - n, array_id=7, array_index=n, array_limit=2, run_s=5.0) for n in range(5)]
    assert starts(run(*tasks)) == {9: 0.0, 8: 0.0, 7: 5.0, 6: 5.0, 5: 10.0}


def test_task_of_a_lower_index_takes_the_place_of_a_waiting_one() -> None:
    """A task that is no longer among the first ones is held until there is a place."""
    greedy = Greedy(
        0 + 1,
        (),
        job(1, run_s=20.0),
        job(2, 1.0, array_id=7, array_index=5, array_limit=1),
        job(3, 2.0, array_id=7, array_index=0, array_limit=1),
    )
    assert starts(greedy.run()) == {1: 0.0, 3: 20.0, 2: 30.0}
    held = [(e.time_s, e.job_id) for e in greedy.events if isinstance(e, JobHeld)]
    assert held == [(2.0, 2)]


def test_job_begins_at_its_begin_time_at_the_earliest() -> None:
    """A job with a begin time is announced as not eligible, and becomes eligible then."""
    greedy = Greedy(1, (), job(1, 5.0, begin_s=42.0), job(2, 50.0, begin_s=20.0))
    assert starts(greedy.run()) == {1: 42.0, 2: 52.0}
    submitted = [e for e in greedy.events if isinstance(e, JobSubmitted)]
    assert [e.eligible for e in submitted] == [False, True]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"hold": True}, "its user or an administrator holds it"),
        ({"begin_s": 99.0}, "it begins at 99.0 s"),
        ({"dependencies": (after("afterok", 2),)}, "a dependency is not met"),
        (
            {"array_id": 1, "array_index": 2, "array_limit": 1},
            "the limit of its array is reached",
        ),
    ],
)
def test_allocation_of_a_job_that_is_not_eligible_is_rejected(
    request_: dict[str, Any], reason: str
) -> None:
    """The rejection says what the job waits for."""
    simulation = Simulation(
        cluster_of(3),
        table(job(2, array_id=1, array_limit=1), job(1, **request_)),
    )
    simulation.advance()
    assert rejection(simulation, AllocateJob(1, [0])) == (
        "job_not_eligible",
        f"job 1 is not eligible: {reason}",
    )


def test_waiting_job_that_is_not_eligible_may_be_rejected_by_the_scheduler() -> None:
    """`reject_job` names the final state and the reason."""
    simulation = Simulation(cluster_of(1), table(job(1, hold=True), job(2)))
    simulation.advance()
    simulation.advance([RejectJob(1, "cancelled", "no budget"), AllocateJob(2, [0])])
    assert final_states(simulation)[1] == "cancelled"
    assert simulation.recording.reasons == {0: "no budget"}


def test_held_job_starts_when_released() -> None:
    """Actions hold and release a waiting job; on a running job they have no effect."""
    actions = (
        JobAction(at_s=7.0, job_id=2, kind="release"),
        JobAction(at_s=1.0, job_id=3, kind="hold"),
        JobAction(at_s=9.0, job_id=3, kind="release"),
        JobAction(at_s=8.0, job_id=1, kind="hold"),
    )
    greedy = Greedy(2, actions, job(1, run_s=30.0), job(2, hold=True), job(3, 1.0))
    simulation = greedy.run()
    assert starts(simulation) == {1: 0.0, 2: 7.0, 3: 17.0}
    assert simulation.actions.ignored == 1


def test_action_cancels_a_job_in_any_state() -> None:
    """A waiting and a running job are cancelled; a job that is over stays as it is."""
    actions = tuple(JobAction(at_s=4.0, job_id=n, kind="cancel") for n in (1, 2, 3, 77))
    simulation = run(job(1, run_s=2.0), job(2), job(3, hold=True), actions=actions)
    assert final_states(simulation) == {1: "completed", 2: "cancelled", 3: "cancelled"}
    assert simulation.actions.ignored == 2


def test_update_changes_begin_time_and_array_limit() -> None:
    """A later begin time holds an eligible job; a greater limit admits further tasks."""
    actions = (
        JobAction(at_s=2.0, job_id=1, kind="update", begin_s=30.0, priority=5),
        JobAction(at_s=3.0, job_id=2, kind="update", array_limit=3),
    )
    tasks = [job(2 + n, array_id=1, array_index=n, array_limit=1) for n in range(3)]
    simulation = run(*tasks, job(1, begin_s=20.0), actions=actions)
    assert starts(simulation) == {2: 0.0, 3: 3.0, 4: 3.0, 1: 30.0}


def test_job_that_is_held_for_ever_is_cancelled_at_the_end() -> None:
    """The simulation ends with jobs that nobody releases, and jobs after them can run."""
    simulation = run(
        job(1),
        job(2, hold=True),
        job(3, dependencies=(after("afternotok", 2),)),
        job(4, hold=True),
    )
    assert final_states(simulation) == {
        1: "completed",
        2: "cancelled",
        3: "completed",
        4: "cancelled",
    }
    assert simulation.recording.reasons == {1: "is held for ever", 3: "is held for ever"}


def test_any_number_of_jobs_is_cancelled_at_the_end() -> None:
    """Each end asks for further jobs that can never start."""
    simulation = run(job(1), *(job(number, hold=True) for number in range(2, 2000)))
    assert set(final_states(simulation).values()) == {"completed", "cancelled"}


def test_jobs_that_wait_for_each_other_are_cancelled_at_the_end() -> None:
    """A cycle of dependencies does not stop the simulation."""
    simulation = run(
        job(1, dependencies=(after("afterok", 2),)), job(2, dependencies=(after("afterok", 1),))
    )
    assert final_states(simulation) == {1: "cancelled", 2: "cancelled"}


def test_killed_job_does_not_meet_afterok() -> None:
    """A job that was killed meets `afternotok` and not `afterok`."""
    simulation = Simulation(
        cluster_of(1),
        table(
            job(1),
            job(2, dependencies=(after("afterok", 1),)),
            job(3, dependencies=(after("afternotok", 1),)),
        ),
    )
    simulation.advance()
    simulation.advance([AllocateJob(1, [0])], wake_on=["job_started"])
    simulation.advance([KillJob(1)])
    assert final_states(simulation) == {1: "killed", 2: "cancelled"}
    assert list(simulation.jobs.waiting) == [3]
    assert not simulation.jobs.waiting[3].blocked
