"""Trainings whose rollouts run on a Ray cluster."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs the extra rl")

from hpcosim_experiments.executors import ExecutorSettings, Local, Ray
from hpcosim_papers.ineps.learners.settings import FORESEEING
from hpcosim_papers.ineps.learners.train import train_pairing
from support.paths import SCENARIOS

SCENARIO = SCENARIOS / "papers" / "ineps" / "exp1.yaml"
QUICK = dataclasses.replace(FORESEEING, iterations=2, episodes=3, epochs=1, cloning_epochs=1)


@pytest.mark.slow
def test_rollouts_on_ray_train_the_same_network(ray_address: str, tmp_path: Path) -> None:
    """The same seed writes the same bytes in this process, in local workers and on Ray."""

    def trained(name: str, executor: ExecutorSettings) -> bytes:
        training = dataclasses.replace(QUICK, executor=executor)
        return train_pairing(SCENARIO, tmp_path / name, training).read_bytes()

    here = trained("here", QUICK.executor)
    assert trained("local", Local(workers=2)) == here
    assert trained("ray", Ray(address=ray_address)) == here
