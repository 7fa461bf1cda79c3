"""The search for adaptive timeouts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="training needs the extra rl")

from hpcosim_experiments.executors import Local
from hpcosim_gym.errors import CheckpointError
from hpcosim_gym.learning.cross_entropy import next_distribution
from hpcosim_papers.power.learners.cross_entropy import AdaptiveSearch, train_adaptive
from support.interrupted import StoppedError, stop_at


def test_a_generation_moves_to_its_elite() -> None:
    """For a cost that is the distance to a point, the mean moves there and the spread decreases."""
    goal, sizes = np.full((3, 9), 0.5), AdaptiveSearch(candidates=40, elite=8)
    mean, sd, rng = np.zeros((3, 9)), np.full((3, 9), 0.3), np.random.default_rng(1)
    costs = []
    for _ in range(12):
        mean, sd, costs_j = next_distribution(
            mean, sd, sizes, rng, lambda drawn: np.abs(drawn - goal).sum(axis=(1, 2))
        )
        costs.append(costs_j[0])
    assert costs[-1] < 0.5 * costs[0]
    assert sd.mean() < 0.2


SCENARIO = """
name: tiny
platform:
  nodes:
    - count: 4
      processors: [{cores: 1, static_w: 100, dynamic_w: 0}]
      power_states:
        {sleep_w: 5, switch_on_s: 10, switch_on_w: 80, switch_off_s: 4, switch_off_w: 20}
workload:
  synthetic: {model: poisson, jobs: 30, mean_interarrival_s: 200, cores: [1, 4], run_s: [10, 400]}
scheduler: {name: easy, power_awareness: planned}
"""


def test_a_search_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    """The result of two parts is that of the whole; the checkpoint of another search is refused."""
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO)
    search = AdaptiveSearch(generations=3, candidates=3, elite=1)
    whole = train_adaptive(path, tmp_path / "whole", search)
    out = tmp_path / "parts"
    with pytest.raises(StoppedError):
        train_adaptive(path, out, search, report=stop_at(2))
    assert train_adaptive(path, out, search, resume=True).read_bytes() == whole.read_bytes()
    curves = [(folder / "curve.csv").read_text() for folder in (out, tmp_path / "whole")]
    rows = [[line.rpartition(",")[0] for line in curve.splitlines()] for curve in curves]
    assert rows[0] == rows[1]  # apart from the seconds
    other = dataclasses.replace(search, wait_w=1.0)
    with pytest.raises(CheckpointError, match=r"has wait_w 350\.0, the recipe 1\.0"):
        train_adaptive(path, out, other, resume=True)


@pytest.mark.slow
def test_the_same_seed_learns_the_same_bytes(tmp_path: Path) -> None:
    """The same seed writes the same bytes with one or two workers; another seed writes others."""
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO)

    def learned(name: str, seed: int, workers: int = 0) -> bytes:
        search = AdaptiveSearch(
            generations=2, candidates=3, elite=1, seed=seed, executor=Local(workers=workers)
        )
        return train_adaptive(path, tmp_path / name, search).read_bytes()

    assert learned("a", 1) == learned("b", 1, workers=2) != learned("c", 2)
    lines = (tmp_path / "a" / "curve.csv").read_text().splitlines()
    assert lines[0].startswith("number,mean,best")
    assert len(lines) == 3
