"""Fixtures of tests that drive a real Slurm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.batsim_venv import batsim_programs
from support.slurm_cluster import SlurmCluster, slurm_cluster

__all__ = ["batsim_programs"]


@pytest.fixture(scope="session")
def live_cluster() -> Iterator[SlurmCluster]:
    """A cluster of 8 nodes with one CPU each and one licence, whose jobs wait to be placed."""
    with slurm_cluster("--nodes", "8", "--for", "place", "--add", "Licenses=matlab:1") as cluster:
        yield cluster


@pytest.fixture
def cluster(live_cluster: SlurmCluster) -> SlurmCluster:
    """The same without jobs."""
    live_cluster.clear()
    return live_cluster
