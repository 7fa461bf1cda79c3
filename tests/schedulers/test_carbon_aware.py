"""The scheduler carbon-aware: slow references, and the exact oracle of a published study."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import Policy, PolicyError, View, play
from hpcosim_client.scheduler_state import Signal as KnownSignal
from hpcosim_protocol import NodeGroup, Platform, Processor, SignalChanged
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.heuristics.carbon_aware import best_start_s
from hpcosim_schedulers.power.account import listen
from hpcosim_sim.engine.signals import Signal
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.economics import J_PER_KWH, Rates
from hpcosim_sim.record.metrics import Floats, measure
from hpcosim_workloads.series import Series, read_series
from hpcosim_workloads.table import JobTable, job_table
from support.paths import ROOT, SHARED
from support.simulating import cluster_of, jobs_of, starts

CO2 = "co2_g_per_kwh"
DAY_S = 86_400.0


def series_of(*changes: tuple[float, float]) -> Series:
    """Return a series of (time in s, value)."""
    times_s, values = np.array(changes, dtype=np.float64).T
    return Series(times_s, values)


def scheduled(
    jobs: JobTable,
    series: Series,
    *,
    nodes: int = 1,
    forecast_s: float = 1e6,
    name: str = "carbon-aware",
    signal: str = CO2,
) -> Simulation:
    """Return the simulation of jobs under a scheduler that knows a signal."""
    platform = cluster_of(nodes)
    simulation = Simulation(platform, jobs, signals=[Signal(signal, series, forecast_s)])
    play(make_policy(name), platform, lambda d, w, e: simulation.advance(d, wake_on=w, elapsed_s=e))
    return simulation


def due(jobs: JobTable, *deadlines_s: float) -> JobTable:
    """Return jobs with deadlines."""
    return replace(jobs, deadline_s=np.array(deadlines_s))


@given(
    values=st.lists(st.integers(0, 9), min_size=1, max_size=30),
    lasts_s=st.integers(1, 20),
    now_s=st.integers(0, 10),
    slack_s=st.integers(0, 30),
)
def test_the_start_is_that_of_an_enumeration(
    values: list[int], lasts_s: int, now_s: int, slack_s: int
) -> None:
    """Of all whole seconds the earliest with the least sum over the seconds of the run."""
    forecast = [(float(at_s), float(value)) for at_s, value in enumerate(values)][1:]
    of_second = [*values, *[values[-1]] * 100]
    sums = [sum(of_second[t : t + lasts_s]) for t in range(now_s, now_s + slack_s + 1)]
    start_s = best_start_s(
        KnownSignal(0.0, float(values[0]), forecast), lasts_s, now_s, now_s + slack_s
    )
    assert start_s == now_s + sums.index(min(sums))


def test_a_start_can_be_between_changes() -> None:
    """The end of the run coincides with a change there."""
    signal = KnownSignal(0.0, 5.0, [(10.0, 1.0), (17.0, 9.0)])
    assert best_start_s(signal, 5.0, 0.0, 100.0) == 10.0
    assert best_start_s(signal, 10.0, 0.0, 100.0) == 7.0


def test_rounding_does_not_delay_a_job() -> None:
    """Equal means give the earliest start although their sums differ in the last bit."""
    signal = KnownSignal(0.0, 0.1, [(float(at_s), 0.1) for at_s in range(1, 1000)])
    assert best_start_s(signal, 7.0, 3.0, 900.0) == 3.0


@given(
    values=st.lists(st.integers(0, 9), min_size=2, max_size=15),
    jobs=st.lists(
        st.tuples(st.integers(0, 20), st.integers(1, 8), st.integers(0, 20)),
        min_size=1,
        max_size=6,
    ).map(sorted),
)
def test_emissions_are_the_least_of_all_starts(
    values: list[int], jobs: list[tuple[int, int, int]]
) -> None:
    """With a node for each job, every job emits the least that its deadline permits."""
    of_second = [*values, *[values[-1]] * 100]
    table = jobs_of(*((float(submit), float(run), 1) for submit, run, _ in jobs))
    table = due(table, *(float(submit + run + slack) for submit, run, slack in jobs))
    series = series_of(*((float(at_s), float(value)) for at_s, value in enumerate(values)))
    recording = scheduled(table, series, nodes=len(jobs)).recording
    spans = zip(recording.start_s, recording.end_s, strict=True)
    emitted = [series.integral(start_s, end_s) for start_s, end_s in spans]
    assert emitted == [
        min(sum(of_second[t : t + run]) for t in range(submit, submit + slack + 1))
        for submit, run, slack in jobs
    ]
    assert (np.array(recording.end_s) <= table.deadline_s).all()


def test_jobs_without_slack_are_scheduled_by_easy() -> None:
    """Without deadlines the schedule is that of easy."""
    jobs = jobs_of((0.0, 50.0, 2), (1.0, 60.0, 3), (2.0, 10.0, 1), (3.0, 100.0, 1))
    series = series_of((0.0, 9.0), (500.0, 1.0))
    aware, easy = (scheduled(jobs, series, nodes=3, name=name) for name in ("carbon-aware", "easy"))
    assert starts(aware) == starts(easy)


def test_a_delayed_job_does_not_block_the_queue() -> None:
    """Jobs behind it start as if it was not submitted."""
    jobs = due(jobs_of((0.0, 50.0, 2), (1.0, 60.0, 2)), 1000.0, np.inf)
    simulation = scheduled(jobs, series_of((0.0, 9.0), (500.0, 1.0)), nodes=2)
    assert starts(simulation) == {1: 500.0, 2: 1.0}


def test_slack_is_a_setting_for_jobs_without_a_deadline() -> None:
    """A deadline has priority over it."""
    jobs = due(jobs_of((0.0, 50.0, 1), (0.0, 50.0, 1)), np.inf, 100.0)
    series = series_of((0.0, 9.0), (500.0, 1.0))
    simulation = scheduled(jobs, series, nodes=2, name="carbon-aware:slack_s=600")
    assert starts(simulation) == {1: 500.0, 2: 0.0}


def test_the_signal_is_a_setting() -> None:
    """The scheduler follows the price as it follows the carbon intensity."""
    jobs = due(jobs_of((0.0, 50.0, 1)), 1000.0)
    series = series_of((0.0, 9.0), (500.0, 1.0))
    name = "carbon-aware:signal=price_per_kwh:slack_s=9"
    simulation = scheduled(jobs, series, name=name, signal="price_per_kwh")
    assert starts(simulation) == {1: 500.0}


def test_a_job_is_planned_again_when_the_forecast_grows() -> None:
    """A later event of the signal shows a better start."""
    jobs = due(jobs_of((0.0, 50.0, 1)), 2000.0)
    series = series_of((0.0, 9.0), (300.0, 5.0), (900.0, 1.0))
    assert starts(scheduled(jobs, series, forecast_s=700.0)) == {1: 900.0}


def test_without_a_forecast_no_job_is_delayed() -> None:
    """The present value is taken to hold for ever."""
    jobs = due(jobs_of((0.0, 50.0, 1)), 2000.0)
    series = series_of((0.0, 9.0), (300.0, 5.0))
    assert starts(scheduled(jobs, series, forecast_s=0.0)) == {1: 0.0}


def test_a_missing_signal_is_an_error() -> None:
    """The error names the signals that there are."""
    jobs = jobs_of((0.0, 50.0, 1))
    with pytest.raises(PolicyError, match=r"needs the signal co2_g_per_kwh, .* only the signals x"):
        scheduled(jobs, series_of((0.0, 1.0)), signal="x")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (
            "carbon-aware:slack=5",
            "slack=5': slack: unknown setting; did you mean 'slack_s'. "
            "carbon-aware takes signal, slack_s",
        ),
        ("carbon-aware:slack_s=-5", "slack_s: expected a number >= 0, got '-5'"),
        ("carbon-aware:slack_s=12h", "slack_s: expected a number in seconds.*'12h'; write 43200"),
        ("carbon-aware:slack_s=soon", "slack_s: expected a number, got 'soon'"),
        ("carbon-aware:signal=", "signal: expected text of length >= 1, got ''"),
        ("carbon-aware:slack_s", "expected SETTING=VALUE, separated by colons"),
        ("power-capped:signal=x", "signal: unknown setting; power-capped takes no settings"),
    ],
)
def test_settings_that_are_invalid(name: str, error: str) -> None:
    """The error names the settings."""
    with pytest.raises(PolicyError, match=error):
        make_policy(name)


# The oracle of a published study


def moment(seconds: float) -> datetime:
    """Return the date of a simulated second of the study."""
    return datetime(2020, 1, 1) + timedelta(seconds=seconds)


def next_workday(end: datetime) -> datetime:
    """Return the deadline of a job that would end at a date; see the README of the oracle."""
    nine = end.replace(hour=9, minute=0)
    if end.weekday() >= 5:
        return nine + timedelta(days=7 - end.weekday())
    if end > end.replace(hour=17, minute=0):
        return nine + timedelta(days=1)
    return max(end, nine) if end < nine else end


def semi_weekly(end: datetime) -> datetime:
    """Return the next Monday or Thursday 9:00 at or after a date."""
    days = (end.replace(hour=9, minute=0) + timedelta(days=day) for day in range(8))
    return next(day for day in days if day.weekday() in (0, 3) and day >= end)


def table_in(folder: Path, name: str) -> str:
    """Return the text of a gzipped table of the oracle; skip the test if it is missing."""
    path = SHARED / "golden" / "carbon" / f"{name}.csv.gz"
    if not path.is_file():
        pytest.skip(f"the oracle is not on this machine: no {path.name}")
    return gzip.decompress(path.read_bytes()).decode()


def emissions(jobs: JobTable, series: Series, policy: Policy) -> tuple[float, Floats]:
    """Return the emissions of a run, as sum of the intensity over job half hours, and all ends."""
    platform = Platform((NodeGroup(1, (Processor(len(jobs), dynamic_w=1.0),)),))
    signals, rates = [Signal(CO2, series, 12 * DAY_S)], Rates(co2_g_per_kwh=series)
    simulation = Simulation(platform, jobs, rates=rates, signals=signals)
    play(policy, platform, lambda d, w, e: simulation.advance(d, wake_on=w, elapsed_s=e))
    gram_seconds = measure(simulation.record())["co2_kg"] * 1000.0 * J_PER_KWH
    return gram_seconds / 1800.0, np.array(simulation.recording.end_s)


@pytest.mark.trace
@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "suspends", "avoided_percent"),
    [
        (next_workday, False, 5.9212),
        (semi_weekly, False, 14.1484),
        (next_workday, True, 8.0402),
        (semi_weekly, True, 18.4808),
    ],
)
def test_avoided_emissions_of_a_published_study(
    rule: Callable[[datetime], datetime], suspends: bool, avoided_percent: float, tmp_path: Path
) -> None:
    """3,387 jobs of Wiesner et al. 2021 avoid the emissions that an exact oracle computes."""
    (tmp_path / "de.csv").write_text(table_in(tmp_path, "de_2020_30min"))
    series = read_series(tmp_path / "de.csv")
    rows = list(csv.DictReader(io.StringIO(table_in(tmp_path, "jobs"))))
    submit_s = np.array([float(row["submit_min"]) for row in rows]) * 60.0
    run_s = np.array([float(row["run_min"]) for row in rows]) * 60.0
    deadline_s = [(rule(moment(end_s)) - moment(0.0)).total_seconds() for end_s in submit_s + run_s]
    jobs = job_table(
        job_id=range(len(rows)),
        submit_s=submit_s,
        run_s=run_s,
        requested_s=run_s,
        deadline_s=deadline_s,
    )
    example = run_path(str(ROOT / "scheduler_client" / "examples" / "interruptible.py"))
    policy = example["interruptible"]() if suspends else make_policy("carbon-aware")
    aware, end_s = emissions(jobs, series, policy)
    at_once, _ = emissions(jobs, series, make_policy("easy"))
    assert at_once == pytest.approx(99_157_812.05, abs=0.01)
    assert 100.0 * (1.0 - aware / at_once) == pytest.approx(avoided_percent, abs=5e-5)
    assert (end_s <= np.array(deadline_s)).all()


@pytest.mark.parametrize("has_signals", [True, False])
def test_an_account_names_signals_only_where_the_server_knows_them(has_signals: bool) -> None:
    """A server without signals rejects `wake_on` with `signal_changed`."""
    view = View(cluster_of(1))
    if has_signals:
        view.apply(0.0, [SignalChanged(0.0, CO2, 5.0)])
    listen(view)
    assert view.wake_on is not None
    assert ("signal_changed" in view.wake_on) == has_signals
