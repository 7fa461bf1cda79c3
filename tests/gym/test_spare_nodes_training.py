"""Training the network of the power manager `learned`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra rl is not installed")
pytest.importorskip("safetensors", reason="the extra rl is not installed")

from hpcosim_client import PolicyError
from hpcosim_experiments.executors import Local
from hpcosim_gym.learners.power_forecasts import (
    Examples,
    SpareNodesTraining,
    epochs,
    train_spare_nodes,
)
from hpcosim_gym.learning.trainers import Progress
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_schedulers.agents.spare_nodes import (
    COLUMNS,
    NodeForecast,
    changes,
    load_network,
)
from hpcosim_schedulers.predictive.manager import HOLDS
from support.commands import invoke
from support.interrupted import StoppedError, stop_at
from support.recipes import write_recipe

SCENARIO = """
name: night
seed: 3
platform:
  nodes:
    - count: 6
      processors: [{cores: 1, static_w: 100, dynamic_w: 0}]
      power_states:
        {sleep_w: 9, switch_on_s: 60, switch_on_w: 90, switch_off_s: 30, switch_off_w: 9}
workload:
  placement: whole_nodes
  synthetic: {model: poisson, jobs: 90, mean_interarrival_s: 300, cores: [1, 4]}
scheduler: {name: easy}
"""
QUICK = SpareNodesTraining(instances=2, jobs=40, samples=4, hidden=3, epochs=1)


@pytest.fixture
def night(tmp_path: Path) -> Path:
    """Return the path of a scenario whose nodes can be switched."""
    path = tmp_path / "night.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.mark.slow
def test_a_training_is_reproduced(night: Path, tmp_path: Path) -> None:
    """Seed and settings determine the bytes, with any number of workers."""
    trained = train_spare_nodes(night, tmp_path / "first", QUICK).read_bytes()
    workers = dataclasses.replace(QUICK, executor=Local(workers=2))
    assert train_spare_nodes(night, tmp_path / "workers", workers).read_bytes() == trained
    other = dataclasses.replace(QUICK, seed=1)
    assert train_spare_nodes(night, tmp_path / "other", other).read_bytes() != trained


def test_recording_goes_on_where_it_was_interrupted(night: Path, tmp_path: Path) -> None:
    """The result of two parts is that of the whole, and nothing is recorded again."""
    training = dataclasses.replace(QUICK, instances=7)
    whole = train_spare_nodes(night, tmp_path / "whole", training)
    out, recorded = tmp_path / "parts", list[int]()

    def count(done: Progress) -> None:
        if not done.measures:
            recorded.append(done.number)

    with pytest.raises(StoppedError):
        train_spare_nodes(night, out, training, report=stop_at(5))
    resumed = train_spare_nodes(night, out, training, resume=True, report=count)
    assert resumed.read_bytes() == whole.read_bytes()
    assert recorded == [7]


def test_the_command_trains(night: Path, tmp_path: Path) -> None:
    """`hpcosim train` writes a network and the curve of a recipe, and says where."""
    recipe = write_recipe(
        tmp_path,
        "spare-nodes",
        night,
        environment={"jobs": 40, "samples": 4},
        algorithm={"hidden": 3},
        budget={"instances": 2, "epochs": 2},
    )
    out = tmp_path / "out"
    done = invoke("train", recipe, "--out", out)
    assert done.status == 0, done.err
    assert done.out.splitlines()[-1] == f"network: {out / 'network.safetensors'}"
    assert load_network(out / "network.safetensors").inner.shape == (COLUMNS + 1, 3)
    rows = (out / "seed-0" / "curve.csv").read_text().splitlines()
    assert rows[0] == "epoch,training,validation"
    assert [row.split(",")[0] for row in rows[1:]] == ["0", "1", "2"]


def test_a_wrong_forecast_is_corrected() -> None:
    """Needs of nine in ten are forecast as even odds, and waits of 0.5 boots as none."""
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(1000, COLUMNS)).astype(np.float32)
    even = np.full((1000, HOLDS), 0.5, dtype=np.float32)
    came = (rng.random((1000, HOLDS)) < 0.9).astype(np.float32)
    examples = Examples(seen, even, 0.0 * even, came, even)
    first, *_, last = epochs(examples, examples, count=150, hidden=2, learning_rate=0.03, seed=0)
    assert not first.network.outer.any()
    assert last.validation < first.validation
    said = NodeForecast(even.T.astype(np.float64), np.zeros((HOLDS, len(seen))))
    found = changes(last.network, seen.astype(np.float64), said)
    assert found.used.mean() == pytest.approx(0.4, abs=0.05)
    assert found.saved.mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("change", [("cores: 1", "cores: 2"), ("power_states", "site")])
def test_other_nodes_are_an_error(change: tuple[str, str], night: Path, tmp_path: Path) -> None:
    """Nodes of several cores, and nodes that cannot be switched."""
    lines = SCENARIO.replace(*change).splitlines()
    if change[1] == "site":
        lines = [line for line in lines if "site" not in line and "sleep_w" not in line]
    night.write_text("\n".join(lines))
    with pytest.raises(ScenarioError, match=r"platform\.nodes: expected nodes of one core with"):
        train_spare_nodes(night, tmp_path / "out", QUICK)


def test_a_workload_without_idle_nodes_is_an_error(night: Path, tmp_path: Path) -> None:
    """There is nothing to learn from."""
    text = SCENARIO.replace("count: 6", "count: 1").replace("cores: [1, 4]", "cores: [1, 1]")
    busy = text.replace("mean_interarrival_s: 300", "mean_interarrival_s: 100, run_s: [600, 900]")
    night.write_text(busy)
    with pytest.raises(PolicyError, match="no node was without a job"):
        train_spare_nodes(night, tmp_path / "out", QUICK)
