"""An executor of each kind, with two workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hpcosim_experiments.executors import (
    Executor,
    ExecutorSettings,
    Local,
    Ray,
    Slurm,
    open_executor,
)
from support.slurm import skip_without_slurm


@pytest.fixture(scope="module", params=["local", "ray", "submitit", "slurm"])
def settings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ExecutorSettings:
    """Return the settings of each executor."""
    if request.param == "ray":
        return Ray(address=request.getfixturevalue("ray_address"))
    if request.param in ("submitit", "slurm"):
        pytest.importorskip("submitit", reason="the Slurm executor needs the extra slurm")
        folder = tmp_path_factory.mktemp("jobs")
        if request.param == "submitit":
            return Slurm(cluster="local", array_size=2, folder=folder)
        skip_without_slurm()
        return Slurm(array_size=2, folder=folder)
    return Local(workers=2)


@pytest.fixture(scope="module")
def executor(settings: ExecutorSettings) -> Iterator[Executor]:
    """Return each executor."""
    with open_executor(settings) as opened:
        yield opened
