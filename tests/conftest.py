"""Fixtures of all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcosim_sim.engine.engine import Engine
from support.examples import register_profiles
from support.order import for_workers
from support.paths import SHARED

# Fixtures of several folders.
pytest_plugins = [  # each before those that import it
    "support.batsim_venv",
    "support.processes",
    "support.games",
    "support.browser",
    "support.report_pages",
    "support.ray_clusters",
]

register_profiles()

# A shell that runs the tests in the background has them, and all they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests for the workers of xdist, if there are several."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        items[:] = for_workers(items, workers)


def pytest_collection_finish() -> None:
    """Leave out of garbage collections what lives until the end: the modules and the tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Leave out of later garbage collections what a file of tests has loaded and compiled.

    A server collects the garbage of each session. After Numba has compiled, or torch is imported,
    each of these collections takes up to a second.
    """
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_unconfigure() -> None:
    """Let the interpreter free at its end what was left out."""
    gc.unfreeze()


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
