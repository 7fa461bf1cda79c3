"""Repeats without effect: they count once, without interval, and the report says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hpcosim_experiments.report import ReportSettings, Results, identical_repeats, write_report
from hpcosim_experiments.statistics.rows import Label, Row

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

SETTINGS = ReportSettings(
    metrics=("mean_wait_s",), baseline={"scheduler": "easy"}, resamples=200, figures=()
)
WAITS_S = {"easy": 5.0, "fcfs": 9.5, "random": 11.0}


def rows(schedulers: Sequence[str], windows: Sequence[str] = ("a",)) -> list[Row]:
    """Return runs in which the window matters, and the seed for the scheduler random only."""
    return [
        {
            "scheduler": scheduler,
            "window": window,
            "seed": seed,
            "run_key": f"{seed}",
            "status": "ok",
            "mean_wait_s": WAITS_S[scheduler]
            + windows.index(window)
            + seed * (scheduler == "random"),
        }
        for scheduler in schedulers
        for window in windows
        for seed in (1, 2, 3)
    ]


def report_of(folder: Path, found: Sequence[Row]) -> str:
    """Return the report in Markdown."""
    axes: dict[str, tuple[Label, ...]] = {
        axis: tuple(dict.fromkeys(row[axis] for row in found))
        for axis in ("scheduler", "window", "seed")
    }
    write_report(folder, Results("tiny", axes, found), SETTINGS)
    return (folder / "report.md").read_text()


def test_identical_repeats_count_once(tmp_path: Path) -> None:
    """Neither means nor differences have an interval or bold figures, and n is 1."""
    text = report_of(tmp_path, rows(["easy", "fcfs"]))
    assert "| fcfs | 1 | 9.50 |" in text
    assert "| fcfs | 1 | 4.50 |" in text
    assert "**" not in text
    assert "[" not in text
    assert "Seed makes no difference: all metrics of the runs are equal" in text


def test_repeats_with_effect_keep_their_interval(tmp_path: Path) -> None:
    """A combination whose runs differ is compared with identical runs in pairs."""
    text = report_of(tmp_path, rows(["easy", "random"]))
    assert "| easy | 1 | 5 |" in text
    assert "| random | 3 | 13 [12, 14] |" in text
    assert "| random | 3 | **8** [7, 9] |" in text
    assert "Seed makes no difference in 1 of 2 combinations" in text


def test_only_the_axis_without_effect_is_collapsed(tmp_path: Path) -> None:
    """Windows remain repeats; the copies of each by the seed do not narrow the intervals."""
    text = report_of(tmp_path, rows(["easy", "fcfs"], ["a", "b", "c"]))
    assert "| fcfs | 3 | 10.5 [9.5, 11.5] |" in text
    assert "| fcfs | 3 | **4.50** [4.50, 4.50] |" in text
    assert "Window makes" not in text


def test_failed_repeats_of_identical_runs_are_still_listed(tmp_path: Path) -> None:
    """The table of failed runs has all runs."""
    found = rows(["easy", "fcfs"])
    found[4] = {**found[4], "status": "failed", "error": "lost", "mean_wait_s": None}
    text = report_of(tmp_path, found)
    assert "1 of 6 runs failed" in text
    assert "| fcfs | 1 | 9.50 |" in text


def test_different_repeats_are_not_reported() -> None:
    """Runs of which one metric differs are repeats."""
    found = rows(["random"])
    axes: dict[str, tuple[Label, ...]] = {"scheduler": ("random",), "window": ("a",)}
    assert identical_repeats(Results("a", {**axes, "seed": (1, 2, 3)}, found), SETTINGS) == []
