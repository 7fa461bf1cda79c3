"""The learned power manager's networks, their files, and their training. They need torch."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcosim_client import PolicyError
from hpcosim_client.power.manager import managed
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_server.record.metrics import measure
from hpcosim_training.power.environment import PowerEnvironment, Task
from hpcosim_workloads.table import JobTable
from support.learned_power import drawn, new_scheduler, nodes_of, task_of
from support.simulating import jobs_of, simulate

WHY = "the extra rl is not installed: pip install 'hpcosim[rl]'"
torch: Any = pytest.importorskip("torch", reason=WHY)
safetensors: Any = pytest.importorskip("safetensors.torch", reason=WHY)

from hpcosim_client.agents.node_power import network as nets  # noqa: E402
from hpcosim_client.agents.node_power.manager import learned  # noqa: E402
from hpcosim_training.power import learner  # noqa: E402
from hpcosim_training.power.a2c import A2C, A2CSettings, discounted  # noqa: E402
from hpcosim_training.power.curriculum import Dataset, Epoch, train  # noqa: E402
from hpcosim_training.power.ppo import PPO, PPOSettings, generalised  # noqa: E402
from hpcosim_training.power.train import Training, datasets, train_power  # noqa: E402

TINY = nets.Shape(embedding=16, heads=4, layers=2)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Let torch add up in one order."""
    torch.set_num_threads(1)


def generator(seed: int = 0) -> Any:
    """Return a source of chance."""
    return torch.Generator().manual_seed(seed)


def some_jobs(count: int = 40) -> JobTable:
    """Return the same jobs every time."""
    return drawn(np.random.default_rng(1), count)


# Networks


@pytest.mark.parametrize("nodes", [1, 2, 128, 300])
def test_a_network_takes_any_number_of_nodes(nodes: int) -> None:
    """Two logits for each node, and one value for all of them."""
    seen = torch.rand((3, nodes, 11), generator=generator())
    assert nets.new_actor(nets.Shape(), generator())(seen).shape == (3, nodes, 2)
    assert nets.new_critic(nets.Shape(), generator())(seen).shape == (3,)


def test_nodes_may_change_places() -> None:
    """When nodes are numbered anew so are their logits, and the value stays."""
    seen = torch.rand((1, 17, 11), generator=generator())
    order = torch.randperm(17, generator=generator())
    actor = nets.new_actor(nets.Shape(), generator(1))
    critic = nets.new_critic(nets.Shape(), generator(1))
    with torch.no_grad():
        assert torch.allclose(actor(seen)[:, order], actor(seen[:, order]), atol=1e-5)
        assert torch.allclose(critic(seen), critic(seen[:, order]), atol=1e-5)


def test_a_node_sees_the_others() -> None:
    """What one node is like changes what is said of another."""
    seen = torch.rand((1, 5, 11), generator=generator())
    other = seen.clone()
    other[0, 4] = 0.0
    actor = nets.new_actor(nets.Shape(), generator(1))
    assert not torch.allclose(actor(seen)[0, 0], actor(other)[0, 0])


def test_the_best_of_what_may_be_asked() -> None:
    """The larger logit decides, but never for what is masked."""
    actor = nets.new_actor(TINY, generator(2))
    seen = np.random.default_rng(0).random((6, 11), dtype=np.float32)
    with torch.no_grad():
        logits = actor(torch.from_numpy(seen)[None])[0].numpy()
    free = np.ones((6, 2), dtype=np.bool_)
    assert nets.best_actions(actor, seen, free).tolist() == logits.argmax(axis=1).tolist()
    free[:3, 0] = free[3:, 1] = False
    assert nets.best_actions(actor, seen, free).tolist() == [1, 1, 1, 0, 0, 0]


# Files


def save_tiny(path: Path, **about: Any) -> Path:
    """Write an untrained actor."""
    actor = nets.new_actor(TINY, generator(3))
    nets.save_actor(path, actor, nets.About(shape=TINY, **about))
    return path


def test_an_actor_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Weights and what is said of them; the papers' network takes less than 2 MB."""
    path = tmp_path / "actor.safetensors"
    actor = nets.new_actor(nets.Shape(), generator(3))
    about = nets.About(interval_s=900.0, origin_s=None, training={"seed": 3})
    nets.save_actor(path, actor, about)
    again, said = nets.load_actor(path)
    assert said == about
    assert path.stat().st_size < 2e6
    for name, tensor in actor.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])
    copy = tmp_path / "copy.safetensors"
    nets.save_actor(copy, again, said)
    assert copy.read_bytes() == path.read_bytes()


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, str]], None]) -> None:
    """Write a tiny actor's file with its weights and its texts changed."""
    save_tiny(path)
    weights = safetensors.load_file(path)
    with safetensors.safe_open(path, framework="pt") as file:
        said = file.metadata()
    change(weights, said)
    safetensors.save_file(weights, path, said)


def set_about(**changes: Any) -> Callable[[dict[str, Any], dict[str, str]], None]:
    """Return what changes the text that says what is in the file."""

    def change(_: dict[str, Any], said: dict[str, str]) -> None:
        said[nets.FORMAT] = json.dumps(json.loads(said[nets.FORMAT]) | changes)

    return change


BAD_FILES: dict[str, tuple[Any, str]] = {
    "no format": (lambda _, said: said.clear(), "should say 'hpcosim node attention 1'"),
    "another format": (lambda _, said: said.update(x=said.pop(nets.FORMAT)), "not x"),
    "no text": (lambda _, said: said.update({nets.FORMAT: ""}), "does not say what is in it"),
    "a bad text": (set_about(scales="one"), "does not say what is in it"),
    "other scales": (set_about(scales=0), "of scales 0; these are of 1: train it anew"),
    "other features": (set_about(shape=[12, 16, 4, 2]), "takes 12 features of a node; it gets 11"),
    "a calendar": (set_about(origin_s=0.0), "takes 11 features of a node; it gets 15"),
    "bad heads": (set_about(shape=[11, 16, 3, 2]), "heads must divide the embedding"),
    "huge": (set_about(shape=[11, 2**40, 8, 2]), "4096 at most"),
    "a wrong shape": (
        set_about(shape=[11, 32, 4, 2]),
        "weights encoder.0.bias should be of shape (32,), not (16,)",
    ),
    "missing weights": (
        lambda weights, _: weights.pop("head.0.bias"),
        "weights head.0.bias should be of shape (64,), not none",
    ),
    "other weights": (
        lambda weights, _: weights.update(more=torch.zeros(2)),
        "weights more should be of shape none, not (2,)",
    ),
    "not a number": (
        lambda weights, _: weights["head.0.bias"].fill_(float("nan")),
        "weights head.0.bias should be finite numbers of float32",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_named_with_what_would_be_right(case: str, tmp_path: Path) -> None:
    """Whatever is wrong in it, it is a policy's error that says the file."""
    change, expected = BAD_FILES[case]
    path = tmp_path / "bad.safetensors"
    rewritten(path, change)
    with pytest.raises(PolicyError, match=re.escape(expected)) as caught:
        learned(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [None, b"", b"\x00" * 8, b"weights"])
def test_what_is_no_such_file_at_all_is_an_error(content: bytes | None, tmp_path: Path) -> None:
    """Neither there nor safetensors."""
    path = tmp_path / "bad.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PolicyError, match="can't be read as a trained network"):
        learned(path)


# The manager


@pytest.mark.parametrize("origin_s", [None, 3600.0])
def test_the_manager_does_what_the_network_says(origin_s: float | None, tmp_path: Path) -> None:
    """Its run is that of the environment in which the best actions are taken."""
    shape = TINY._replace(features=11 if origin_s is None else 15)
    actor = nets.new_actor(shape, generator(8))
    path = tmp_path / "actor.safetensors"
    nets.save_actor(path, actor, nets.About(shape=shape, interval_s=20.0, origin_s=origin_s))
    jobs, platform = some_jobs(), nodes_of(5)
    env = PowerEnvironment(task_of(platform, origin_s=origin_s), jobs)
    (seen, mask), done = env.reset(), False
    while not done:
        seen, mask, _, done = env.step(nets.best_actions(actor, seen, mask))
    simulation = simulate(platform, jobs, managed(new_scheduler(), learned(path, 20.0)))
    metrics = measure(simulation.record())
    assert metrics == measure(env.simulation.record())
    assert metrics["jobs_completed"] == len(jobs)


# Training


def test_probabilities_by_hand() -> None:
    """The log-probability and the entropy of a choice are those of two logits' softmax."""
    logits = torch.tensor([[[1.0, 2.5], [0.3, -4.0]]])
    log_p = torch.log_softmax(logits, dim=-1)
    actions = torch.tensor([[1, 0]])
    expected = log_p.gather(2, actions[..., None])[..., 0]
    assert torch.allclose(learner.log_probabilities(logits, actions), expected, atol=1e-6)
    entropy = -(log_p * log_p.exp()).sum(dim=-1)
    assert torch.allclose(learner.entropies(logits), entropy, atol=1e-6)


def test_actions_are_drawn_only_where_there_is_a_choice() -> None:
    """As often as the network says; a masked action never."""
    logits = torch.zeros((20_000, 3, 2))
    logits[:, 0, 1] = 1.0
    mask = np.ones((20_000, 3, 2), dtype=np.bool_)
    mask[:, 1, 0] = mask[:, 2, 1] = False
    drawn_on = learner.sample(logits, mask, generator()).double().mean(dim=0).tolist()
    assert drawn_on[0] == pytest.approx(1 / (1 + np.exp(-1)), abs=0.02)
    assert drawn_on[1:] == [1.0, 0.0]


def test_returns_by_hand() -> None:
    """Bootstrapped where a run goes on, ended where it does not."""
    rewards = [np.array([-1.0, -1.0]), np.array([-2.0, 0.0])]
    goes_on = [np.array([1.0, 0.0]), np.array([1.0, 0.0])]
    last = np.array([-10.0, 0.0])
    assert discounted(rewards, goes_on, last, 0.5).tolist() == [[-4.5, -1.0], [-7.0, 0.0]]


def test_generalised_advantages_by_hand() -> None:
    """With lambda 1 they are the returns less the values; with 0, one step's surprise."""
    rewards = [np.array([-1.0, -1.0]), np.array([-2.0, 0.0])]
    goes_on = [np.array([1.0, 0.0]), np.array([1.0, 0.0])]
    values = [np.array([-3.0, -1.5]), np.array([-5.0, 0.0]), np.array([-10.0, 0.0])]
    returns = discounted(rewards, goes_on, values[2], 0.5)
    whole = generalised(rewards, goes_on, values, 0.5, 1.0)
    assert np.allclose(whole, returns - np.array(values[:2]))
    one = generalised(rewards, goes_on, values, 0.5, 0.0)
    assert np.allclose(one, [[-1 - 2.5 + 3, -1 + 1.5], [-2 - 5 + 5, 0.0]])


def tiny_learner(algorithm: str, task: Task, seed: int = 0, **changes: Any) -> learner.Learner:
    """Return a learner with small networks."""
    if algorithm == "a2c":
        settings = A2CSettings(runs=3, transitions=12)
        return A2C(task, replace(settings, **changes), seed, TINY)
    steps = PPOSettings(runs=3, steps=5, passes=2, minibatch=8)
    return PPO(task, replace(steps, **changes), seed, TINY)


@pytest.mark.parametrize("algorithm", ["a2c", "ppo"])
def test_the_same_seed_trains_the_same_bytes(algorithm: str, tmp_path: Path) -> None:
    """And another seed others; nobody else's chance is touched, nor of account."""
    written = []
    for at, seed in enumerate([0, 0, 1]):
        torch.manual_seed(at)
        before = torch.random.get_rng_state()
        someone = tiny_learner(algorithm, task_of(nodes_of(5)), seed)
        train(someone, [Dataset("real", some_jobs())], 1, tmp_path / str(at))
        written.append((tmp_path / str(at) / "actor.safetensors").read_bytes())
        assert torch.equal(torch.random.get_rng_state(), before)
    assert written[0] == written[1] != written[2]


@pytest.mark.parametrize("algorithm", ["a2c", "ppo"])
def test_training_learns_to_switch_off_what_nobody_needs(algorithm: str) -> None:
    """With one job at a time on six nodes, the others learn to sleep."""
    jobs = jobs_of((0.0, 600.0, 1), (650.0, 10.0, 1))
    someone = tiny_learner(algorithm, task_of(nodes_of(6)), learning_rate=3e-3, runs=1)
    first = someone.epoch(jobs)
    for _ in range(15):
        last = someone.epoch(jobs)
    assert last.wasted_j < 0.6 * first.wasted_j


def test_a_curriculum_leaves_a_curve_and_an_actor_of_each_epoch(tmp_path: Path) -> None:
    """Each workload so often, in order; the last actor is the one to use."""
    someone, told = tiny_learner("a2c", task_of(nodes_of(5))), list[Epoch]()
    curriculum = [Dataset("sampled", some_jobs(20)), Dataset("real", some_jobs(10))]
    path = train(someone, curriculum, 2, tmp_path / "out", told.append)
    with (path.parent / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["epoch"], row["dataset"]) for row in rows] == [
        ("1", "sampled"),
        ("2", "sampled"),
        ("3", "real"),
        ("4", "real"),
    ]
    assert [float(row["mean_reward"]) for row in rows] == [epoch.totals.reward for epoch in told]
    assert path.read_bytes() == (path.parent / "epoch-004-real.safetensors").read_bytes()
    assert nets.load_actor(path)[1].training["algorithm"] == "A2C"


SCENARIO = """
name: small
platform:
  nodes:
    - count: 4
      processors: [{cores: 1, static_w: 100, dynamic_w: 0}]
      power_states: {sleep_w: 5, switch_on_s: 60, switch_on_w: 100, switch_off_s: 30,
                     switch_off_w: 5}
workload:
  synthetic: {model: poisson, jobs: 30, mean_interarrival_s: 25000, cores: [1, 4]}
scheduler: {name: easy, power_awareness: aware}
"""


def test_training_on_a_scenario(tmp_path: Path) -> None:
    """From the file to an actor that runs beside the scenario's scheduler."""
    (tmp_path / "small.yaml").write_text(SCENARIO)
    training = Training(
        curriculum=("sampled", "real"), epochs=1, interval_s=5000.0, calendar=True, seed=4
    )
    path = train_power(tmp_path / "small.yaml", tmp_path / "out", training)
    about = nets.load_actor(path)[1]
    assert (about.interval_s, about.origin_s, about.training["seed"]) == (5000.0, 0.0, 4)


def test_training_needs_nodes_to_switch(tmp_path: Path) -> None:
    """Without power states there is nothing to learn, and a name nobody knows is refused."""
    always_on = re.sub(r"      power_states: \{.*?\}\n", "", SCENARIO, flags=re.DOTALL)
    (tmp_path / "on.yaml").write_text(always_on)
    with pytest.raises(ScenarioError, match="no nodes with power_states"):
        train_power(tmp_path / "on.yaml", tmp_path / "out", Training())
    with pytest.raises(ScenarioError, match="no dataset 'reel'"):
        datasets(some_jobs(), ["reel"], 0)


def test_a_dataset_is_the_same_wherever_it_stands() -> None:
    """Curricula differ in their order alone."""
    first, second = (
        {
            dataset.name: dataset.jobs.submit_s.tolist()
            for dataset in datasets(some_jobs(), names, 7)
        }
        for names in (["sampled", "real"], ["real", "sampled"])
    )
    assert first == second
