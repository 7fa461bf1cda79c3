"""Training pairing agents: environment, teachers, whole trainings."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra rl is not installed")

from hpcosim_experiments.executors import Local
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import PairingTask, default_reward
from hpcosim_papers.ineps.learners.networks import PaperActor, load_actor
from hpcosim_papers.ineps.learners.settings import FORESEEING, PAPERS
from hpcosim_papers.ineps.learners.train import train_pairing
from hpcosim_protocol import NodeGroup, Platform, Processor
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers.agents.networks import CHECKPOINT
from support.commands import invoke
from support.interrupted import StoppedError, stop_at
from support.paths import SCENARIOS
from support.recipes import write_recipe
from support.simulating import cluster_of, jobs_of

EXPERIMENT_1 = SCENARIOS / "papers" / "ineps" / "exp1.yaml"
EXPERIMENT_2 = SCENARIOS / "papers" / "ineps" / "exp2.yaml"
QUICK = dataclasses.replace(FORESEEING, iterations=2, episodes=2, epochs=1, cloning_epochs=1)


def environment_of(path: Path, pairing: Pairing) -> JobNodePairingEnv:
    """Return the environment of a scenario's platform and jobs."""
    library = Library([path])
    task = PairingTask(library.first.platform, pairing, default_reward(pairing.sees))
    return JobNodePairingEnv(task=task, jobs=library.first_jobs)


def test_waiting_ends_by_its_bound() -> None:
    """An agent that always waits still runs all jobs, because of `most_wait_s`."""
    environment = environment_of(EXPERIMENT_1, Pairing(wait_s=0.5, most_wait_s=2.0))
    environment.reset()
    while not environment.done:
        environment.choose(len(environment.choices.rows) - 1)
    starts_s = environment.simulation.recording.start_s
    assert len(starts_s) == 6
    assert max(starts_s) < 200.0


def test_one_placement_an_event() -> None:
    """With `placements_per_event: one`, no two jobs start at the same time."""
    environment = environment_of(
        EXPERIMENT_2, Pairing(sees="papers", placements_per_event="one", wait=False)
    )
    environment.reset()
    while not environment.done:
        environment.choose(0)
    starts_s = environment.simulation.recording.start_s
    assert len(set(starts_s)) == len(starts_s)


@pytest.mark.parametrize("sees", ["papers", "foreseen"])
def test_without_a_feasible_pair_there_is_no_decision(sees: str) -> None:
    """The next decision is at the next instant at which a job fits."""
    pairing = Pairing(sees=sees, wait=False)  # type: ignore[arg-type]
    task = PairingTask(cluster_of(1, 2, static_w=5.0, dynamic_w=1.0), pairing, "spent")
    environment = JobNodePairingEnv(task=task, jobs=jobs_of((0, 10, 2), (1, 10, 2), (2, 10, 2)))
    environment.reset()
    decided_s = []
    while not environment.done:
        decided_s.append(environment.simulation.now_s)
        assert len(environment.choices.rows) >= 1
        environment.choose(0)
    assert decided_s == [0.0, 10.0, 20.0]


@pytest.mark.parametrize("sees", ["papers", "foreseen"])
def test_a_pair_above_the_jobs_most_energy_is_not_offered(sees: str) -> None:
    """A pair whose energy estimate exceeds the job's `max_energy_j` is masked.

    With max_energy_j = 100 J the job waits for the node with 10 s x (5 W + 2 x 1 W) = 70 J; the
    other node would take 520 J.
    """
    processors = [Processor(2, 1.0, static_w, 1.0, 0.5) for static_w in (5.0, 50.0)]
    platform = Platform(tuple(NodeGroup(1, (processor,)) for processor in processors))
    pairing = Pairing(sees=sees, wait=False)  # type: ignore[arg-type]
    jobs = dataclasses.replace(
        jobs_of((0, 10, 2), (1, 10, 2)), max_energy_j=np.array([100.0, 100.0])
    )
    environment = JobNodePairingEnv(task=PairingTask(platform, pairing, "spent"), jobs=jobs)
    environment.reset()
    offered = []
    while not environment.done:
        choices = environment.choices
        pairs = [choices.pair(choice) for choice in range(len(choices.rows))]
        offered.append((environment.simulation.now_s, [pair and pair[1] for pair in pairs]))
        environment.choose(0)
    assert offered == [(0.0, [0]), (10.0, [0])]


@pytest.mark.slow
def test_same_seed_same_weights(tmp_path: Path) -> None:
    """The same seed writes the same bytes with one or two workers; another seed writes others."""
    trained = train_pairing(EXPERIMENT_1, tmp_path / "first", QUICK)
    again = train_pairing(
        EXPERIMENT_1, tmp_path / "a", dataclasses.replace(QUICK, executor=Local(workers=2))
    )
    other = train_pairing(EXPERIMENT_1, tmp_path / "b", dataclasses.replace(QUICK, seed=1))
    assert again.read_bytes() == trained.read_bytes()
    assert other.read_bytes() != trained.read_bytes()


@pytest.mark.slow
def test_same_seed_same_weights_if_batches_are_large(tmp_path: Path) -> None:
    """The weights do not depend on how many episodes there are for each worker."""
    training = dataclasses.replace(QUICK, iterations=1, episodes=6)
    one, two = (
        train_pairing(
            EXPERIMENT_1,
            tmp_path / str(workers),
            dataclasses.replace(training, executor=Local(workers=workers)),
        ).read_bytes()
        for workers in (0, 2)
    )
    assert one == two


@pytest.mark.slow
def test_a_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """An interrupted and resumed training writes the same bytes."""
    training = dataclasses.replace(QUICK, iterations=4)
    whole = train_pairing(EXPERIMENT_1, tmp_path / "whole", training)

    with pytest.raises(StoppedError):
        train_pairing(EXPERIMENT_1, tmp_path / "parts", training, on_iteration=stop_at(2))
    parts = train_pairing(EXPERIMENT_1, tmp_path / "parts", training, resume=True)
    assert parts.read_bytes() == whole.read_bytes()


@pytest.mark.slow
def test_the_papers_form_trains(tmp_path: Path) -> None:
    """The papers' networks train with the papers' settings."""
    training = dataclasses.replace(
        PAPERS,
        pairing=Pairing(sees="papers", placements_per_event="one", wait=False),
        reward="spent",
        iterations=4,
        episodes=2,
        epochs=2,
        validate_every=0,
    )
    actor, about = load_actor(train_pairing(EXPERIMENT_1, tmp_path, training))
    assert isinstance(actor, PaperActor)
    assert about.pairing.placements_per_event == "one"


def test_training_without_power_data_is_an_error(tmp_path: Path) -> None:
    """`train pairing` reports a platform without power in one line and writes nothing."""
    dark = tmp_path / "dark.yaml"
    dark.write_text(re.sub(r"(static_w|dynamic_w): [\d.]+", r"\1: 0", EXPERIMENT_1.read_text()))
    recipe, out = write_recipe(tmp_path, "pairing", dark), tmp_path / "out"
    assert "no energy to save" in invoke("train", recipe, "--out", out).error
    assert not any(path.is_file() for path in out.rglob("*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "holds the checkpoint of a training; --resume continues it, --force replaces it"),
        (["--resume", "--force"], "--force replaces it; remove one of them"),
        (["--resume"], "cannot be read as a checkpoint of a training"),
    ],
)
def test_a_folder_with_a_checkpoint_needs_a_choice(
    options: list[str], message: str, tmp_path: Path
) -> None:
    """A training into a folder with a checkpoint requires either --resume or --force."""
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0" / CHECKPOINT).touch()
    recipe = write_recipe(tmp_path, "pairing", EXPERIMENT_1)
    assert message in invoke("train", recipe, "--out", tmp_path, *options).error


def test_an_interrupted_training_says_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output of an interrupted training with a checkpoint names --resume."""

    def interrupted(*_: object, **__: object) -> None:
        (tmp_path / "seed-0").mkdir()
        (tmp_path / "seed-0" / CHECKPOINT).touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("hpcosim_papers.ineps.learners.train.train_pairing", interrupted)
    done = invoke("train", write_recipe(tmp_path, "pairing", EXPERIMENT_1), "--out", tmp_path)
    assert done.status == 130
    assert "repeat the command with --resume to continue" in done.err
