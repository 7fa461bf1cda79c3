"""The Poisson workload: distributions and columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.synthetic.lublin import poisson
from hpcosim_workloads.table import JobTable

MANY = 100_000
SIGMAS = 5.0


def table(seed: int = 1, **changed: Any) -> JobTable:
    """Return a workload with default arguments, and changed ones."""
    arguments: dict[str, Any] = {
        "jobs": MANY,
        "mean_interarrival_s": 300.0,
        "cores": (1, 64),
        "run_s": (60.0, 36_000.0),
        "overestimate": 4.0,
    }
    return poisson(np.random.default_rng(seed), **(arguments | changed))


def test_every_job_is_laid_over_any_cores() -> None:
    """The placement of every job is "cores"."""
    assert {job.placement for job in table(jobs=50).rows()} == {"cores"}


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    jobs=st.integers(1, 300),
    mean_interarrival_s=st.floats(0.01, 1e5),
    least=st.integers(1, 3000),
    more=st.integers(0, 3000),
    shortest_s=st.floats(0.1, 1e4),
    longer=st.floats(1.0, 100.0),
    overestimate=st.floats(1.0, 20.0),
)
def test_every_job_is_within_the_ranges(
    seed: int,
    jobs: int,
    mean_interarrival_s: float,
    least: int,
    more: int,
    shortest_s: float,
    longer: float,
    overestimate: float,
) -> None:
    """All columns are within their ranges, and submission times are sorted."""
    longest_s = shortest_s * longer
    drawn = table(
        seed,
        jobs=jobs,
        mean_interarrival_s=mean_interarrival_s,
        cores=(least, least + more),
        run_s=(shortest_s, longest_s),
        overestimate=overestimate,
    )
    assert len(drawn) == jobs
    assert drawn.submit_s[0] == 0
    assert np.all(np.diff(drawn.submit_s) >= 0)
    assert np.all(drawn.submit_s % 1 == 0)
    assert np.all((drawn.cores >= least) & (drawn.cores <= least + more))
    assert np.all((drawn.run_s >= 1) & (drawn.run_s % 1 == 0))
    assert np.all(drawn.run_s >= shortest_s - 0.5)
    assert np.all(drawn.run_s <= max(1.0, longest_s + 0.5 + 1e-9))
    assert np.all(drawn.requested_s % 60 == 0)
    assert np.all(drawn.requested_s >= drawn.run_s)
    assert np.all(drawn.requested_s < drawn.run_s * overestimate + 60 + 1e-6)


def test_gaps_have_the_mean_asked_for() -> None:
    """The mean gap is within five standard deviations of the argument."""
    gaps = MANY - 1
    assert table().submit_s[-1] == pytest.approx(300 * gaps, abs=SIGMAS * 300 * math.sqrt(gaps) + 1)


def test_gaps_are_exponential() -> None:
    """The share of gaps longer than twice the mean is e^-2."""
    gap_s = np.diff(table(mean_interarrival_s=30_000.0).submit_s)
    share = math.exp(-2)
    sigma = math.sqrt(share * (1 - share) / len(gap_s))
    assert np.mean(gap_s > 60_000) == pytest.approx(share, abs=SIGMAS * sigma)


def test_each_size_is_as_likely_as_log2_uniform_makes_it() -> None:
    """For 1 to 7 cores a size n has the share log((n + 1) / n) / log(8)."""
    cores = table(cores=(1, 7)).cores
    for size in range(1, 8):
        share = math.log2((size + 1) / size) / 3
        sigma = math.sqrt(share * (1 - share) / MANY)
        assert np.mean(cores == size) == pytest.approx(share, abs=SIGMAS * sigma), size


def test_run_times_are_log_uniform() -> None:
    """Each decade of the run times' range has an equal share of the jobs."""
    log10_run = np.log10(table(run_s=(100.0, 100_000.0)).run_s)
    shares = np.histogram(log10_run, bins=[2, 3, 4, 5])[0] / MANY
    sigma = math.sqrt(2 / 9 / MANY)
    # Rounding to a second moves at most 0.5/1000 of a log across an edge.
    assert shares == pytest.approx([1 / 3] * 3, abs=SIGMAS * sigma + 1e-3)


def test_the_overestimate_is_uniform() -> None:
    """Requests for long runs exceed them by (1 + overestimate) / 2 on average."""
    jobs = table(run_s=(1e7, 1e8))
    sigma = 3 / math.sqrt(12 * MANY)
    mean = float(np.mean(jobs.requested_s / jobs.run_s))
    assert mean == pytest.approx(2.5, abs=SIGMAS * sigma + 1e-5)


def test_without_overestimate_requests_are_the_next_whole_minute() -> None:
    """With a factor of 1 a run time of 60 s requests 60 s, and 61 s requests 120 s."""
    exact = table(run_s=(60.0, 60.0), overestimate=1.0, jobs=10)
    above = table(run_s=(61.0, 61.0), overestimate=1.0, jobs=10)
    assert set(exact.requested_s.tolist()) == {60.0}
    assert set(above.requested_s.tolist()) == {120.0}


@pytest.mark.parametrize(
    ("changed", "right"),
    [
        ({"jobs": 0}, "jobs is 0; it must be 1 or more"),
        ({"mean_interarrival_s": 0.0}, "it must be above 0"),
        ({"mean_interarrival_s": math.nan}, "it must be above 0"),
        ({"mean_interarrival_s": math.inf}, "finite"),
        ({"cores": (0, 4)}, "1 <= min <= max"),
        ({"cores": (5, 4)}, "1 <= min <= max"),
        ({"run_s": (0.0, 4.0)}, "0 < min <= max"),
        ({"run_s": (5.0, 4.0)}, "0 < min <= max"),
        ({"run_s": (5.0, math.inf)}, "finite"),
        ({"overestimate": 0.9}, "it must be 1 or more"),
        ({"overestimate": math.nan}, "it must be 1 or more"),
    ],
)
def test_an_argument_out_of_range_is_refused(changed: dict[str, Any], right: str) -> None:
    """The error names the argument and the valid range."""
    with pytest.raises(WorkloadError, match=right) as caught:
        table(**({"jobs": 10} | changed))
    assert str(caught.value).startswith(next(iter(changed)))
