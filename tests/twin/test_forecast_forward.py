"""The simulation of a queue from an instant on."""

from __future__ import annotations

import numpy as np
import pytest

from hpcosim_protocol import JobRequest, Platform
from hpcosim_schedulers.slurm.policy import slurm
from hpcosim_schedulers.slurm.settings import parse_site
from hpcosim_twin.cluster.observation import ForecastError
from hpcosim_twin.cluster.queue_state import NamedScheduler, QueuedJob, QueueState, SlurmAt
from hpcosim_twin.futures.reference import simulated_starts as starts_of
from hpcosim_workloads.table import JobSpec, JobTable, job_table
from support.queues import state_in
from support.simulating import cluster_of, simulate

DRAW = np.random.default_rng(0)


def random_jobs(seed: int, count: int = 40) -> JobTable:
    """Return jobs that are all submitted within 100 s, on up to 8 cores."""
    random = np.random.default_rng(seed)
    run_s = random.integers(5, 200, count).astype(float)
    return job_table(
        job_id=range(1, count + 1),
        submit_s=np.sort(random.integers(0, 100, count)).astype(float),
        run_s=run_s,
        requested_s=run_s * random.choice([1.0, 1.5, 4.0], count),
        cores=random.integers(1, 9, count),
    )


@pytest.mark.parametrize("name", ["fcfs", "easy", "sjf"])
@pytest.mark.parametrize("seed", range(4))
def test_with_actual_run_times_each_waiting_job_starts_when_it_did(name: str, seed: int) -> None:
    """A forecast with the actual run times is the actual schedule of the same policy."""
    jobs = random_jobs(seed)
    run = simulate(cluster_of(8), jobs, name)
    actual = dict(zip(run.recording.job_id, run.recording.start_s, strict=True))
    run_s = {spec.job_id: spec.run_s for spec in jobs.rows()}
    state = state_in(run, jobs, 100.5, NamedScheduler(name))
    assert len(state.waiting) > 5
    found = starts_of(state, run_s, DRAW)
    assert found == {job.spec.job_id: actual[job.spec.job_id] for job in state.waiting}


@pytest.mark.parametrize("seed", range(4))
def test_slurm_with_actual_run_times_and_phases_starts_jobs_when_it_did(seed: int) -> None:
    """With its phases known, the policy `slurm` continues its own schedule.

    What it knows of the backfill scheduler before is that it was idle, which changes its phase by
    0.0002 s each second.
    """
    site = parse_site({"scheduler": {"sched_interval_s": 5.0, "bf_interval_s": 5.0}})
    jobs = random_jobs(seed)
    run = simulate(cluster_of(8), jobs, slurm(site))
    actual = dict(zip(run.recording.job_id, run.recording.start_s, strict=True))
    run_s = {spec.job_id: spec.run_s for spec in jobs.rows()}
    state = state_in(run, jobs, 100.5, SlurmAt(site, 100.5, 100.5))
    found = starts_of(state, run_s, DRAW)
    expected = {job.spec.job_id: actual[job.spec.job_id] for job in state.waiting}
    assert found == pytest.approx(expected, abs=0.03)


def waiting_job(**request: object) -> QueuedJob:
    """Return a job of one core that was submitted at 0 s."""
    (spec,) = job_table(job_id=[1], requested_s=10.0).rows()
    return QueuedJob(spec._replace(request=JobRequest(**request)))  # type: ignore[arg-type]


def alone(job: QueuedJob, platform: Platform | None = None, **more: object) -> QueueState:
    """Return a cluster with one job, at 5 s."""
    return QueueState(
        5.0,
        platform or cluster_of(1),
        [job],
        NamedScheduler("easy"),
        **more,  # type: ignore[arg-type]
    )


def test_a_job_with_a_begin_time_starts_then() -> None:
    """A begin time is the earliest start."""
    assert starts_of(alone(waiting_job(begin_s=60.0)), {1: 10.0}, DRAW) == {1: 60.0}


def test_a_held_job_never_starts() -> None:
    """A job that is held has no start."""
    assert starts_of(alone(waiting_job(hold=True)), {1: 10.0}, DRAW) == {}


def test_no_job_starts_on_an_unavailable_node() -> None:
    """A job whose only node is drained has no start."""
    assert starts_of(alone(waiting_job(), unavailable=(0,)), {1: 10.0}, DRAW) == {}
    state = alone(waiting_job(), cluster_of(2), unavailable=(0,))
    assert starts_of(state, {1: 10.0}, DRAW) == {1: 5.0}


def test_a_running_job_that_does_not_fit_is_an_error() -> None:
    """Two jobs on one core are reported, with the number of the job."""
    first, second = job_table(job_id=[1, 2], requested_s=10.0).rows()
    running = [QueuedJob(each, 1.0, (0,), (1,)) for each in (first, second)]
    state = QueueState(5.0, cluster_of(1), running, NamedScheduler("easy"))
    with pytest.raises(ForecastError, match="job 2 cannot run where it does"):
        starts_of(state, {1: 100.0, 2: 100.0}, DRAW)


def test_a_job_of_the_whole_cluster_starts_when_all_others_end_at_once() -> None:
    """Nothing happens for a day before: the cluster was not idle, and the scheduler is woken."""
    spec = JobSpec(1, 0.0, np.nan, 86_400.0, 1, "cores")
    jobs = [QueuedJob(spec, 0.0, (0,), (1,)), QueuedJob(spec._replace(job_id=2), 0.0, (1,), (1,))]
    jobs.append(QueuedJob(spec._replace(job_id=3, submit_s=1.0, cores=2)))
    state = QueueState(5.0, cluster_of(2), jobs, NamedScheduler("easy"))
    assert starts_of(state, dict.fromkeys((1, 2, 3), 86_000.0), DRAW) == {3: 86_000.0}
