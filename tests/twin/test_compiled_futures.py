"""Futures of a queue on the compiled engine: the starts are those of the reference.

Tests of jobs with conditions are slow: the part of the engine for them is compiled first.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from random import Random

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")

from benchmarks.slurm_forecasts import state_at, usage_at

from hpcosim_compiled.queue import UnsupportedQueueError
from hpcosim_protocol import Dependency, JobRequest
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.slurm.settings import SiteSettings, parse_site
from hpcosim_twin.cluster.observation import ForecastError
from hpcosim_twin.cluster.queue_state import NamedScheduler, QueuedJob, QueueState, SlurmAt
from hpcosim_twin.futures.compiled import (
    CompiledFutures,
    outcomes_of,
    queue_engine,
    starts_of,
)
from hpcosim_twin.futures.reference import simulated_outcome, simulated_starts
from hpcosim_workloads.table import PLACEMENTS, JobSpec
from support.golden_slurm import GOLDEN_SLURM, run_of_events
from support.queues import Future, random_future, state_in, with_conditions
from support.simulating import cluster_of, jobs_of, simulate


def assert_equal(future: Future, *, with_asked: bool = False) -> dict[int, float]:
    """Simulate a future on both engines with the same draws; return the starts."""
    asked = future.asked if with_asked else None
    of_both = [(future.run_s, np.random.default_rng(7), future.future, asked) for _ in range(2)]
    expected = simulated_starts(future.state, *of_both[0])
    found = CompiledFutures(future.state).starts(*of_both[1])
    assert found == expected or (found is None and not expected)
    return expected


def spec(number: int, submit_s: float = 0.0, cores: int = 1, **more: object) -> JobSpec:
    """Return a job of 100 s."""
    return JobSpec(number, submit_s, np.nan, 100.0, cores, "cores")._replace(**more)  # type: ignore[arg-type]


def slurm_queue(*jobs: QueuedJob, nodes: int = 2, **more: object) -> QueueState:
    """Return jobs on nodes of two cores at 50 s."""
    policy = SlurmAt(SiteSettings(), 50.0, 50.0)
    return QueueState(50.0, cluster_of(nodes, 2), jobs, policy, **more)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("with_asked", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_jobs_of_random_sites_start_as_on_the_reference(seed: int, with_asked: bool) -> None:
    """Sites with partitions, accounts, limits, devices, memory, switches and drained nodes."""
    future = random_future(seed)
    if future is None:
        return
    with suppress(UnsupportedQueueError):
        assert_equal(future, with_asked=with_asked)


DECIDED_BY_GROUPS = (71, 130, 145)
"""Queues in which a job starts where one of its shape before it could not, although cores and nodes
were sufficient: Slurm takes running jobs away in groups."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(9), *DECIDED_BY_GROUPS])
def test_jobs_of_long_queues_start_as_on_the_reference(seed: int) -> None:
    """Plans of many records, with jobs of few shapes or all different, tested in part or all."""
    assert len(assert_equal(long_queue(Random(seed)))) > 20


def long_queue(random: Random) -> Future:
    """Return a full cluster of jobs that share nodes, and many waiting jobs."""
    nodes, cores, now_s = random.choice((5, 16, 70)), 8, 100_000.0
    sizes = [random.randint(1, 8 * cores) for _ in range(random.choice((7, 50)))]
    sizes = [min(count, nodes * cores) for count in sizes]
    limits_s = [random.randint(600, 40_000) for _ in range(random.choice((5, 100)))]
    placements = random.choice((PLACEMENTS[:1], PLACEMENTS[:2], PLACEMENTS[::2]))
    jobs, run_s, first = [], {}, 0
    for number in range(1, 2 * nodes + 200):
        limit_s, ran_s = random.choice(limits_s), 0.0
        count = min(random.choice(sizes), nodes * cores - first)
        if count > 0:
            ran_s = limit_s * random.random()
            tasks = Counter(core // cores for core in range(first, first + count))
            spec = JobSpec(number, float(number), math.nan, limit_s, count, "cores")
            jobs.append(QueuedJob(spec, now_s - ran_s, tuple(tasks), tuple(tasks.values())))
            first += count
        else:
            placement, count = random.choice(placements), random.choice(sizes)
            count = min(count, cores) if placement == "one_node" else count
            spec = JobSpec(number, float(number), math.nan, limit_s, count, placement)
            jobs.append(QueuedJob(spec))
        run_s[number] = ran_s + 1.0 + (limit_s - ran_s) * random.random() ** 2
    site = {
        "scheduler": {
            "bf_max_job_test": random.choice((500, 20)),
            "bf_resolution_s": random.choice((1, 60)),
            "bf_window_s": random.choice((3600, 86_400)),
        },
        "priority": {"weight_age": random.choice((0, 1000)), "weight_job_size": 500},
    }
    policy = SlurmAt(parse_site(site), now_s, None)
    return Future(QueueState(now_s, cluster_of(nodes, cores), jobs, policy), run_s, [], jobs[0])


@pytest.mark.slow
@pytest.mark.parametrize(("run", "at_s"), [("run1", 300.0), ("run2", 900.0)])
def test_jobs_of_a_real_slurm_start_as_on_the_reference(run: str, at_s: float) -> None:
    """Queues of the recorded runs, with fair-share, limits, devices and features."""
    if not GOLDEN_SLURM.is_dir():
        pytest.skip("needs ../shared/golden/slurm")
    recorded, specs = run_of_events(run, "jobs500_shrinked")
    state = state_at(
        recorded, {each.job_id: each for each in specs}, usage_at(GOLDEN_SLURM / run, at_s), at_s
    )
    later = [QueuedJob(each) for each in specs if each.submit_s > at_s]
    run_s = {each.job_id: each.run_s for each in specs}
    for job in state.jobs:
        run_s[job.spec.job_id] = max(run_s[job.spec.job_id], at_s - (job.started_s or at_s) + 1.0)
    asked = QueuedJob(specs[0]._replace(job_id=10_000, submit_s=at_s))
    assert len(assert_equal(Future(state, {**run_s, 10_000: 60.0}, later, asked))) > 20


@pytest.mark.parametrize("name", ["fcfs", "easy"])
def test_schedulers_of_the_catalogue_start_jobs_as_on_the_reference(name: str) -> None:
    """A queue in the middle of a run."""
    random = np.random.default_rng(3)
    jobs = jobs_of(
        *(
            (float(at), float(random.integers(5, 200)), int(random.integers(1, 9)))
            for at in range(60)
        )
    )
    state = state_in(simulate(cluster_of(8), jobs, name), jobs, 40.5, NamedScheduler(name))
    future = [QueuedJob(each) for each in jobs.rows() if each.submit_s > 40.5]
    run_s = {each.job_id: each.run_s + 60.0 for each in jobs.rows()}
    assert len(assert_equal(Future(state, run_s, future, future[0]))) > 5


def test_jobs_of_drained_nodes_free_nothing() -> None:
    """A job that runs on a drained node ends, and no job starts there."""
    running = QueuedJob(spec(1), 10.0, (0,), (1,))
    state = slurm_queue(running, QueuedJob(spec(2, 5.0, 4)), QueuedJob(spec(3, 6.0, 2)))
    starts = assert_equal(
        Future(replace(state, unavailable=(0,)), dict.fromkeys((1, 2, 3), 90.0), [], running)
    )
    assert set(starts) == {3}


def test_a_held_job_never_starts() -> None:
    """The jobs behind it do."""
    held = QueuedJob(spec(1, request=JobRequest(hold=True)))
    state = slurm_queue(held, QueuedJob(spec(2)))
    assert set(assert_equal(Future(state, {1: 9.0, 2: 9.0}, [], held))) == {2}


def test_jobs_without_an_end_end_at_their_limits() -> None:
    """The scheduler ends them in one of its checks."""
    jobs = [QueuedJob(spec(number, cores=4)) for number in (1, 2, 3)]
    starts = assert_equal(Future(slurm_queue(*jobs), dict.fromkeys((1, 2, 3), np.inf), [], jobs[0]))
    assert len(starts) == 3


def test_later_jobs_may_be_of_other_kinds() -> None:
    """Jobs that are like none of the queue get models of their own."""
    state = slurm_queue(QueuedJob(spec(1, cores=4)), QueuedJob(spec(2, cores=3)))
    later = [QueuedJob(spec(3, 60.0, 2)), QueuedJob(spec(4, 60.0, 1, requested_s=20.0))]
    assert_equal(Future(state, dict.fromkeys((1, 2, 3, 4), 80.0), later, later[0]))


def test_a_job_may_ask_an_empty_cluster() -> None:
    """Nothing runs, waits or is known."""
    asked = QueuedJob(spec(1, 50.0))
    assert 1 in starts_of(slurm_queue(), {1: 5.0}, np.random.default_rng(0), asked=asked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "with_asked"),
    [
        pytest.param(7, True, marks=pytest.mark.compiles),
        (7, False),
        *((seed, asked) for seed in (*range(7), *range(8, 12)) for asked in (False, True)),
    ],
)
def test_jobs_with_conditions_start_as_on_the_reference(seed: int, with_asked: bool) -> None:
    """Begin times, dependencies, holds and limited arrays, on random sites."""
    future = random_future(seed, conditions=True)
    if future is None:
        return
    with suppress(UnsupportedQueueError):
        assert_equal(future, with_asked=with_asked)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fcfs", "easy", "wfp3", "easy-wfp3"])
@pytest.mark.parametrize("seed", range(3))
def test_schedulers_of_the_catalogue_start_jobs_with_conditions_as_on_the_reference(
    name: str, seed: int
) -> None:
    """Jobs join the queue amid others, and leave it while they wait."""
    random = np.random.default_rng(seed)
    jobs = jobs_of(
        *(
            (float(at), float(random.integers(5, 200)), int(random.integers(1, 9)))
            for at in range(60)
        )
    )
    state = state_in(simulate(cluster_of(8), jobs, name), jobs, 40.5, NamedScheduler(name))
    later = [QueuedJob(each) for each in jobs.rows() if each.submit_s > 40.5]
    every = with_conditions(Random(seed), [*state.jobs, *later], 40.5)
    state, later = replace(state, jobs=every[: len(state.jobs)]), every[len(state.jobs) :]
    run_s = {each.job_id: each.run_s + 60.0 for each in jobs.rows()}
    assert len(assert_equal(Future(state, run_s, later, later[0]))) > 5


@pytest.mark.slow
@pytest.mark.compiles
def test_a_job_starts_at_its_begin_time() -> None:
    """The passes of Slurm's schedulers may add some seconds."""
    state = slurm_queue(QueuedJob(spec(1, request=JobRequest(begin_s=500.0))))
    starts = assert_equal(Future(state, {1: 9.0}, [], QueuedJob(spec(2))))
    assert 500.0 <= starts[1] < 600.0


@pytest.mark.slow
def test_a_job_starts_after_the_end_of_another() -> None:
    """`afterok` of a job that completes."""
    depends = JobRequest(dependencies=(Dependency("afterok", (1,)),))
    state = slurm_queue(QueuedJob(spec(1), 10.0, (0,), (1,)), QueuedJob(spec(2, request=depends)))
    starts = assert_equal(Future(state, {1: 90.0, 2: 9.0}, [], QueuedJob(spec(3))))
    assert starts[2] >= 100.0


@pytest.mark.slow
def test_a_job_never_starts_after_the_failure_of_another() -> None:
    """`afterok` of a job that runs until its limit."""
    depends = JobRequest(dependencies=(Dependency("afterok", (1,)),))
    state = slurm_queue(QueuedJob(spec(1), 10.0, (0,), (1,)), QueuedJob(spec(2, request=depends)))
    assert assert_equal(Future(state, {1: np.inf, 2: 9.0}, [], QueuedJob(spec(3)))) == {}


@pytest.mark.slow
def test_tasks_of_a_limited_array_run_one_after_the_other() -> None:
    """The running task counts, and there is room for all."""
    of_array = [JobRequest(array_id=1, array_index=at, array_limit=1) for at in range(3)]
    first, *others = (QueuedJob(spec(1 + at, request=each)) for at, each in enumerate(of_array))
    state = slurm_queue(first._replace(started_s=10.0, nodes=(0,), cores=(1,)), *others)
    starts = assert_equal(Future(state, {1: 60.0, 2: 60.0, 3: 60.0}, [], QueuedJob(spec(4))))
    assert starts[2] >= 70.0
    assert starts[3] >= starts[2] + 60.0


@pytest.mark.slow
def test_a_job_that_waits_for_a_held_job_starts_when_nothing_else_can_happen() -> None:
    """Then the held job is cancelled, as by the reference."""
    depends = JobRequest(dependencies=(Dependency("afterany", (1,)),))
    held = QueuedJob(spec(1, request=JobRequest(hold=True)))
    state = slurm_queue(held, QueuedJob(spec(2, request=depends)), QueuedJob(spec(3)))
    starts = assert_equal(Future(state, dict.fromkeys((1, 2, 3), 60.0), [], held))
    assert starts[2] >= starts[3] + 60.0


def test_a_waiting_job_may_be_submitted_later() -> None:
    """As where the clock of the cluster is ahead."""
    state = slurm_queue(QueuedJob(spec(1)), QueuedJob(spec(2, 75.0)))
    starts = assert_equal(Future(state, {1: 9.0, 2: 9.0}, [], QueuedJob(spec(3))))
    assert starts[2] >= 75.0


def test_what_the_engine_does_not_support_is_simulated_by_the_reference() -> None:
    """Numbers of switches."""
    state = slurm_queue(QueuedJob(spec(1, request=JobRequest(switches=1))))
    assert queue_engine(state) is None
    assert 1 in starts_of(state, {1: 5.0}, np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize("duration_s", [600.0, 40_000.0])
@pytest.mark.parametrize("seed", range(6))
def test_outcomes_are_those_of_the_reference(seed: int, duration_s: float) -> None:
    """Starts are equal, and energies but for the order of sums."""
    future = random_future(seed, conditions=bool(seed % 2))
    if future is None:
        return
    until_s = future.state.now_s + duration_s
    later = [job for job in future.future if job.spec.submit_s <= until_s]
    of_both = [(future.run_s, np.random.default_rng(7), later, duration_s) for _ in range(2)]
    expected = simulated_outcome(future.state, *of_both[0])
    with suppress(UnsupportedQueueError):
        found = CompiledFutures(future.state).outcome(*of_both[1])
        if found is not None:
            assert found.start_s == expected.start_s
            assert found.energy_j == pytest.approx(expected.energy_j, rel=1e-9)


@pytest.mark.slow
def test_the_energy_of_an_idle_cluster_is_that_of_its_nodes() -> None:
    """After the end of its job."""
    state = slurm_queue(QueuedJob(spec(1), 10.0, (0,), (1,)))
    found = CompiledFutures(state).outcome({1: 60.0}, np.random.default_rng(7), [], 1000.0)
    expected = simulated_outcome(state, {1: 60.0}, np.random.default_rng(7), [], 1000.0)
    assert found is not None
    assert found.start_s == {}
    assert found.energy_j == pytest.approx(expected.energy_j, rel=1e-12)


def test_both_outcomes_of_a_change_are_of_one_engine() -> None:
    """Of the reference if it alone supports one of them."""
    state = slurm_queue(QueuedJob(spec(1, cores=4)), QueuedJob(spec(2, cores=3)))
    other = replace(state, new_policy=lambda _: make_policy("easy"))
    run_s = {1: 60.0, 2: 60.0}
    expected = [
        simulated_outcome(each, run_s, np.random.default_rng(5), [], 500.0)
        for each in (state, other)
    ]
    assert outcomes_of((state, other), run_s, 5, [], 500.0) == expected


def test_a_running_job_that_does_not_fit_is_an_error() -> None:
    """Two jobs on one core are reported, with the number of the job."""
    running = [QueuedJob(spec(number), 10.0, (0,), (2,)) for number in (1, 2)]
    running = [job._replace(spec=job.spec._replace(cores=2)) for job in running]
    with pytest.raises(ForecastError, match="job 2 cannot run where it does"):
        CompiledFutures(slurm_queue(*running, QueuedJob(spec(3))))


def test_an_empty_cluster_is_simulated_by_the_reference() -> None:
    """Without any job the engine has no model: a job that is asked for starts nonetheless."""
    state = slurm_queue()
    assert queue_engine(state) is None
    asked = QueuedJob(spec(7, 50.0))
    assert 7 in starts_of(state, {7: 10.0}, np.random.default_rng(1), (), asked)
