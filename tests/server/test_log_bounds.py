"""Bounds of a server's log."""

from __future__ import annotations

import pytest
import structlog

from hpcosim_scenarios.running.json_log import BoundedLines
from hpcosim_server.service.reporting import ProgressLog
from hpcosim_server.service.status import Progress
from hpcosim_server.wire.log_rate import LogRate


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
    bounded = BoundedLines(per_s=0.001, burst=2)
    for _ in range(2):
        bounded(None, "info", {})
    with pytest.raises(structlog.DropEvent):
        bounded(None, "info", {})
    assert bounded(None, "error", {"event": "x"}) == {"event": "x"}


def test_lines_of_progress_become_rare() -> None:
    """An hour of a session has 65 lines, not 14,400; sessions do not share the bound."""
    now_s = 0.0
    log = ProgressLog(lambda: now_s)
    with structlog.testing.capture_logs() as entries:
        for quarter in range(4 * 3600):
            now_s = quarter / 4
            log(Progress("a", "s", "x", now_s, 0, 1))
        log(Progress("b", "s", "x", now_s, 0, 1))
    times_s = [entry["now_s"] for entry in entries]
    assert times_s[:5] == [0.0, 1.0, 3.0, 7.0, 15.0]
    assert len(times_s) == 6 + 59 + 1
