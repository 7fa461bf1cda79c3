"""Training batch agents: rules beside each other, whole searches, the policy of a file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="the extra rl is not installed")
pytest.importorskip("safetensors", reason="the extra rl is not installed")
pytest.importorskip("torch", reason="the extra rl is not installed")

from safetensors.numpy import save_file

from hpcosim_client import PolicyError
from hpcosim_experiments.executors import Local
from hpcosim_gym.environments.batch_scheduling import BatchSchedulingEnv
from hpcosim_gym.learners import batch_search
from hpcosim_gym.learners.batch_search import (
    BatchSearch,
    initial_weights,
    rule_cost,
    rule_scores,
    train_batch,
)
from hpcosim_scenarios.running.run import simulate
from hpcosim_scenarios.shipped import BATCH, shipped_folder
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.agents.batch.policy import (
    FORMAT,
    SHAPE,
    BatchRule,
    best,
    load_batch,
    save_batch,
    scores,
)
from hpcosim_sim.record.metrics import measure
from hpcosim_workloads.shaping import window_by_number
from hpcosim_workloads.synthetic.lublin import lublin
from support.commands import invoke
from support.recipes import write_recipe
from support.simulating import cluster_of
from support.simulating import simulate as simulate_jobs

SCENARIO = """
name: busy
seed: 3
platform: {nodes: [{count: 6, processors: [{cores: 4, static_w: 0, dynamic_w: 0}]}]}
workload:
  synthetic: {model: poisson, jobs: 200, mean_interarrival_s: 30, cores: [1, 20], run_s: [1, 900],
              overestimate: 5}
scheduler: {name: easy}
"""
QUICK = BatchSearch(generations=2, candidates=4, elite=2, episodes=2, episode_jobs=40)


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    """Return the path of a scenario in which jobs wait."""
    path = tmp_path / "busy.yaml"
    path.write_text(SCENARIO)
    return path


def test_the_score_is_linear_in_the_columns(busy: Path) -> None:
    """The weights of the columns depend linearly on free cores and queue, by hand."""
    env = BatchSchedulingEnv(str(busy))
    env.reset()
    for _ in range(30):
        env.choose(0)
    scene = env.choices.scene
    weights = np.random.default_rng(0).normal(size=SHAPE)
    free_cores, queue = scene.cluster[:2]
    expected = [
        sum(
            (constant + free_cores * of_free + queue * of_queue) * column[job]
            for constant, of_free, of_queue, column in zip(*weights, scene.columns, strict=True)
        )
        for job in range(len(env.visible))
    ]
    assert len(expected) > 2
    assert scores(weights, scene) == pytest.approx(expected)
    assert best(weights, scene) == int(np.argmax(expected))
    assert best(np.zeros(SHAPE), scene) == 0


def test_the_policy_of_a_file_is_its_rule_in_the_environment(busy: Path) -> None:
    """`batch:FILE` gives the schedule of the rule in the environment."""
    rule = BatchRule(np.random.default_rng(1).normal(size=SHAPE), 5)
    file = busy.parent / "agent.safetensors"
    save_batch(file, rule)
    assert np.array_equal(load_batch(file).weights, rule.weights)
    cost = rule_cost(BatchSchedulingEnv(str(busy), window_jobs=5), rule.weights)
    metrics = simulate(busy, make_policy(f"batch:{file}"))
    assert metrics["mean_bounded_slowdown"] == cost
    assert simulate(busy, make_policy(f"batch-sampled:{file}")) != metrics


def test_the_search_starts_at_easy_saf(busy: Path) -> None:
    """The initial weights give the schedule of `easy-saf`; its score by hand."""
    env = BatchSchedulingEnv(str(busy))
    cost = rule_cost(env, initial_weights())
    metrics = simulate(busy, make_policy("easy-saf"))
    assert metrics["mean_bounded_slowdown"] == cost
    longest_s = metrics["max_wait_s"]
    short = env.workload.take(slice(0, 50))
    short_cost = rule_cost(BatchSchedulingEnv(task=env.task, jobs=short), initial_weights())
    windows = [(env.task, env.workload), (env.task, short)]

    def score(longest_wait_weight: float) -> float:
        return float(rule_scores(windows, longest_wait_weight, initial_weights()[None])[0])

    assert score(0.0) == pytest.approx((np.log1p(cost) + np.log1p(short_cost)) / 2)
    assert score(0.1) - score(0.0) > 0.1 * np.log1p(longest_s) / 2


def test_rules_have_the_scores_of_the_reference(
    busy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiled engine plays rules on windows of two lengths, bit by bit as the reference."""
    pytest.importorskip("numba", reason="the extra fast is not installed")
    env = BatchSchedulingEnv(str(busy), window_jobs=7, reward="wait")
    parts = [(0, 60), (60, 120), (20, 60)]
    windows = [(env.task, window_by_number(env.workload, *part)) for part in parts]
    weights = np.random.default_rng(5).normal(size=(3, *SHAPE))
    compiled = rule_scores(windows, 0.3, weights)
    monkeypatch.setattr(batch_search, "compiled_episodes", lambda *_: None)
    assert compiled.tolist() == rule_scores(windows, 0.3, weights).tolist()
    assert len(set(compiled.tolist())) == 3


def test_the_shipped_agent_beats_easy() -> None:
    """The mean bounded slowdown on jobs of the Lublin model that no training saw is below half."""
    file = shipped_folder() / BATCH / "agent.safetensors"
    jobs = lublin(np.random.default_rng(2026), jobs=400, processors=256)
    costs = [
        measure(simulate_jobs(cluster_of(256), jobs, policy).record())["mean_bounded_slowdown"]
        for policy in ("easy", f"batch:{file}")
    ]
    assert costs[1] < 0.5 * costs[0]


@pytest.mark.parametrize(
    ("weights", "said", "message"),
    [
        (np.zeros(SHAPE), {"other": "64"}, "expected metadata 'hpcosim batch 1'"),
        (np.zeros((2, 2)), {FORMAT: "64"}, r"weights of shape \(3, 11\)"),
        (np.full(SHAPE, np.nan), {FORMAT: "64"}, "finite numbers of type float64"),
        (np.zeros(SHAPE), {FORMAT: "0"}, "expected 1 to 1000 visible jobs"),
        (np.zeros(SHAPE), {FORMAT: "many"}, "expected 1 to 1000 visible jobs"),
        (np.zeros(SHAPE), {FORMAT: "01000999"}, "expected 1 to 1000 visible jobs"),
    ],
)
def test_a_file_without_a_rule(
    weights: np.ndarray, said: dict[str, str], message: str, tmp_path: Path
) -> None:
    """A file of another kind is an error of one line with its path."""
    file = tmp_path / "agent.safetensors"
    save_file({"weights": weights}, file, said)
    with pytest.raises(PolicyError, match=message):
        load_batch(file)
    file.write_bytes(b"{}")
    with pytest.raises(PolicyError, match=r"agent\.safetensors: cannot be read as a batch agent"):
        load_batch(file)
    with pytest.raises(PolicyError, match="there is no such file"):
        load_batch(tmp_path / "none.safetensors")


@pytest.mark.slow
def test_a_search_is_reproduced(busy: Path, tmp_path: Path) -> None:
    """Seed, settings and scenarios determine the bytes, with any number of workers."""
    trained = train_batch(busy, tmp_path / "first", QUICK).read_bytes()
    workers = dataclasses.replace(QUICK, executor=Local(workers=2))
    assert train_batch(busy, tmp_path / "workers", workers).read_bytes() == trained
    other = dataclasses.replace(QUICK, seed=1)
    assert train_batch(busy, tmp_path / "other", other).read_bytes() != trained
    more = tmp_path / "more.yaml"
    more.write_text(SCENARIO.replace("seed: 3", "seed: 4"))
    assert train_batch(busy, tmp_path / "both", QUICK, also=[more]).read_bytes() != trained


def test_the_command_searches(busy: Path, tmp_path: Path) -> None:
    """`hpcosim train` writes an agent and the curve of a recipe, and says where."""
    recipe = write_recipe(
        tmp_path,
        "batch",
        busy,
        environment={"episode_jobs": 40, "window_jobs": 16},
        algorithm={"candidates": 7},
        budget={"generations": 1, "episodes": 1},
    )
    out = tmp_path / "out"
    done = invoke("train", recipe, "--out", out)
    assert done.status == 0, done.err
    assert done.out.splitlines()[-1] == f"network: {out / 'agent.safetensors'}"
    assert load_batch(out / "agent.safetensors").window_jobs == 16
    curve = (out / "seed-0" / "curve.csv").read_text()
    assert curve.splitlines()[0] == "number,mean,best,median,seconds"


def test_settings_out_of_range_and_an_idle_workload(busy: Path, tmp_path: Path) -> None:
    """A window longer than the workload and no decisions are errors."""
    with pytest.raises(ValueError, match="episode_jobs: expected an integer from 1 to 200"):
        train_batch(busy, tmp_path / "a", dataclasses.replace(QUICK, episode_jobs=300))
    with pytest.raises(PolicyError, match="expected a workload with a higher load"):
        train_batch(
            busy, tmp_path / "b", QUICK, overrides={"workload.synthetic.mean_interarrival_s": 1e6}
        )
