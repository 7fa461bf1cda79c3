"""Training power managers: the learned manager, its learner, curricula, whole trainings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="the extra rl is not installed")

from hpcosim_gym.learning.curve import Iteration, read_curve  # noqa: E402
from hpcosim_gym.learning.networks import arrays_of  # noqa: E402
from hpcosim_papers.power import agent as nets  # noqa: E402
from hpcosim_papers.power.agent import learned  # noqa: E402
from hpcosim_papers.power.environments.node_power import NodePowerEnv  # noqa: E402
from hpcosim_papers.power.environments.power_task import PowerTask  # noqa: E402
from hpcosim_papers.power.learners.train import (  # noqa: E402  # noqa: E402  # noqa: E402  # noqa: E402
    A2C,
    ALGORITHMS,
    CurriculumWorkload,
    NodePowerActor,
    PowerLearner,
    PowerTraining,
    new_network,
    split_by_time,
    train,
    train_power,
    workloads,
)
from hpcosim_scenarios.errors import ScenarioError  # noqa: E402
from hpcosim_schedulers.power.manager import managed  # noqa: E402
from hpcosim_sim.record.metrics import measure  # noqa: E402
from hpcosim_workloads.table import JobTable  # noqa: E402
from support.interrupted import StoppedError, stop_at  # noqa: E402
from support.learned_power import drawn, new_scheduler, task_of  # noqa: E402
from support.power_manager_runs import nodes_of  # noqa: E402
from support.simulating import jobs_of, simulate  # noqa: E402

TINY = nets.Shape(embedding=16, heads=4, layers=2)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Make floating-point sums of torch deterministic."""
    torch.set_num_threads(1)


def some_jobs(count: int = 40) -> JobTable:
    """Return a fixed workload."""
    return drawn(np.random.default_rng(1), count)


# The manager


@pytest.mark.parametrize("origin_s", [None, 3600.0])
def test_the_manager_does_what_the_network_says(origin_s: float | None, tmp_path: Path) -> None:
    """A run of the learned manager equals that of the environment with its greedy actions."""
    shape = TINY._replace(features=11 if origin_s is None else 15)
    actor = new_network(NodePowerActor, shape, torch.Generator().manual_seed(8))
    weights = arrays_of(actor.state_dict())
    path = tmp_path / "actor.safetensors"
    nets.save_actor(
        path, weights, nets.NodePowerMetadata(shape=shape, interval_s=20.0, origin_s=origin_s)
    )
    jobs, platform = some_jobs(), nodes_of(5)
    env = NodePowerEnv(task=task_of(platform, origin_s=origin_s), jobs=jobs)
    env.reset()
    while not env.done:
        logits = nets.logits_of(shape, weights, env.observation)
        env.step(nets.best_actions(logits, env.allowed))
    simulation = simulate(platform, jobs, managed(new_scheduler(), learned(path, 20.0)))
    metrics = measure(simulation.record())
    assert metrics == measure(env.simulation.record())
    assert metrics["jobs_completed"] == len(jobs)


# Training


def tiny_learner(
    algorithm: str, task: PowerTask, curriculum: list[CurriculumWorkload], **changes: Any
) -> PowerLearner:
    """Return a learner with small networks."""
    small: dict[str, Any] = {"runs": 3, "steps": 4, "iterations": 1}
    if algorithm == "ppo":
        small |= {"steps": 5, "epochs": 2, "minibatch": 8}
    return PowerLearner(task, curriculum, replace(ALGORITHMS[algorithm], **small | changes), TINY)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["a2c", "ppo"])
def test_the_same_seed_trains_the_same_bytes(algorithm: str, tmp_path: Path) -> None:
    """The same seed writes the same bytes, and the global random state does not change."""
    written = []
    for at, seed in enumerate([0, 0, 1]):
        torch.manual_seed(at)
        before = torch.random.get_rng_state()
        curriculum = [CurriculumWorkload("real", some_jobs())]
        learner = tiny_learner(algorithm, task_of(nodes_of(5)), curriculum, seed=seed)
        written.append(train(learner, tmp_path / str(at)).read_bytes())
        assert torch.equal(torch.random.get_rng_state(), before)
    assert written[0] == written[1] != written[2]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["a2c", "ppo"])
def test_training_learns_to_switch_off_what_nobody_needs(algorithm: str) -> None:
    """With one job at a time on six nodes, training learns to switch the other nodes off."""
    curriculum = [CurriculumWorkload("real", jobs_of((0.0, 600.0, 1), (650.0, 10.0, 1)))]
    how = {"learning_rate": 3e-3, "runs": 1, "steps": 12, "iterations": 16}
    learner = tiny_learner(algorithm, task_of(nodes_of(6)), curriculum, **how)
    wasted_j = [learner.iterate(done, 1.0).measures["wasted_j"] for done in range(16)]
    assert wasted_j[-1] < 0.6 * wasted_j[0]


def test_a_curriculum_leaves_a_curve_and_an_actor_of_each_iteration(tmp_path: Path) -> None:
    """A training writes a learning curve, an actor for each iteration, and the final actor."""
    done_iterations = list[Iteration]()
    curriculum = [
        CurriculumWorkload("sampled", some_jobs(20)),
        CurriculumWorkload("real", some_jobs(10)),
    ]
    learner = tiny_learner("a2c", task_of(nodes_of(5)), curriculum, iterations=2)
    path = train(learner, tmp_path / "out", on_iteration=done_iterations.append)
    curve = read_curve(path.parent)
    assert [(done.iteration, done.phase) for done in curve] == [
        (1, "sampled"),
        (2, "sampled"),
        (3, "real"),
        (4, "real"),
    ]
    assert [done.measures for done in curve] == [done.measures for done in done_iterations]
    assert path.read_bytes() == (path.parent / "iteration-004-real.safetensors").read_bytes()
    assert nets.load_actor(path)[1].training["algorithm"] == "a2c"


def test_a_training_resumes_where_it_was(tmp_path: Path) -> None:
    """A training that is interrupted and resumed in its curriculum writes the same bytes."""

    def new() -> PowerLearner:
        curriculum = [
            CurriculumWorkload("sampled", some_jobs(20)),
            CurriculumWorkload("real", some_jobs(10)),
        ]
        return tiny_learner("a2c", task_of(nodes_of(5)), curriculum, iterations=2)

    whole = train(new(), tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(new(), tmp_path / "parts", on_iteration=stop_at(3))
    parts = train(new(), tmp_path / "parts", resume=True)
    assert parts.read_bytes() == whole.read_bytes()


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
    """A scenario file is trained to an actor with its metadata."""
    (tmp_path / "small.yaml").write_text(SCENARIO)
    training = replace(
        A2C, curriculum=("sampled", "real"), iterations=1, interval_s=5000.0, calendar=True, seed=4
    )
    path = train_power(tmp_path / "small.yaml", tmp_path / "out", training)
    about = nets.load_actor(path)[1]
    assert (about.interval_s, about.origin_s, about.training["seed"]) == (5000.0, 0.0, 4)


def test_training_needs_nodes_to_switch(tmp_path: Path) -> None:
    """A platform without power states and an unknown workload name are errors."""
    always_on = re.sub(r"      power_states: \{.*?\}\n", "", SCENARIO, flags=re.DOTALL)
    (tmp_path / "on.yaml").write_text(always_on)
    with pytest.raises(ScenarioError, match="no node group has power_states"):
        train_power(tmp_path / "on.yaml", tmp_path / "out", PowerTraining())
    with pytest.raises(ScenarioError, match="got 'reel'"):
        workloads(some_jobs(), ["reel"], 0)


def test_a_dataset_is_the_same_wherever_it_stands() -> None:
    """A generated workload is independent of its position in the curriculum."""
    first, second = (
        {
            workload.name: workload.jobs.submit_s.tolist()
            for workload in workloads(some_jobs(), names, 7)
        }
        for names in (["sampled", "real"], ["real", "sampled"])
    )
    assert first == second


def test_a_workload_is_split_into_parts_of_equal_duration() -> None:
    """Each job is in one part; parts without jobs are left out."""
    jobs = jobs_of((0.0, 1.0, 1), (1.0, 1.0, 1), (25.0, 1.0, 1), (99.0, 1.0, 1), (100.0, 1.0, 1))
    assert [part.job_id.tolist() for part in split_by_time(jobs, 4)] == [[1, 2], [3], [4, 5]]
