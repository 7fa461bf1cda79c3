"""Fixtures of the tests of the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import SCENARIO


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a folder of its own that holds `tiny.yaml`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
