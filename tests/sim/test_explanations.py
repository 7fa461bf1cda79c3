"""Explanations: what the server accepts and records, and that they have no effect."""

from __future__ import annotations

import math
import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import Policy
from hpcosim_client.view import View
from hpcosim_protocol import AllocateJob, Decision, DecisionRejected, Event, Explain, SetAlarm
from hpcosim_schedulers import make_policy
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record import recording as explanations
from hpcosim_sim.record.metrics import measure, start_forecasts
from hpcosim_sim.record.results import Run, warnings_of, write_results
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_sim.record.tables import JOBS as JOBS_TABLE
from hpcosim_sim.record.tables import NODE_STATES_OVER_TIME, SCHEDULE
from hpcosim_workloads.table import JobTable
from support.examples import examples
from support.simulating import cluster_of, jobs_of, simulate

RUN = Run(hpcosim="1.2", scenario="small", scheduler="by hand", seed=7)
HOUR_S = 3600.0


def one_waits() -> Simulation:
    """Return a run at 5 s in which job 1 runs, job 2 waits and job 3 is not submitted yet."""
    simulation = Simulation(cluster_of(1), jobs_of((0, 10, 1), (5, 10, 1), (90, 1, 1)))
    simulation.advance()
    simulation.advance([AllocateJob(1, [0])])
    assert simulation.now_s == 5.0
    return simulation


def said(simulation: Simulation) -> list[tuple[int, float, str, float]]:
    """Return the recorded explanations: row, time, reason, expected start."""
    column = simulation.recording.explanations
    reasons = [column.reasons[code] for code in column.reason]
    return list(zip(column.row, column.time_s, reasons, column.expected_start_s, strict=True))


def codes_of(events: list[Event]) -> list[str]:
    """Return the rejection codes."""
    return [event.code for event in events if isinstance(event, DecisionRejected)]


def test_an_explanation_is_recorded_without_an_event() -> None:
    """The reply to an explanation has the events of a reply to nothing."""
    simulation, other = one_waits(), one_waits()
    batch = simulation.advance([Explain(2, "Resources", 10.0), Explain(2, "Site_1")])
    assert batch == other.advance()
    assert said(simulation)[0] == (1, 5.0, "Resources", 10.0)
    assert said(simulation)[1][:3] == (1, 5.0, "Site_1")


@pytest.mark.parametrize(
    ("decision", "code", "words"),
    [
        (Explain(9, "Priority"), "unknown_job", "job 9"),
        (Explain(3, "Priority"), "unknown_job", "job 3 .* not submitted"),
        (Explain(1, "Priority"), "job_not_waiting", "job 1 is running"),
        (Explain(2, ""), "bad_reason", "explain.reason is ''; expected a letter"),
        (Explain(2, "no node"), "bad_reason", "'no node'"),
        (Explain(2, "a" * 65), "bad_reason", "a{65}"),
        (Explain(2, "a" * 9999), "bad_reason", r"a{80}\.\.\."),
        (Explain(2, "Priority\n"), "bad_reason", r"Priority\\n"),
        (Explain(2, "Größe"), "bad_reason", "Größe"),
        (Explain(2, "Priority", 4.9), "bad_time", r"4.9; expected a time from 5.0 \(now\)"),
        (Explain(2, "Priority", math.nan), "bad_time", "nan"),
        (Explain(2, "Priority", math.inf), "bad_time", "inf"),
        (Explain(2, "Priority", 2e15), "bad_time", "2000000000000000.0"),
    ],
)
def test_invalid_explanations_are_rejected(decision: Decision, code: str, words: str) -> None:
    """A rejection has the code and says what was expected; nothing is recorded."""
    simulation = one_waits()
    [event] = simulation.advance([decision], wake_on=[]).events
    assert isinstance(event, DecisionRejected)
    assert (event.decision, event.code) == ("explain", code)
    assert re.search(words, event.reason)
    assert said(simulation) == []


@pytest.mark.parametrize("expected_s", [None, 5.0, 1e15])
def test_a_start_is_expected_from_now_on(expected_s: float | None) -> None:
    """An expected start at the current time or up to 10^15 s is valid, as is none."""
    simulation = one_waits()
    assert codes_of(simulation.advance([Explain(2, "a" * 64, expected_s)]).events) == []
    assert len(said(simulation)) == 1


def test_a_repeated_explanation_is_not_recorded() -> None:
    """Only an explanation that differs from the last one of its job is recorded."""
    simulation = one_waits()
    wanted = [("Priority", None), ("Priority", None), ("Priority", 9.0), ("Priority", 9.0),
              ("Resources", 9.0), ("Priority", 9.0), ("Priority", None)]  # fmt: skip
    simulation.advance([Explain(2, reason, expected_s) for reason, expected_s in wanted])
    kept = [wanted[index] for index in (0, 2, 4, 5, 6)]
    found = [(reason, None if math.isnan(at_s) else at_s) for *_, reason, at_s in said(simulation)]
    assert found == kept


@pytest.mark.parametrize("limit", ["MAX_EXPLANATIONS", "MAX_REASONS"])
def test_explanations_beyond_a_limit_are_not_recorded(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no event, and a warning counts them."""
    monkeypatch.setattr(explanations, limit, 2)
    simulation = one_waits()
    events = simulation.advance([Explain(2, f"Reason{n}") for n in range(5)]).events
    assert (codes_of(events), len(said(simulation))) == ([], 2)
    [warning] = warnings_of(simulation.record(), RUN)
    assert warning.startswith("3 explanations of the scheduler were not recorded")


def test_the_file_has_all_explanations(tmp_path: Path) -> None:
    """explanations.csv has a row for each explanation, and no file is written without any."""
    simulation = one_waits()
    write_results(tmp_path, simulation.record(), RUN)
    assert not (tmp_path / "explanations.csv").exists()
    simulation.advance([Explain(2, "Resources", 10.0), Explain(2, "Priority")])
    write_results(tmp_path, simulation.record(), RUN)
    assert (tmp_path / "explanations.csv").read_text() == (
        "job_id,time_s,reason,expected_start_s\n2,5.0,Resources,10.0\n2,5.0,Priority,\n"
    )
    write_results(tmp_path, one_waits().record(), RUN)
    assert not (tmp_path / "explanations.csv").exists()


# --- no effect --------------------------------------------------------------------------------

JOBS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(1, 8), st.integers(1, 90)),
    min_size=1,
    max_size=25,
)


def table_of(jobs: list[tuple[int, int, int, int]]) -> JobTable:
    """Return a workload of (submission, run time, cores, requested time)."""
    ordered = sorted(jobs)
    return jobs_of(*((float(at), float(took), n, float(asked)) for at, took, n, asked in ordered))


def talkative(seed: int) -> Policy:
    """Return EASY with random explanations of waiting jobs."""
    random, inner = Random(seed), make_policy("easy")

    def decide(view: View) -> None:
        inner(view)
        for job in view.queue.values():
            if random.random() < 0.6:
                expected_s = random.choice([None, view.now_s + random.randrange(50)])
                reason = random.choice(["Priority", "Resources"])
                view.decisions.append(Explain(job.job_id, reason, expected_s))

    return decide


@given(JOBS, st.integers(0, 2**32))
@examples(60)
def test_explanations_have_no_effect(jobs: list[tuple[int, int, int, int]], seed: int) -> None:
    """All tables and metrics are those of a run without explanations, apart from forecasts."""
    plain = simulate(cluster_of(2, 4), table_of(jobs), "easy").record()
    explained = simulate(cluster_of(2, 4), table_of(jobs), talkative(seed)).record()
    for table in (JOBS_TABLE, NODE_STATES_OVER_TIME, SCHEDULE):
        assert list(table.text(explained)) == list(table.text(plain))
    metrics = measure(explained)
    assert {name: metrics[name] for name in measure(plain)} == measure(plain)
    assert set(metrics) - set(measure(plain)) == set(start_forecasts(explained))


# --- forecasts --------------------------------------------------------------------------------


def slow_forecasts(record: RunRecord) -> dict[str, float]:
    """Return the metrics of forecasts by a loop over the explanations."""
    recording, column = record.recording, record.recording.explanations
    errors_s: dict[str, list[float]] = {name: [] for name in ("", *LEADS)}
    for row, at_s, expected_s in zip(
        column.row, column.time_s, column.expected_start_s, strict=True
    ):
        start_s = recording.start_s[row]
        if expected_s == expected_s and start_s == start_s:  # neither is NaN
            hours = (expected_s - at_s) / HOUR_S
            name = next(name for name, most in LEADS.items() if hours <= most)
            errors_s[""].append(start_s - expected_s)
            errors_s[name].append(start_s - expected_s)
    found: dict[str, float] = {}
    for name, each in errors_s.items():
        if each:
            found[f"start_forecasts{name}"] = len(each)
            found[f"mean_start_error{name}_s"] = sum(each) / len(each)
            found[f"mean_abs_start_error{name}_s"] = sum(map(abs, each)) / len(each)
    return found


LEADS = {"_up_to_1h": 1, "_1h_to_6h": 6, "_6h_to_24h": 24, "_over_24h": math.inf}


@given(JOBS, st.integers(0, 2**32), st.sampled_from([1, 60, 900, 7200]))
@examples(60)
def test_metrics_of_forecasts_equal_a_loop(
    jobs: list[tuple[int, int, int, int]], seed: int, scale: int
) -> None:
    """Number, mean and mean absolute error, in total and by lead time."""
    scaled = [(at * scale, took * scale, n, asked * scale) for at, took, n, asked in jobs]
    record = simulate(cluster_of(2, 4), table_of(scaled), talkative(seed)).record()
    found = start_forecasts(record)
    expected_s = record.recording.explanations.expected_start_s
    if not any(at_s == at_s for at_s in expected_s):
        assert found == {}
    else:
        assert found == pytest.approx(slow_forecasts(record))


def test_the_class_of_a_forecast_is_known_when_it_is_made() -> None:
    """The expected start decides, not the real one; a class without forecasts has no metrics."""
    simulation = Simulation(cluster_of(1), jobs_of((0, 7 * HOUR_S, 1), (0, 10, 1)))
    simulation.advance()
    simulation.advance([AllocateJob(1, [0]), SetAlarm(HOUR_S), Explain(2, "Resources", 100.0)])
    simulation.advance([SetAlarm(6 * HOUR_S), Explain(2, "Resources", 8 * HOUR_S)])
    simulation.advance([Explain(2, "Resources", 7 * HOUR_S)])
    simulation.advance([AllocateJob(2, [0])])
    assert start_forecasts(simulation.record()) == {
        "start_forecasts": 3,
        "mean_start_error_s": (7 * HOUR_S - 100 - HOUR_S + 0) / 3,
        "mean_abs_start_error_s": (7 * HOUR_S - 100 + HOUR_S + 0) / 3,
        "start_forecasts_up_to_1h": 2,  # exactly 1 h is in the lower class
        "mean_start_error_up_to_1h_s": (7 * HOUR_S - 100) / 2,
        "mean_abs_start_error_up_to_1h_s": (7 * HOUR_S - 100) / 2,
        "start_forecasts_6h_to_24h": 1,
        "mean_start_error_6h_to_24h_s": -HOUR_S,
        "mean_abs_start_error_6h_to_24h_s": HOUR_S,
    }


def test_a_job_that_did_not_start_has_no_forecast_error() -> None:
    """A run whose only forecast is of a waiting job has no metrics of forecasts."""
    simulation = one_waits()
    simulation.advance([Explain(2, "Resources", 10.0)])
    assert start_forecasts(simulation.record()) == {}
    assert start_forecasts(one_waits().record()) == {}


def test_a_resumed_scheduler_adds_no_explanation() -> None:
    """A new client repeats what the last one said; the server records nothing twice."""
    simulation = one_waits()
    simulation.advance([Explain(2, "Resources", 10.0), SetAlarm(6.0)])
    view = View(cluster_of(1), explains=True)
    view.apply(simulation.now_s, simulation.snapshot())
    make_policy("fcfs")(view)
    assert view.decisions == [Explain(2, "Resources", 10.0)]
    simulation.advance(view.decisions)
    assert said(simulation) == [(1, 5.0, "Resources", 10.0)]
