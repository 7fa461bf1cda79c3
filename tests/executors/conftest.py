"""An executor of each kind, with two workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hpcosim_executors import Executor, ExecutorSettings, Local, Ray, open_executor


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """Return the address of a Ray cluster of two nodes with one CPU each."""
    pytest.importorskip("ray", reason="the Ray executor needs the extra ray")
    from support.ray_clusters import ray_nodes

    with ray_nodes(2) as nodes:
        yield nodes.address


@pytest.fixture(scope="module", params=["local", "ray"])
def settings(request: pytest.FixtureRequest) -> ExecutorSettings:
    """Return the settings of each executor."""
    if request.param == "ray":
        return Ray(address=request.getfixturevalue("ray_address"))
    return Local(workers=2)


@pytest.fixture(scope="module")
def executor(settings: ExecutorSettings) -> Iterator[Executor]:
    """Return each executor."""
    with open_executor(settings) as opened:
        yield opened
