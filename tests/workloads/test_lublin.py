"""The Lublin-Feitelson workload, against the model's mathematics and the authors' sample.

The constants stand here a second time, as numbers, so that a slip in the generator is seen.
"""

from __future__ import annotations

import functools
import gzip
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.synthetic.lublin import lublin
from hpcosim_workloads.table import JobTable
from support.paths import SHARED

SAMPLE = SHARED / "traces" / "lublin_256.swf.gz"
MANY = 1_000_000
SIGMAS = 5.0
SERIAL = 0.244
ROUNDED = 0.576
HALF_HOUR_S = 1800

FloatArray = NDArray[np.float64]


@functools.cache
def table(seed: int = 1, jobs: int = MANY, processors: int = 256) -> JobTable:
    """Return a workload, drawn once for all tests."""
    return lublin(np.random.default_rng(seed), jobs=jobs, processors=processors)


def share_tolerance(share: float, count: int = MANY) -> float:
    """Return the tolerance of a share among `count` independent jobs."""
    return SIGMAS * math.sqrt(share * (1 - share) / count)


def log2_size_below(x: float, processors: int) -> float:
    """Return the distribution function of the two-stage uniform log2 size at `x`."""
    low, high = 0.8, math.log2(processors)
    stages = [0.0, 0.86, 1.0]
    return float(np.interp(x, [low, high - 2.5, high], stages))


def size_share(size: int, processors: int) -> float:
    """Return the exact share of jobs of a parallel size; `processors` is a power of two."""

    def between(low: float, high: float) -> float:
        return log2_size_below(high, processors) - log2_size_below(low, processors)

    share = (1 - SERIAL - ROUNDED) * between(math.log2(size - 0.5), math.log2(size + 0.5))
    if size.bit_count() == 1:
        share += ROUNDED * between(math.log2(size) - 0.5, math.log2(size) + 0.5)
    return share


def gamma_density(x: FloatArray, shape: float, scale: float) -> FloatArray:
    """Return the gamma distribution's density at each `x` above 0."""
    log_density = (shape - 1) * np.log(x) - x / scale - math.lgamma(shape)
    return np.exp(log_density - shape * math.log(scale))


def middles(high: float, count: int) -> FloatArray:
    """Return the midpoints of `count` equal parts of [0, high]."""
    return (np.arange(count) + 0.5) * high / count


def log_run_moments(size: int) -> tuple[float, float]:
    """Return mean and standard deviation of the log of the whole-second run time of a size."""
    x = middles(12.0, 1_000_000)
    p = max(0.78 - 0.0054 * size, 0.0)
    density = p * gamma_density(x, 4.2, 0.94) + (1 - p) * gamma_density(x, 312.0, 0.03)
    log_run = np.log(np.floor(np.exp(x)))
    mean = np.average(log_run, weights=density)
    return float(mean), math.sqrt(np.average((log_run - mean) ** 2, weights=density))


def cycle_shares() -> FloatArray:
    """Return the exact share of jobs of each half hour from midnight, float64[48]."""
    parts = 2000
    # Bucket number i, of [i - 0.5, i + 0.5], is the i-th half hour; those past 48 are next day's.
    x = 10.5 + middles(48.0, 48 * parts)
    mass = gamma_density(x, 8.1737, 3.9631).reshape(48, parts).sum(axis=1)
    shares = np.empty(48)
    for number, share in zip(range(11, 59), mass / mass.sum(), strict=True):
        shares[(number - 1) % 48] = share
    return shares


def test_requests_are_the_run_times() -> None:
    """Requested times equal run times, in a column of their own."""
    jobs = table(3, 500, 128)
    assert jobs.requested_s.tolist() == jobs.run_s.tolist()
    assert not np.shares_memory(jobs.requested_s, jobs.run_s)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32), jobs=st.integers(1, 300), processors=st.integers(2, 20_000))
def test_every_job_fits_the_machine_and_the_limits(seed: int, jobs: int, processors: int) -> None:
    """All columns are within their ranges, and submission times are sorted."""
    drawn = lublin(np.random.default_rng(seed), jobs=jobs, processors=processors)
    assert len(drawn) == jobs
    assert np.all((drawn.cores >= 1) & (drawn.cores <= processors))
    assert np.all((drawn.run_s >= 1) & (drawn.run_s <= math.exp(12)))
    assert np.all(drawn.run_s % 1 == 0)
    assert drawn.submit_s[0] > 0
    assert np.all(np.diff(drawn.submit_s) >= 0)
    assert np.all(drawn.submit_s % 1 == 0)


def test_serial_share() -> None:
    """Of all jobs 24.4 % have one processor."""
    share = float(np.mean(table().cores == 1))
    assert share == pytest.approx(SERIAL, abs=share_tolerance(SERIAL))


@pytest.mark.parametrize("size", [2, 4, 8, 16, 32, 64, 128, 256])
def test_share_of_each_power_of_two(size: int) -> None:
    """Each power of two has its exact share, including unrounded sizes."""
    share = size_share(size, 256)
    assert float(np.mean(table().cores == size)) == pytest.approx(share, abs=share_tolerance(share))


def test_mean_size() -> None:
    """The mean size is the exact mean."""
    sizes = np.arange(1, 257)
    shares = np.array([SERIAL] + [size_share(size, 256) for size in range(2, 257)])
    mean = float(sizes @ shares)
    deviation = math.sqrt(float(((sizes - mean) ** 2) @ shares))
    assert float(shares.sum()) == pytest.approx(1)
    assert table().cores.mean() == pytest.approx(mean, abs=SIGMAS * deviation / math.sqrt(MANY))


def test_powers_of_two_fit_a_machine_that_is_none() -> None:
    """On 100 processors the largest power of two is 64."""
    cores = table(jobs=100_000, processors=100).cores
    assert np.mean(cores == 100) < 0.001
    assert np.mean(cores == 64) > 0.035


@pytest.mark.parametrize("processors", [2, 3, 8, 15])
def test_a_small_machine_has_parallel_jobs_of_all_its_powers(processors: int) -> None:
    """Below 16 processors every power of two occurs."""
    cores = table(jobs=100_000, processors=processors).cores
    for power in range(1, processors.bit_length()):
        assert np.mean(cores == 2**power) > 0.02, 2**power


@pytest.mark.parametrize("size", [1, 4, 32, 128, 256])
def test_mean_log_run_time_of_a_size(size: int) -> None:
    """The mean log run time is that of the truncated hyper-gamma distribution."""
    jobs = table()
    log_run = np.log(jobs.run_s[jobs.cores == size])
    mean, deviation = log_run_moments(size)
    assert len(log_run) > 1000
    assert log_run.mean() == pytest.approx(mean, abs=SIGMAS * deviation / math.sqrt(len(log_run)))


def test_great_jobs_are_all_long() -> None:
    """From 145 processors the log run time is gamma(312, 0.03)."""
    jobs = table(jobs=100_000, processors=1024)
    log_run = np.log(jobs.run_s[jobs.cores >= 145])
    deviation = math.sqrt(312) * 0.03
    assert log_run.mean() == pytest.approx(9.36, abs=SIGMAS * deviation / math.sqrt(len(log_run)))
    assert log_run.std() == pytest.approx(deviation, rel=0.05)


def test_mean_gap() -> None:
    """The span is the exact mean of the truncated e^gamma times the number of jobs."""
    x = middles(13.0, 200_000)
    density = gamma_density(x, 10.2303 * 1.0225, 0.4871)
    mean_s = float(np.average(np.exp(x), weights=density))
    deviation_s = math.sqrt(np.average((np.exp(x) - mean_s) ** 2, weights=density))
    # The daily cycle moves the last job by part of a day.
    assert table().submit_s[-1] == pytest.approx(
        mean_s * MANY, abs=SIGMAS * deviation_s * math.sqrt(MANY) + 86_400
    )


def test_jobs_follow_the_daily_cycle() -> None:
    """Each half hour has its exact share of the jobs, within the tolerance."""
    half_hour = (table().submit_s % 86_400 // HALF_HOUR_S).astype(np.int64)
    shares = np.bincount(half_hour, minlength=48) / MANY
    # Gaps of unequal length bunch the jobs, so the chance is wider than of independent ones.
    assert shares == pytest.approx(cycle_shares(), rel=0.1)


def test_the_day_is_busiest_after_noon_and_quietest_before_dawn() -> None:
    """The hours 12 to 16 have seven to twelve times as many jobs as the hours 2 to 6."""
    hour = table().submit_s % 86_400 // 3600
    busy, quiet = np.mean((hour >= 12) & (hour < 16)), np.mean((hour >= 2) & (hour < 6))
    exact = cycle_shares()
    assert 7 < busy / quiet < 12
    assert busy / quiet == pytest.approx(exact[24:32].sum() / exact[4:12].sum(), rel=0.05)


@pytest.mark.parametrize(
    ("jobs", "processors", "right"),
    [
        (0, 256, "jobs is 0; it must be 1 or more"),
        (-1, 256, "jobs is -1; it must be 1 or more"),
        (10, 1, "processors is 1; it must be 2 or more"),
    ],
)
def test_an_argument_out_of_range_is_refused(jobs: int, processors: int, right: str) -> None:
    """The error names the argument and the valid range."""
    with pytest.raises(WorkloadError, match=right):
        lublin(np.random.default_rng(1), jobs=jobs, processors=processors)


def sample_columns() -> dict[str, FloatArray]:
    """Return gaps, run times and sizes of the authors' sample; skip the test if it is missing."""
    if not SAMPLE.exists():
        pytest.skip(f"the sample of the model's authors is missing: {SAMPLE}")
    with gzip.open(SAMPLE, "rt") as lines:
        rows = [line.split() for line in lines if not line.startswith(";")]
    swf = np.array(rows, dtype=np.float64)
    return {"gap": np.diff(swf[:, 1]), "run": swf[:, 3], "size": swf[:, 4]}


def greatest_distance(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples."""
    at = np.concatenate((one, other))
    below_one = np.searchsorted(np.sort(one), at, side="right") / len(one)
    below_other = np.searchsorted(np.sort(other), at, side="right") / len(other)
    return float(np.abs(below_one - below_other).max())


@pytest.mark.trace
@pytest.mark.parametrize("column", ["size", "run", "gap"])
def test_like_the_authors_sample(column: str) -> None:
    """Columns of three workloads pass a Kolmogorov-Smirnov test with the sample at 0.1 %."""
    theirs = sample_columns()[column]
    for seed in range(3):
        jobs = table(seed, jobs=10_000)
        ours = {"gap": np.diff(jobs.submit_s), "run": jobs.run_s, "size": jobs.cores}
        assert greatest_distance(ours[column], theirs) < 1.95 * math.sqrt(2 / 10_000), seed
