"""Options of the fuzzer of scenarios."""

from __future__ import annotations

import pytest

SEEDS, CHUNK = 300, 10
SHARES = {"seeds": 1, "vector_seeds": 3}
"""Divisors of the number of seeds: for single scenarios, and for vectors of environments."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("fuzzer of scenarios")
    group.addoption("--fuzz-seeds", type=int, default=SEEDS, help="number of random scenarios")
    group.addoption("--fuzz-first", type=int, default=0, help="first seed")
    group.addoption("--fuzz-scheduler", help="scheduler of all scenarios; default: drawn")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test of random scenarios its seeds."""
    for name, share in SHARES.items():
        if name in metafunc.fixturenames:
            config = metafunc.config
            first = config.getoption("--fuzz-first", default=0)
            last = first + -(-config.getoption("--fuzz-seeds", default=SEEDS) // share)
            chunks = [range(at, min(at + CHUNK, last)) for at in range(first, last, CHUNK)]
            metafunc.parametrize(name, chunks, ids=[f"{each.start}" for each in chunks])


@pytest.fixture
def scheduler(request: pytest.FixtureRequest) -> str | None:
    """The scheduler of all scenarios; None: drawn."""
    name: str | None = request.config.getoption("--fuzz-scheduler", default=None)
    return name
