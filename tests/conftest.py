"""Fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcosim_server.engine.simulation import Simulation
from support.examples import register_profiles
from support.invariants import check_invariants
from support.paths import SHARED

pytest_plugins = ["support.batsim_venv", "support.processes"]  # fixtures of several folders

register_profiles()


@pytest.fixture(autouse=True)
def every_simulation_is_sound(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check the invariants of every simulation a test made, after it."""
    made: list[Simulation] = []
    original = Simulation.__init__

    def remember(self: Simulation, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(Simulation, "__init__", remember)
    yield
    for simulation in made:
        check_invariants(simulation)


@pytest.fixture
def traces() -> Path:
    """The folder of real job logs; a test that needs it is skipped where it is missing."""
    folder = SHARED / "traces"
    if not folder.is_dir():
        pytest.skip(f"the real job logs are not on this machine: no {folder}")
    return folder
