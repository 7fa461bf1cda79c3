"""Workloads that imitate a log: properties of the log, start times and errors."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hpcosim_protocol import Hello
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_scenarios.running.library import Library
from hpcosim_server.errors import SessionRefused
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs.log_file import log_start_s
from hpcosim_workloads.logs.swf import read_swf
from hpcosim_workloads.synthetic.imitation import (
    hourly_pattern,
    mean_interarrival_s,
    sampled,
    seasonal,
    weekly_pattern,
)
from hpcosim_workloads.table import COLUMNS, AppliedRules, JobTable, job_table

HOUR_S = 3_600
DAY_S = 86_400
WEEKS = 6
DAYS = 400
# Jobs of each weekday and at each hour of the log below; the first day is a Monday.
A_DAY = (20, 40, 60, 40, 20, 10, 10)
HOURS = {8: 0.2, 9: 0.3, 14: 0.4, 23: 0.1}
SIGMAS = 5.0
NOT_AS_IN_THE_LOG = {"job_id", "submit_s"}

Draw = Callable[..., JobTable]


def log(*, weeks: int = WEEKS) -> JobTable:
    """Return weeks of jobs whose larger ones run longer and request twice their run time."""
    submit_s = [
        day * DAY_S + hour * HOUR_S + 60.0 * number
        for day in range(weeks * 7)
        for hour, share in HOURS.items()
        for number in range(round(A_DAY[day % 7] * share))
    ]
    numbers = np.arange(len(submit_s))
    run_s = 100.0 + numbers
    return job_table(
        job_id=numbers + 1000,
        submit_s=submit_s,
        run_s=run_s,
        requested_s=2 * run_s,
        cores=2 ** (numbers * 8 // len(numbers)),
        placement=numbers % 3,
        memory_mb=numbers,
        memory_volume_mb=3.0 * numbers,
        max_energy_j=1e6 + numbers,
    )


def draw_sampled(seed: int = 1, source: JobTable | None = None, **changed: Any) -> JobTable:
    """Draw `sampled` with default arguments, and changed ones."""
    source = log() if source is None else source
    return sampled(np.random.default_rng(seed), source, **({"jobs": 500} | changed))


def draw_seasonal(seed: int = 1, source: JobTable | None = None, **changed: Any) -> JobTable:
    """Draw `seasonal` with default arguments, and changed ones."""
    source = log() if source is None else source
    return seasonal(np.random.default_rng(seed), source, **({"days": DAYS} | changed))


BOTH = pytest.mark.parametrize("draw", [draw_sampled, draw_seasonal])


def columns(table: JobTable) -> dict[str, bytes]:
    """Return the columns as bytes."""
    return {name: getattr(table, name).tobytes() for name in COLUMNS}


def rows(table: JobTable, *names: str) -> list[tuple[Any, ...]]:
    """Return columns, job by job."""
    return list(zip(*(getattr(table, name).tolist() for name in names), strict=True))


def farthest(values: NDArray[np.float64], law: Callable[[Any], Any]) -> float:
    """Return the Kolmogorov distance of values from a distribution function."""
    below = law(np.sort(values))
    steps = np.arange(len(values) + 1) / len(values)
    return float(max((steps[1:] - below).max(), (below - steps[:-1]).max()))


def demanded_s(table: JobTable) -> float:
    """Return the core-seconds of the jobs."""
    return float((table.cores * table.run_s).sum())


# --- both models ----------------------------------------------------------------------------


@BOTH
def test_the_log_stays_as_it_was(draw: Draw) -> None:
    """Drawing does not change the log."""
    source = log()
    before = columns(source)
    draw(source=source)
    assert columns(source) == before


@BOTH
def test_sizes_stay_powers_of_two(draw: Draw) -> None:
    """The sizes of the drawn jobs are those of the log."""
    assert set(draw().cores.tolist()) == {1, 2, 4, 8, 16, 32, 64, 128}


@BOTH
def test_counts_of_the_log_are_kept(draw: Draw) -> None:
    """The drawn jobs have the counts of the reader's rules."""
    rules = AppliedRules().plus("cores_unknown", [0, 1, 1], [0.0, 5.0, 5.0])
    assert draw(source=replace(log(), rules=rules)).skipped == {"cores_unknown": 3}


# --- sampled --------------------------------------------------------------------------------


def test_sampled_jobs_are_jobs_of_the_log() -> None:
    """A drawn job equals a job of the log except for number and submission time."""
    names = [name for name in COLUMNS if name not in NOT_AS_IN_THE_LOG]
    assert set(rows(draw_sampled(), *names)) <= set(rows(log(), *names))


def test_sampled_draws_without_replacement() -> None:
    """As many jobs as the log has are the jobs of the log in another order."""
    source = log()
    run_s = draw_sampled(source=source, jobs=len(source)).run_s.tolist()
    assert sorted(run_s) == source.run_s.tolist() != run_s


def test_sampled_repeats_the_log_when_all_are_drawn() -> None:
    """Of twice the log and five jobs more, five occur three times and the others twice."""
    source = log()
    run_s = draw_sampled(source=source, jobs=2 * len(source) + 5).run_s
    assert sorted(np.unique(run_s, return_counts=True)[1])[-6:] == [2, 3, 3, 3, 3, 3]


def test_mean_interarrival_is_that_of_equation_14() -> None:
    """The mean is the time from first to last job divided by the number of gaps."""
    source = job_table(job_id=[1, 2, 3], submit_s=[50.0, 60.0, 150.0])
    assert mean_interarrival_s(source) == 50.0


def test_sampled_begins_at_zero() -> None:
    """The first job is submitted at 0."""
    assert draw_sampled().submit_s[0] == 0.0


def test_sampled_gaps_have_the_mean_of_the_log() -> None:
    """The mean gap is within five standard deviations of the log's."""
    gaps = 50_000
    last_s = draw_sampled(jobs=gaps + 1).submit_s[-1]
    mean_s = mean_interarrival_s(log())
    assert last_s == pytest.approx(mean_s * gaps, abs=SIGMAS * mean_s * math.sqrt(gaps) + 1)


def test_sampled_gaps_are_exponential() -> None:
    """The gaps pass a Kolmogorov test for the exponential distribution at 0.1 %."""
    gap_s = np.diff(draw_sampled(jobs=20_001).submit_s)
    mean_s = mean_interarrival_s(log())
    # 1.95 is where Kolmogorov's distribution is 0.999; a cut second is at most 1/mean of the law.
    bound = 1.95 / math.sqrt(len(gap_s)) + 1 / mean_s
    assert farthest(gap_s, lambda x: 1 - np.exp(-x / mean_s)) < bound


# --- seasonal -------------------------------------------------------------------------------


def test_weekly_pattern_is_the_mean_of_each_weekday() -> None:
    """The pattern has the mean of each weekday, Monday first."""
    assert weekly_pattern(log()).tolist() == list(A_DAY)


def test_weekly_pattern_counts_the_weekdays_that_occurred() -> None:
    """In ten days from a Friday, Friday to Sunday occur twice."""
    days = [0, 0, 3, 4, 5, 6, 9, 9, 9, 9]
    source = job_table(job_id=days, submit_s=np.array(days) * DAY_S)
    assert weekly_pattern(source, start_s=4 * DAY_S).tolist() == [1, 1, 1, 1, 1, 0, 2]


def test_days_without_a_job_count() -> None:
    """Days without jobs count in the mean of their weekday."""
    source = job_table(job_id=range(4), submit_s=[0.0, 1.0, 2.0, 7.5 * DAY_S])
    assert weekly_pattern(source).tolist() == [2.0, 0, 0, 0, 0, 0, 0]


def test_hourly_pattern_is_the_share_of_each_hour() -> None:
    """Shares are of all jobs; the first is that of 0:00 to 1:00."""
    expected = [HOURS.get(hour, 0.0) for hour in range(24)]
    assert hourly_pattern(log()).tolist() == pytest.approx(expected)


def test_patterns_are_those_of_the_logs_own_clock() -> None:
    """The start time of a log shifts both patterns."""
    start_s = DAY_S + 2 * HOUR_S
    source = replace(log(), submit_s=log().submit_s - 2 * HOUR_S)
    assert weekly_pattern(source, start_s).tolist() == list(np.roll(A_DAY, 1))
    assert hourly_pattern(source, start_s).tolist() == hourly_pattern(log()).tolist()


def test_seasonal_days_have_the_counts_of_their_weekday() -> None:
    """If the log's mean is a whole number, every such day has this number of jobs."""
    day = (draw_seasonal().submit_s // DAY_S).astype(int)
    assert np.bincount(day, minlength=DAYS).tolist() == [A_DAY[i % 7] for i in range(DAYS)]


def test_seasonal_counts_that_are_not_whole_are_right_in_the_mean() -> None:
    """A count is at most one job off, and exact in the mean."""
    source = log().take(np.arange(len(log())) % 3 > 0)
    day = (draw_seasonal(source=source, days=700).submit_s // DAY_S).astype(int)
    counts = np.bincount(day, minlength=700).reshape(100, 7)
    expected = weekly_pattern(source)
    assert (abs(counts - expected) < 1).all()
    assert counts.mean(axis=0) == pytest.approx(expected, abs=SIGMAS * 0.5 / math.sqrt(100))


def test_seasonal_hours_have_the_shares_of_the_log() -> None:
    """The count of an hour is at most one job off, and exact in the mean."""
    table = draw_seasonal()
    hour = (table.submit_s // HOUR_S % 24).astype(int)
    shares = np.bincount(hour, minlength=24) / len(table)
    bound = SIGMAS * 0.5 * math.sqrt(DAYS) / len(table)
    assert shares == pytest.approx(hourly_pattern(log()), abs=bound)
    assert set(hour.tolist()) == set(HOURS)


def test_seasonal_seconds_within_the_hour_are_uniform() -> None:
    """Seconds pass a Kolmogorov test for the uniform distribution at 0.1 %."""
    within_s = draw_seasonal().submit_s % HOUR_S
    bound = 1.95 / math.sqrt(len(within_s)) + 1 / HOUR_S
    assert farthest(within_s, lambda x: x / HOUR_S) < bound


def test_seasonal_run_times_are_distributed_as_in_the_log() -> None:
    """Run times are those of the log, with its distribution."""
    run_s, source = draw_seasonal().run_s, np.sort(log().run_s)
    assert set(run_s.tolist()) <= set(source.tolist())
    values, counts = np.unique(run_s, return_counts=True)
    law = np.searchsorted(source, values, side="right") / len(source)
    drawn = np.cumsum(counts) / len(run_s)
    assert abs(drawn - law).max() < 1.95 / math.sqrt(len(run_s))


def test_seasonal_sizes_are_distributed_as_in_the_log() -> None:
    """The share of each size is the log's, within five standard deviations."""
    cores, source = draw_seasonal().cores, log().cores
    for size in np.unique(source):
        share = np.mean(source == size)
        sigma = math.sqrt(share * (1 - share) / len(cores))
        assert np.mean(cores == size) == pytest.approx(share, abs=SIGMAS * sigma)


def test_what_goes_with_a_size_and_what_with_a_run_time() -> None:
    """Placement and memory come with the size; all other properties with the run time."""
    table, source = draw_seasonal(), log()
    sizes = ("cores", "placement", "memory_mb")
    runs = ("run_s", "requested_s", "ops", "memory_volume_mb", "max_energy_j", "profile")
    assert set(rows(table, *sizes)) <= set(rows(source, *sizes))
    assert set(rows(table, *runs)) <= set(rows(source, *runs))
    assert not set(rows(table, "cores", "run_s")) <= set(rows(source, "cores", "run_s"))


def test_pairs_are_jobs_of_the_log() -> None:
    """A drawn pair equals a job of the log except for number and submission time."""
    names = [name for name in COLUMNS if name not in NOT_AS_IN_THE_LOG]
    assert set(rows(draw_seasonal(pairs=True), *names)) <= set(rows(log(), *names))


def test_pairs_keep_the_load() -> None:
    """With pairs the core-seconds per day are the log's; without pairs they are fewer here."""
    a_day_s = demanded_s(log()) / (WEEKS * 7)
    assert demanded_s(draw_seasonal(pairs=True)) / DAYS == pytest.approx(a_day_s, rel=0.05)
    assert demanded_s(draw_seasonal()) / DAYS < 0.7 * a_day_s


@given(
    seed=st.integers(0, 2**32),
    days=st.integers(1, 60),
    start_s=st.integers(0, 7 * DAY_S - 1),
    submit_s=st.lists(st.integers(0, 30 * DAY_S), max_size=50),
    pairs=st.booleans(),
)
def test_seasonal_jobs_come_within_its_days(
    seed: int, days: int, start_s: int, submit_s: list[int], pairs: bool
) -> None:
    """All jobs are submitted within the days, as many as the days have."""
    times_s = sorted([0, *submit_s, 7 * DAY_S])
    source = job_table(job_id=range(len(times_s)), submit_s=times_s, run_s=1.0)
    table = draw_seasonal(seed, source, days=days, start_s=start_s, pairs=pairs)
    assert ((table.submit_s >= 0) & (table.submit_s < days * DAY_S)).all()
    day = (table.submit_s // DAY_S).astype(int)
    expected = np.resize(weekly_pattern(source, start_s), days)
    assert (abs(np.bincount(day, minlength=days) - expected) < 1).all()


# --- errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "jobs", "changed", "what"),
    [
        (draw_sampled, 9, {"jobs": 0}, "jobs is 0; it must be 1 or more"),
        (draw_sampled, 0, {}, "the log has no jobs to draw from; the mean time between jobs needs"),
        (draw_sampled, 1, {}, "the log has 1 job to draw from; the mean time between jobs needs"),
        (draw_seasonal, 999, {"days": 0}, "days is 0; it must be 1 or more"),
        (draw_seasonal, 999, {"days": -3}, "days is -3; it must be 1 or more"),
        (draw_seasonal, 0, {}, "the log has no jobs to draw from; a weekly pattern needs"),
        (draw_seasonal, 9, {}, "the log covers 1 days"),
        (draw_seasonal, 999, {"max_jobs": 99}, "400 days .* the maximum is 99"),
    ],
)
def test_bad_input_is_named(draw: Draw, jobs: int, changed: dict[str, Any], what: str) -> None:
    """The error of a small log or an invalid number says what was expected."""
    with pytest.raises(WorkloadError, match=what):
        draw(source=log().take(slice(0, jobs)), **changed)


def test_hours_of_no_jobs_are_refused() -> None:
    """A log without jobs has no hourly pattern."""
    with pytest.raises(WorkloadError, match="the log has no jobs to draw from"):
        hourly_pattern(log().take(slice(0, 0)))


# --- when a log begins ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "start_s"),
    [
        # What Python's calendar says of these days, read off by hand: a Friday, a Wednesday.
        ("; StartTime: Fri Oct 01 00:00:03 PDT 1993", 4 * DAY_S + 3),
        (";  StartTime:Wed Jun 26 17:06:00 EDT 1996", 2 * DAY_S + 17 * HOUR_S + 360),
        ("; UnixStartTime: 749458803\n; StartTime: Mon Oct 04 01:00:00 PDT 1993", HOUR_S),
        ("; UnixStartTime: 749458803\n; TimeZone: -25200", 4 * DAY_S + 3),
        ("; UnixStartTime: 749458803\n; StartTime: who knows", 4 * DAY_S + 7 * HOUR_S + 3),
        ("; Computer: x\n\n; UnixStartTime: 0", 3 * DAY_S),
        ("; UnixStartTime: soon", None),
        ("; UnixStartTime: 99999999999999999999", None),
        ("; StartTime: Fri Oct 99 00:00:03 PDT 1993", None),
        ("; Computer: x", None),
        ("", None),
        ("1 0 -1 5 1\n; UnixStartTime: 0", None),
    ],
)
def test_a_log_begins_when_its_header_says(
    tmp_path: Path, header: str, start_s: float | None
) -> None:
    """`StartTime` has priority over `UnixStartTime`; without both the start is None."""
    (tmp_path / "log.swf").write_text(f"{header}\n1 0 -1 5 1\n")
    assert log_start_s(tmp_path / "log.swf") == start_s


def test_a_zipped_log_begins_when_its_header_says(tmp_path: Path) -> None:
    """The start of a gzipped log is read."""
    (tmp_path / "log.swf.gz").write_bytes(gzip.compress(b"; UnixStartTime: 0\n"))
    assert log_start_s(tmp_path / "log.swf.gz") == 3 * DAY_S


def test_damaged_header_names_the_file(tmp_path: Path) -> None:
    """A damaged file is named in the error."""
    (tmp_path / "log.swf.gz").write_bytes(gzip.compress(b"; UnixStartTime: 0\n" * 99)[:-20])
    with pytest.raises(WorkloadError, match=r"log.swf.gz: cannot be read further"):
        log_start_s(tmp_path / "log.swf.gz")


# --- in a scenario --------------------------------------------------------------------------


def swf(header: str = "") -> str:
    """Return the log as a file."""
    lines = [
        f"{job.job_id} {job.submit_s:.0f} -1 {job.run_s:.0f} {job.cores} -1 -1 {job.cores} "
        f"{job.requested_s:.0f} -1 1 1 1 -1 1 1 -1 -1"
        for job in log().rows()
    ]
    return "\n".join([header, *lines, ""])


def scenario(folder: Path, model: str, more: str = "") -> Path:
    """Write a scenario of a synthetic workload and its log `log.swf`."""
    (folder / "log.swf").write_text(swf("; StartTime: Tue Oct 05 00:00:00 PDT 1993"))
    path = folder / "x.yaml"
    path.write_text(
        "name: x\nseed: 3\nplatform:\n"
        "  nodes: [{count: 128, processors: [{cores: 1, static_w: 1, dynamic_w: 1}]}]\n"
        f"workload:\n  synthetic: {model}\n{more}"
    )
    return path


def jobs_in(path: Path) -> JobTable:
    """Return the jobs of a scenario's file."""
    return jobs_of(load_scenario(path), path.parent)


def test_a_scenario_draws_a_sample(tmp_path: Path) -> None:
    """Model, log, part of the log and seed are those of the scenario."""
    path = scenario(tmp_path, "{model: sampled, swf: log.swf, of_jobs: [100, 200], jobs: 40}")
    expected = draw_sampled(3, read_swf(tmp_path / "log.swf").take(slice(100, 200)), jobs=40)
    assert columns(jobs_in(path)) == columns(expected)


def test_a_scenario_draws_seasons(tmp_path: Path) -> None:
    """Weekday and hour are those of the log, also if only a part of it is used."""
    path = scenario(
        tmp_path, "{model: seasonal, swf: log.swf, of_jobs: [50, 900], days: 9, pairs: true}"
    )
    source = read_swf(tmp_path / "log.swf").take(slice(50, 900))
    expected = draw_seasonal(3, source, days=9, start_s=DAY_S, pairs=True)
    assert columns(jobs_in(path)) == columns(expected)


def test_a_log_without_a_start_begins_on_a_monday(tmp_path: Path) -> None:
    """Without a start in the header, time 0 is Monday 00:00."""
    path = scenario(tmp_path, "{model: seasonal, swf: bare.swf, days: 9}")
    (tmp_path / "bare.swf").write_text(swf())
    expected = draw_seasonal(3, read_swf(tmp_path / "bare.swf"), days=9)
    assert columns(jobs_in(path)) == columns(expected)


def test_placement_is_that_of_the_scenario(tmp_path: Path) -> None:
    """Drawn jobs have the placement of the workload section."""
    model = "{model: sampled, swf: log.swf, jobs: 4}"
    table = jobs_in(scenario(tmp_path, model, "  placement: one_node\n"))
    assert {job.placement for job in table.rows()} == {"one_node"}


def test_corrupt_lines_of_an_imitated_log_can_be_left_out(tmp_path: Path) -> None:
    """`lenient` applies to the log of a model, and the count is kept."""
    path = scenario(tmp_path, "{model: sampled, swf: bad.swf, jobs: 4}", "  lenient: true\n")
    (tmp_path / "bad.swf").write_text(swf() + "good morning\n")
    assert jobs_in(path).skipped == {"corrupt_lines": 1}


@pytest.mark.parametrize(
    ("model", "what"),
    [
        ("{model: sampled, jobs: 5}", r"workload.synthetic: .* one of swf, trace, got neither"),
        (
            "{model: seasonal, swf: log.swf, trace: nasa-ipsc, days: 5}",
            r"x.yaml:6: workload.synthetic: .* one of swf, trace, got both",
        ),
        (
            "{model: sampled, swf: log.swf, of_jobs: [9, 3], jobs: 5}",
            r"workload.synthetic: of_jobs: expected .first, last. with first < last",
        ),
        ("{model: sampled, swf: log.swf, jobs: 0}", r"workload.synthetic.jobs: expected"),
        ("{model: seasonal, swf: log.swf, days: 0}", r"workload.synthetic.days: expected"),
        ("{model: seasonal, swf: log.swf}", "`days` is missing"),
        ("{model: seasonal, swf: log.swf, day: 1}", "unknown key 'day'; did you mean 'days'?"),
        (
            "{model: sampled, trace: nasa-ipcs, jobs: 5}",
            r"x.yaml:6: workload.synthetic.trace: .* did you mean nasa-ipsc",
        ),
        ("{model: sampled, swf: gone.swf, jobs: 5}", "gone.swf: there is no such file"),
        (
            "{model: sampled, swf: log.swf, of_jobs: [5000, 5001], jobs: 5}",
            r"x.yaml:6: workload.synthetic: the log has no jobs to draw from",
        ),
        (
            "{model: seasonal, swf: log.swf, of_jobs: [0, 5], days: 5}",
            r"x.yaml:6: workload.synthetic: the log covers 1 days",
        ),
        (
            "{model: seasonal, swf: log.swf, days: 36525}",
            r"x.yaml:6: workload.synthetic: .* the maximum is 1000; reduce days",
        ),
        (
            "{model: sampled, swf: log.swf, jobs: 1001}",
            "x.yaml: workload: .* at most 1000 jobs",
        ),
    ],
)
def test_a_bad_model_is_told_by_field(tmp_path: Path, model: str, what: str) -> None:
    """The error names the field or the file, and what was expected."""
    path = scenario(tmp_path, model)
    with pytest.raises((ScenarioError, WorkloadError), match=what):
        Library([path], max_jobs=1000)


@pytest.mark.parametrize("field", ["swf", "trace"])
def test_a_client_cannot_set_the_log(tmp_path: Path, field: str) -> None:
    """A client cannot set which file the server reads."""
    library = Library([scenario(tmp_path, "{model: sampled, swf: log.swf, jobs: 5}")])
    hello = Hello(
        versions=[1], client="a client", overrides={f"workload.synthetic.{field}": "log.swf"}
    )
    with pytest.raises(SessionRefused, match="only the server can set it"):
        library.open(hello)


def test_a_client_cannot_request_too_many_days(tmp_path: Path) -> None:
    """Too many days are an error before jobs are drawn."""
    path = scenario(tmp_path, "{model: seasonal, swf: log.swf, days: 2}")
    library = Library([path], max_jobs=1000)
    hello = Hello(versions=[1], client="a client", overrides={"workload.synthetic.days": 36525})
    with pytest.raises(SessionRefused, match="the maximum is 1000; reduce days"):
        library.open(hello)


# --- a real log -----------------------------------------------------------------------------


@pytest.mark.trace
def test_nasa_imitated(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 80 % of NASA's jobs, models keep rate, sizes and, drawn as pairs, load."""
    monkeypatch.setenv("HPCOSIM_TRACES", str(traces))
    of = "trace: nasa-ipsc, of_jobs: [0, 14453]"
    one = jobs_in(scenario(tmp_path, f"{{model: sampled, {of}, jobs: 14453}}"))
    year = jobs_in(scenario(tmp_path, f"{{model: seasonal, {of}, days: 365}}"))
    pairs = jobs_in(scenario(tmp_path, f"{{model: seasonal, {of}, days: 365, pairs: true}}"))
    source = read_swf(traces / "NASA-iPSC-1993-3.1-cln.swf.gz").take(slice(0, 14453))

    def load(table: JobTable, span_s: float) -> float:
        return demanded_s(table) / 128 / span_s

    assert mean_interarrival_s(source) == pytest.approx(421.52, abs=0.01)
    assert load(source, source.submit_s[-1]) == pytest.approx(0.5034, abs=1e-4)
    assert load(one, one.submit_s[-1]) == pytest.approx(0.5034, rel=0.04)
    assert load(pairs, 365 * DAY_S) == pytest.approx(0.4989, rel=0.08)
    assert load(year, 365 * DAY_S) == pytest.approx(0.2377, rel=0.1)
    assert set(year.cores.tolist()) == set(one.cores.tolist()) == {2**i for i in range(8)}
    assert len(year) == pytest.approx(365 * 1423.5 / 7, rel=0.005)
    noon = hourly_pattern(year)[12]
    assert noon == pytest.approx(hourly_pattern(source, 4 * DAY_S + 3)[12], abs=0.001)
