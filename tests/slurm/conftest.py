"""Fixtures of tests with a real Slurm."""

from __future__ import annotations

import pytest

from hpcosim_slurm.tools import Tools, environment
from support.slurm_cluster import SlurmCluster, ordinary_cluster, placed_cluster

__all__ = ["ordinary_cluster", "placed_cluster"]


@pytest.fixture
def ordinary(ordinary_cluster: SlurmCluster) -> SlurmCluster:
    """An ordinary cluster without jobs."""
    ordinary_cluster.clear()
    return ordinary_cluster


@pytest.fixture
def placed(placed_cluster: SlurmCluster) -> SlurmCluster:
    """A cluster without jobs whose jobs wait to be placed."""
    placed_cluster.clear()
    return placed_cluster


@pytest.fixture
def tools(request: pytest.FixtureRequest) -> Tools:
    """The commands of the cluster of the test."""
    name = "placed" if "placed" in request.fixturenames else "ordinary"
    cluster: SlurmCluster = request.getfixturevalue(name)
    return Tools(environment=environment(cluster.environment))
