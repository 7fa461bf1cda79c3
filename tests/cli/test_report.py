"""Tables of metrics: rounding, units, and names that are never cut off."""

from __future__ import annotations

import sys

import pytest

from hpcosim_cli.report import Metrics, number, print_comparison, unit

METRICS: Metrics = {
    "jobs": 600,
    "makespan_s": 882_425.5,
    "mean_wait_s": 189.2674,
    "mean_bounded_slowdown": 1.0,
    "energy_j": 3_877_034_653.79,
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
    [("makespan_s", "s"), ("energy_j", "J"), ("edp_js", "J s"), ("jobs", ""), ("utilization", "")],
)
def test_a_unit_is_that_of_the_suffix(metric: str, expected: str) -> None:
    """A name without one of these suffixes has no unit."""
    assert unit(metric) == expected


@pytest.mark.parametrize("runs", [1, 8, 9])
def test_names_are_not_cut_off(runs: int, capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe, each line has its full width, whatever COLUMNS says."""
    names = [WIDE, *(f"scheduler-{count}" for count in range(runs - 1))]
    print_comparison(dict.fromkeys(names, METRICS), as_json=False)
    text = capsys.readouterr().out
    assert all(name in text for name in names)
    assert text.count("3,877,034,654") == runs
    assert "…" not in text


@pytest.mark.parametrize(("columns", "heading"), [(200, "metric"), (60, "scheduler")])
def test_a_narrow_terminal_gets_a_row_per_run(
    columns: int,
    heading: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table that is wider than the terminal is replaced by that of the main metrics."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_comparison({WIDE: METRICS, "easy": METRICS}, as_json=False)
    assert heading in capsys.readouterr().out.splitlines()[1]
