"""Fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from hpcosim_server.engine.engine import Engine
from support.paths import SHARED

pytest_plugins = ["support.processes"]  # fixtures that several folders use

# Machines differ in speed; a property is no less true on a slow one.
settings.register_profile("hpcosim", deadline=None)
settings.load_profile("hpcosim")


@pytest.fixture(autouse=True)
def every_simulation_is_sound(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    """Check the invariants of every simulation a test made, after it."""
    made: list[Engine] = []
    original = Engine.__init__

    def remember(self: Engine, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(Engine, "__init__", remember)
    yield
    if request.node.get_closest_marker("spoils"):
        return
    for simulation in made:
        simulation.validate()


@pytest.fixture
def traces() -> Path:
    """The folder of real job logs; a test that needs it is skipped where it is missing."""
    folder = SHARED / "traces"
    if not folder.is_dir():
        pytest.skip(f"the real job logs are not on this machine: no {folder}")
    return folder
