"""Bounds are never above the optimum of small instances, and seals are what the code computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from hpcosim_experiments.benchmark.bounds import bound_of, mean_busy_times, seals_of
from hpcosim_experiments.benchmark.suite import (
    BenchmarkError,
    Suite,
    SuiteError,
    digest_of,
    find_suite,
    load_instance,
    read_suite,
    shipped_suites,
)
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas, Machines
from hpcosim_papers.deep_eas.bound import least_cost, optimum
from hpcosim_papers.deep_eas.environments.step_machines import step_jobs
from hpcosim_workloads.synthetic.bernoulli import bernoulli
from support.benchmark_suites import SUITE, smallest_of, tiny_suite
from support.response_oracle import RigidJob, least_mean_response_s

CORES = 3


@pytest.mark.parametrize("seed", range(20))
def test_relaxation_is_below_the_best_mean_response(seed: int) -> None:
    """The bound by mean busy times is at most the optimum over all orders of a few jobs."""
    rng = np.random.default_rng(seed)
    submits = np.sort(rng.integers(0, 6, 5)).tolist()
    jobs = [
        RigidJob(at, int(rng.integers(1, 7)), int(rng.integers(1, CORES + 1))) for at in submits
    ]
    busy_s = mean_busy_times(submits, [job.cores * job.run_s / CORES for job in jobs])
    runs_s, starts_s = np.array([job.run_s for job in jobs]), np.array(submits)
    bound_s = float((busy_s + runs_s / 2 - starts_s).mean())
    assert bound_s <= least_mean_response_s(jobs, CORES) + 1e-9


def test_relaxation_is_exact_for_jobs_of_the_whole_machine() -> None:
    """Equal jobs that need all cores, submitted together, end one after the other."""
    busy_s = mean_busy_times([0.0] * 4, [10.0] * 4)
    assert sorted(busy_s.tolist()) == [5.0, 15.0, 25.0, 35.0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_programme_is_below_the_best_normalised_edp(seed: int) -> None:
    """The bound of Deep-EAS is at most the optimum of the integer programme."""
    pytest.importorskip("scipy")
    table = bernoulli(
        np.random.default_rng(seed),
        arrival_probability=0.9,
        short_probability=0.5,
        short_run_s=(1, 3),
        long_run_s=(4, 6),
        cores=(1, 10),
        accuracy=4.0,
        slowdown=2.0,
        steps=6,
        sequences=1,
        apart_s=2000.0,
    )
    machines = Machines(DeepEas(), np.array([9.809, 1.0]), np.array([0.5, 1.0]))
    jobs = step_jobs(machines.settings, machines.scale, [table])
    horizon = int(jobs.submit.max() + jobs.actual[0].max(axis=0).sum())
    bound, best = least_cost(machines, jobs), optimum(machines, jobs, horizon)
    assert 0.0 < bound <= best.found * (1 + 1e-6)


@pytest.mark.parametrize("name", shipped_suites())
def test_smallest_instance_is_as_sealed(name: str) -> None:
    """The hash of the smallest instance of a suite is the stated one."""
    suite = smallest_of(name)
    (instance,) = suite.file.instances
    assert digest_of(load_instance(suite, instance)) == suite.seals[instance.name].sha256


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_suites())
def test_seal_of_the_smallest_instance_is_computed_again(name: str) -> None:
    """The bound and the reference of the smallest instance are what the code computes."""
    pytest.importorskip("scipy")
    suite = smallest_of(name)
    (found,) = seals_of(suite)
    sealed = suite.seals[found.instance]
    assert structs.replace(found, bound=sealed.bound) == sealed
    assert found.bound == pytest.approx(sealed.bound, rel=1e-6)


def test_no_bound_is_above_the_reference() -> None:
    """Each reference of a suite with a lower bound is at or above it."""
    for name in shipped_suites():
        suite = find_suite(name)
        if suite.file.bound != "switching-oracle":
            assert all(seal.bound <= seal.reference for seal in suite.seals.values())


def test_hash_covers_jobs_platform_and_seed_only(tmp_path: Path) -> None:
    """The hash of an instance changes with its content, and not with its name or scheduler."""
    suite = tiny_suite(tmp_path)
    instance = suite.file.instances[0]
    same = {"name": "other", "scheduler": "fcfs"}
    others = (
        {"workload.load": 1.5},
        {"platform.nodes.0.count": 9},
        {"workload.placement": "one_node"},
        {"wake_on_allocation": False},
    )
    bare = Suite(suite.file, suite.folder, {})

    def digest(**changes: object) -> str:
        changed = structs.replace(instance, set={**instance.set, **changes})
        return digest_of(load_instance(bare, changed))

    assert digest(**same) == suite.seals["a"].sha256
    digests = [digest(**change) for change in others]
    assert len({*digests, suite.seals["a"].sha256}) == len(others) + 1


def test_instance_that_differs_from_its_seal_is_not_run(tmp_path: Path) -> None:
    """A scenario that was changed after the suite was sealed is an error before a run."""
    suite = tiny_suite(tmp_path)
    file = tmp_path / "tiny.yaml"
    file.write_text(file.read_text().replace("count: 8", "count: 9"))
    with pytest.raises(BenchmarkError, match="tiny-1: a: this installation makes other jobs"):
        load_instance(suite, suite.file.instances[0])


def test_bound_of_another_score_is_refused(tmp_path: Path) -> None:
    """A bound that is none of the suite's score is an error."""
    suite = tiny_suite(tmp_path)
    file = structs.replace(suite.file, score={"mean_wait_s": 1.0})
    other, instance = Suite(file, suite.folder, suite.seals), suite.file.instances[0]
    with pytest.raises(BenchmarkError, match="tiny-1: score: the bound mean-response is one of"):
        bound_of(other, instance, load_instance(other, instance))


def test_unknown_bounds_are_named_when_a_suite_is_read(tmp_path: Path) -> None:
    """The message has the line, and the bounds that there are."""
    file = tmp_path / "suite.yaml"
    file.write_text(SUITE.replace("mean-response", "mean-respons"))
    message = r"suite.yaml:5: .*bound: expected one of mean-response, .*, got 'mean-respons'"
    with pytest.raises(SuiteError, match=message):
        read_suite(file)
