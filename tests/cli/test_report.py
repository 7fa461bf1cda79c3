"""Tables of metrics: rounding, units, and names that are never cut off."""

from __future__ import annotations

import json
import sys

import pytest

from hpcosim.cli.printing import number, print_comparison, unit
from hpcosim_scenarios.running.compare import Comparison

METRICS: dict[str, int | float] = {
    "jobs": 600,
    "makespan_s": 882_425.5,
    "mean_wait_s": 189.2674,
    "mean_bounded_slowdown": 1.0,
    "energy_j": 3_877_034_653.79,
    "energy_kwh": 1_076.954,
    "edp_js": 3.42119e15,
}
WIDE = "low-mem-ops-high-mem-bw-one-and-a-power-manager-with-a-long-name"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (600, "600"),
        (1_234_567, "1,234,567"),
        (0.0, "0"),
        (0.76049, "0.760"),
        (28.0781, "28.08"),
        (136.911, "136.9"),
        (-136.911, "-136.9"),
        (33_277.457, "33,277"),
        (3.42119e15, "3.421e+15"),
        (0.00012345, "0.0001234"),
    ],
)
def test_a_number_has_four_significant_digits(value: float, text: str) -> None:
    """Integers, and the digits before the decimal point, are kept."""
    assert number(value) == text


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("makespan_s", "s"),
        ("energy_j", "J"),
        ("edp_js", "J s"),
        ("energy_kwh", "kWh"),
        ("energy_cost", "CHF"),
        ("saved_co2_kg_per_year", "kg/year"),
        ("saved_energy_cost_per_year", "CHF/year"),
        ("jobs", ""),
        ("utilization", ""),
    ],
)
def test_a_unit_is_that_of_the_suffix(metric: str, expected: str) -> None:
    """A name without one of these suffixes has no unit; the unit of a cost is the currency."""
    assert unit(metric, "CHF") == expected


@pytest.mark.parametrize("runs", [1, 8, 9])
def test_names_are_not_cut_off(runs: int, capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe, each line has its full width, whatever COLUMNS says."""
    names = [WIDE, *(f"scheduler-{count}" for count in range(runs - 1))]
    print_comparison(Comparison(dict.fromkeys(names, METRICS)), as_json=False)
    text = capsys.readouterr().out
    assert all(name in text for name in names)
    assert text.count("1,077") == runs
    assert "…" not in text


@pytest.mark.parametrize(("columns", "heading"), [(300, "metric"), (60, "policy")])
def test_a_narrow_terminal_gets_a_row_per_run(
    columns: int,
    heading: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table that is wider than the terminal is replaced by a narrower one of the main metrics."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    names = [WIDE, *(f"scheduler-{count}" for count in range(7))]
    print_comparison(Comparison(dict.fromkeys(names, METRICS)), as_json=False)
    assert heading in capsys.readouterr().out.splitlines()[1]


SAVED: dict[str, int | float] = {"saved_energy_cost": 12.5, "longest_delay_job_id": 1234567}
COMPARED = Comparison({"always-on": METRICS, WIDE: METRICS}, "always-on", {WIDE: SAVED})


def test_savings_are_a_table_below_that_of_the_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    """It names the baseline and says how a year is scaled; a job id is no quantity."""
    print_comparison(COMPARED, "CHF", as_json=False)
    text = capsys.readouterr().out
    below = text.partition(
        "Compared with always-on, job by job; a year is 35.7 times the 10.2 days"
    )
    rows = [line.strip("│ ").split() for line in below[2].splitlines()]
    assert ["saved_energy_cost", "│", "CHF", "│", "12.50"] in rows
    assert ["longest_delay_job_id", "│", "│", "1234567"] in rows


def test_savings_are_beside_the_metrics_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The baseline has its metrics only."""
    print_comparison(COMPARED, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"always-on": METRICS, WIDE: METRICS | SAVED}


def test_a_baseline_of_no_time_has_no_year(capsys: pytest.CaptureFixture[str]) -> None:
    """A makespan of 0 cannot be scaled."""
    metrics = METRICS | {"makespan_s": 0.0}
    print_comparison(Comparison({"a": metrics, "b": metrics}, "a", {"b": SAVED}), as_json=False)
    assert "Compared with a, job by job.\n" in capsys.readouterr().out
