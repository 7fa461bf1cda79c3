"""Fixtures of the tests of the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import SCENARIO


@pytest.fixture(autouse=True)
def in_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a new folder that holds `tiny.yaml`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(SCENARIO)


@pytest.fixture(autouse=True)
def no_log_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a command that runs in this process from directing the log of later tests.

    A logger keeps the stream of its first message, and the stream of such a command is closed when
    it ends.
    """
    monkeypatch.setattr("hpcosim_scenarios.running.serving.log_as_json", lambda: None)
