"""Options, limits and the summary of the fault suite."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from support.fault.real import alone
from support.fault.summary import summary
from support.processes import SCENARIO, Results

SEEDS = 100
"""Number of simulated runs in the full test suite, which CI runs; `make fault` has more."""
SHARES = {"seeds": 1, "fleets": 10, "bridges": 5}
"""Of so many seeds, one is run: of a server in one process, with a front, of the Batsim bridge."""
CHUNK = 25
"""Simulated runs in a test."""
LIMIT_S = 2400.0
"""Time after which `make fault` begins no further test, s."""
JOBS, LONG_JOBS = 150, 1000
"""Jobs of a session that is over soon, and of one that lasts until a server is killed."""
BEGAN_S = time.monotonic()


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
    for name, share in SHARES.items():
        if name in metafunc.fixturenames:
            _add_seeds(metafunc, name, share)


def _add_seeds(metafunc: pytest.Metafunc, name: str, share: int) -> None:
    config = metafunc.config
    one, first = option(config, "seed", None), option(config, "first", 0)
    count = -(-option(config, "seeds", SEEDS) // share)
    starts = range(first, first + count, CHUNK)
    chunks = [range(start, min(start + CHUNK, first + count)) for start in starts]
    if one is not None:
        chunks = [range(one, one + 1)]
    metafunc.parametrize(name, chunks, ids=[f"{each[0]}-{each[-1]}" for each in chunks])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the tests that are left fail when the time of the suite is over."""
    if option(item.config, "long", False) and time.monotonic() - BEGAN_S > LIMIT_S:
        pytest.fail(f"the fault suite has taken more than {LIMIT_S:g} s; this test did not run")


@pytest.fixture
def one_core() -> Iterator[None]:
    """Keep this process on one core: threads that wait for each other take half the time there."""
    before = os.sched_getaffinity(0)
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    os.sched_setaffinity(0, {sorted(before)[worker % len(before)]})
    yield
    os.sched_setaffinity(0, before)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what was done, and how each failure can be seen again."""
    if option(config, "long", False):
        stats = terminalreporter.stats
        terminalreporter.section("fault suite")
        for line in summary(stats, time.monotonic() - BEGAN_S):
            terminalreporter.write_line(line)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario of some hundred jobs."""
    path = tmp_path_factory.mktemp("fault") / "busy.yaml"
    path.write_text(SCENARIO.format(name="busy", jobs=JOBS))
    return path


@pytest.fixture(scope="module")
def undisturbed(scenario: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The results of an undisturbed run."""
    return alone(scenario, tmp_path_factory)


@pytest.fixture
def ports() -> str:
    """The address of a port that is free now."""
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
    return f"tcp://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def long_scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario whose sessions last for seconds."""
    path = tmp_path_factory.mktemp("fault") / "long.yaml"
    path.write_text(SCENARIO.format(name="long", jobs=LONG_JOBS))
    return path


@pytest.fixture(scope="module")
def long_undisturbed(long_scenario: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The results of an undisturbed run of the long scenario."""
    return alone(long_scenario, tmp_path_factory)
