"""The progress of runs on standard error."""

from __future__ import annotations

import time

import pytest

from hpcosim_scenarios.running.in_process import shown


def test_the_time_left_does_not_include_the_start_of_workers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It comes from the pace after the first line with completed runs."""
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    with shown("study", "runs") as report:
        for now_s, over in ((0.0, 0), (100.0, 1), (115.0, 2), (120.0, 3), (145.0, 4)):
            report(now_s, over, 12)
    assert capsys.readouterr().err.splitlines() == [
        "study: 1 of 12 runs",
        "study: 2 of 12 runs, 00:02:30 left",
        "study: 4 of 12 runs, 00:02:00 left",
    ]
