"""Fixtures of the tests of the command line."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_log_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a command that runs in this process from directing the log of later tests.

    A logger keeps the stream of its first message, and the stream of such a command is closed when
    it ends.
    """
    monkeypatch.setattr("hpcosim_scenarios.running.serving.log_as_json", lambda: None)
