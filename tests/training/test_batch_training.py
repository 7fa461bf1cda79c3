"""Training batch agents: episodes beside a teacher, whole trainings, the policy of a file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra rl is not installed")

from typer.testing import CliRunner

from hpcosim_cli.train import app as train_app
from hpcosim_client import PolicyError, make_policy
from hpcosim_client.agents.batch.model import BatchMetadata, actor_of, load_batch, save_batch
from hpcosim_client.agents.row_networks import best, initialise
from hpcosim_executors import Local
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.run import simulate
from hpcosim_training.environments.batch_scheduling import BatchSchedulingEnv
from hpcosim_training.environments.batch_task import task_of
from hpcosim_training.learners.batch.episodes import EpisodeSource, ratio
from hpcosim_training.learners.batch.settings import BatchTraining
from hpcosim_training.learners.batch.train import train_batch
from hpcosim_training.learners.choices import play_greedy
from support.interrupted import StoppedError, stop_at

torch = pytest.importorskip("torch", reason="the extra rl is not installed")

SCENARIO = """
name: busy
seed: 3
platform: {nodes: [{count: 6, processors: [{cores: 4, static_w: 0, dynamic_w: 0}]}]}
workload:
  synthetic: {model: poisson, jobs: 200, mean_interarrival_s: 30, cores: [1, 20], run_s: [1, 900],
              overestimate: 5}
scheduler: {name: easy}
"""
QUICK = BatchTraining(
    iterations=2,
    episodes=2,
    episode_jobs=40,
    epochs=1,
    cloning_epochs=1,
    validation_windows=2,
    validate_every=1,
    width=8,
)


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    """Return the path of a scenario in which jobs wait."""
    path = tmp_path / "busy.yaml"
    path.write_text(SCENARIO)
    return path


def source_of(path: Path, training: BatchTraining) -> EpisodeSource:
    """Return the episodes of a training on a scenario."""
    library = Library([path])
    task = task_of({"reward": training.objective}, library.first)
    return EpisodeSource(task, library.first_jobs, training)


@pytest.mark.parametrize("objective", ["wait", "bounded_slowdown"])
def test_rewards_are_relative_to_the_teacher(busy: Path, objective: str) -> None:
    """The teacher itself has the return 0; another rule, 1 - its cost / the teacher's cost."""
    source = source_of(busy, dataclasses.replace(QUICK, objective=objective))  # type: ignore[arg-type]
    env = source.window(20, load=1.2)
    assert env is not None
    for choose, same in ((source.teach, True), (lambda _: 0, False)):
        env.reset()
        rewards = []
        while not env.done:
            rewards.append(env.choose(choose(env)))
        plain = BatchSchedulingEnv(task=source.task, jobs=env._jobs)
        plain.reset()
        while not plain.done:
            plain.choose(choose(plain))
        assert np.allclose(rewards, 0.0) == same
        assert ratio(env) == pytest.approx(1.0 - sum(rewards))
        assert ratio(env) == pytest.approx(plain.cost / env.task.reward_scale)


def test_the_policy_of_a_file_is_its_network_in_the_environment(busy: Path) -> None:
    """`batch:FILE` gives the schedule of greedy choices in the environment."""
    actor = actor_of(BatchMetadata())
    initialise(actor, torch.Generator().manual_seed(1))
    file = busy.parent / "actor.safetensors"
    save_batch(file, actor, BatchMetadata())
    assert load_batch(file)[1] == BatchMetadata()
    env = BatchSchedulingEnv(str(busy))
    play_greedy(actor, [env])
    metrics = simulate(busy, make_policy(f"batch:{file}"))
    assert metrics["mean_bounded_slowdown"] == env.cost
    assert simulate(busy, make_policy(f"batch-sampled:{file}")) != metrics


def test_a_file_of_other_columns_is_rejected(tmp_path: Path) -> None:
    """A network with other columns is an error that says to train it again."""
    file = tmp_path / "old.safetensors"
    save_batch(file, actor_of(BatchMetadata()), BatchMetadata(columns=("wait",)))
    with pytest.raises(PolicyError, match=r"old\.safetensors: expected the columns .*train it"):
        load_batch(file)


def test_a_network_takes_any_cluster(busy: Path) -> None:
    """The greedy choice of a row does not depend on padding, as `best` of its logits."""
    source = source_of(busy, QUICK)
    env = source.draw(np.random.default_rng(0))
    env.reset()
    actor = actor_of(BatchMetadata(width=8))
    initialise(actor, torch.Generator().manual_seed(1))
    rows = torch.from_numpy(env.choices.rows)[None]
    padded = torch.nn.functional.pad(rows, (0, 0, 0, 3))
    there = torch.ones(padded.shape[:2], dtype=torch.bool)
    there[:, -3:] = False
    with torch.inference_mode():
        alone = actor(rows, torch.ones(rows.shape[:2], dtype=torch.bool))[0].numpy()
        among = actor(padded, there)[0, :-3].numpy()
    assert best(alone) == best(among)


@pytest.mark.slow
def test_a_training_is_reproduced_and_resumed(busy: Path, tmp_path: Path) -> None:
    """Seed and settings determine the bytes, with any number of workers and interruptions."""
    trained = train_batch(busy, tmp_path / "whole", QUICK).read_bytes()
    workers = dataclasses.replace(QUICK, executor=Local(workers=2))
    assert train_batch(busy, tmp_path / "workers", workers).read_bytes() == trained
    with pytest.raises(StoppedError):
        train_batch(busy, tmp_path / "parts", QUICK, on_iteration=stop_at(1))
    assert train_batch(busy, tmp_path / "parts", QUICK, resume=True).read_bytes() == trained
    other = dataclasses.replace(QUICK, seed=1)
    assert train_batch(busy, tmp_path / "other", other).read_bytes() != trained


@pytest.mark.slow
def test_the_command_trains(busy: Path, tmp_path: Path) -> None:
    """`hpcosim train batch` writes a network and says where."""
    options = "--iterations 1 --episodes 2 --jobs 40 --validation-windows 2 --window-jobs 16"
    out = tmp_path / "out"
    done = CliRunner().invoke(train_app, ["batch", str(busy), "--out", str(out), *options.split()])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == f"network: {out / 'actor.safetensors'}"
    assert load_batch(out / "actor.safetensors")[1].window_jobs == 16


def test_a_workload_that_is_too_short(busy: Path, tmp_path: Path) -> None:
    """An episode longer than the workload is an error."""
    training = dataclasses.replace(QUICK, episode_jobs=300)
    with pytest.raises(ValueError, match="an episode has 300 jobs, the workload 200"):
        train_batch(busy, tmp_path / "out", training)
