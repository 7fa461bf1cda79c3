"""Options of the fault suite."""

from __future__ import annotations

from typing import Any

import pytest

SEEDS = 200
"""Number of simulated runs in the full test suite; `make fault` has more."""
CHUNK = 25
"""Simulated runs in a test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("fault suite")
    group.addoption("--fault-seed", type=int, help="run one seed and print what happened")
    group.addoption("--fault-seeds", type=int, default=SEEDS, help="number of simulated runs")
    group.addoption("--fault-first", type=int, default=0, help="first seed")
    group.addoption("--fault-long", action="store_true", help="run the long tests, too")


def option(config: pytest.Config, name: str, default: Any) -> Any:
    """Return an option; its default if pytest was not called with this folder, and has none."""
    return config.getoption(f"--fault-{name}", default=default)


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker of long tests."""
    config.addinivalue_line("markers", "fault: takes long; only `make fault` runs it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the long tests, unless `--fault-long` is given."""
    if option(config, "long", False):
        return
    for item in items:
        if item.get_closest_marker("fault"):
            item.add_marker(pytest.mark.skip(reason="takes long: make fault runs it"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test of simulated runs its seeds."""
    if "seeds" not in metafunc.fixturenames:
        return
    config = metafunc.config
    one, first = option(config, "seed", None), option(config, "first", 0)
    count = option(config, "seeds", SEEDS)
    starts = range(first, first + count, CHUNK)
    chunks = [range(start, min(start + CHUNK, first + count)) for start in starts]
    if one is not None:
        chunks = [range(one, one + 1)]
    metafunc.parametrize("seeds", chunks, ids=[f"{each[0]}-{each[-1]}" for each in chunks])
