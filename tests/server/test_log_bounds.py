"""Bounds of a server's log."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hpcosim_scenarios.running.status import BoundedLines
from hpcosim_server import log
from hpcosim_server.service.status import Progress, ProgressLog
from hpcosim_server.wire.log_rate import LogRate
from support.logs import captured_log


def test_lines_beyond_a_burst_are_left_out_and_counted() -> None:
    """After a burst, lines come at the rate; the number of those left out is known."""
    now_s = 0.0
    rate = LogRate(2.0, 3, lambda: now_s)
    assert [rate.admits() for _ in range(5)] == [True, True, True, False, False]
    now_s = 0.6
    assert [rate.admits(), rate.admits()] == [True, False]
    assert rate.take_left_out() == 3
    assert rate.take_left_out() == 0


def test_errors_are_logged_although_other_lines_are_left_out() -> None:
    """A client that makes many lines hides no error."""
    lines: list[str] = []
    bounded = BoundedLines(lines.append, per_s=0.001, burst=2)
    for _ in range(3):
        bounded({"event": "x", "level": "info"})
    bounded({"event": "x", "level": "error"})
    assert [json.loads(line)["level"] for line in lines] == ["info", "info", "error"]


def test_a_line_has_fields_event_level_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is one JSON object: the fields, then the event, its level and the time in UTC."""
    lines: list[str] = []
    monkeypatch.setattr(log, "_writer", BoundedLines(lines.append))
    log.warning("odd", path=Path("x"), value=1.5)
    entry = json.loads(lines[0])
    assert list(entry) == ["path", "value", "event", "level", "timestamp"]
    assert (entry["path"], entry["value"]) == (repr(Path("x")), 1.5)
    assert entry["timestamp"].endswith("Z")
    assert datetime.fromisoformat(entry["timestamp"]).tzinfo == UTC


def test_an_exception_is_logged_with_its_cause_and_without_variables() -> None:
    """An exception gives its type, text and frames, then those of its cause."""

    def fail(secret: str) -> None:
        try:
            int(secret)
        except ValueError as error:
            raise RuntimeError("failed") from error

    with captured_log() as events:
        try:
            fail("hidden"[:0])
        except RuntimeError:
            log.exception("process_failed", number=1)
    (event,) = events
    assert (event["event"], event["level"], event["number"]) == ("process_failed", "error", 1)
    outer, cause = event["exception"]
    assert (outer["exc_type"], outer["exc_value"], outer["is_cause"]) == (
        "RuntimeError",
        "failed",
        False,
    )
    assert (cause["exc_type"], cause["is_cause"]) == ("ValueError", True)
    assert [frame["name"] for frame in cause["frames"]] == ["fail"]
    assert set(cause["frames"][0]) == {"filename", "lineno", "name"}


def test_only_warnings_are_printed_by_default() -> None:
    """A program that uses the package without a log sees warnings and errors."""
    program = "from hpcosim_server import log; log.info('usual'); log.warning('odd', n=1)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == '{"n": 1, "event": "odd", "level": "warning"}\n'


def test_lines_of_progress_become_rare() -> None:
    """An hour of a session has 65 lines, not 14,400; sessions do not share the bound."""
    now_s = 0.0
    report = ProgressLog(lambda: now_s)
    with captured_log() as entries:
        for quarter in range(4 * 3600):
            now_s = quarter / 4
            report(Progress("a", "s", "x", now_s, 0, 1))
        report(Progress("b", "s", "x", now_s, 0, 1))
    times_s = [entry["now_s"] for entry in entries]
    assert times_s[:5] == [0.0, 1.0, 3.0, 7.0, 15.0]
    assert len(times_s) == 6 + 59 + 1
