"""The agent that pairs jobs with nodes: its rounds, what it foresees, its training, its files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from hpcosim_client import PolicyError
from hpcosim_client.agents.pairing.model import About, load_pairing, save_pairing
from hpcosim_client.agents.pairing.networks import PapersActor, PapersCritic, draw
from hpcosim_client.agents.pairing.settings import Pairing
from hpcosim_scenarios.cli import app
from hpcosim_scenarios.library import Library
from hpcosim_scenarios.papers import FOLDER
from hpcosim_scenarios.run import run_scenario
from hpcosim_scenarios.training.pairing.environment import PairingEnvironment, Task
from hpcosim_scenarios.training.pairing.settings import FORESEEING, Hyperparameters
from hpcosim_scenarios.training.pairing.train import Training, train_pairing

EXPERIMENT_1 = FOLDER / "ineps" / "exp1.yaml"
EXPERIMENT_2 = FOLDER / "ineps" / "exp2.yaml"
QUICK = dataclasses.replace(FORESEEING, simulations=2, trajectories=2, epochs=1, imitation=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an agent that has learned a little on Experiment 1."""
    out = tmp_path_factory.mktemp("trained")
    return train_pairing(EXPERIMENT_1, out, Training(hyperparameters=QUICK))


def _environment(path: Path, pairing: Pairing) -> PairingEnvironment:
    library = Library([path])
    reward = "foreseen" if pairing.sees == "foreseen" else "spent"
    task = Task(library.first.platform, pairing, reward)  # type: ignore[arg-type]
    return PairingEnvironment(task, library.first_jobs)


@pytest.mark.parametrize("objective", ["energy", "edp"])
@pytest.mark.parametrize("path", [EXPERIMENT_1, EXPERIMENT_2])
def test_foreseen_rewards_add_up_to_minus_the_objective(path: Path, objective: str) -> None:
    """Whatever is chosen, the rewards of a run sum to minus its energy, or its product."""
    pairing = Pairing(objective=objective)  # type: ignore[arg-type]
    environment, rng = _environment(path, pairing), np.random.default_rng(1)
    environment.reset()
    rewards = 0.0
    while not environment.done:
        rewards += environment.step(int(rng.integers(len(environment.choices.rows))))
    assert rewards == pytest.approx(-environment.objective, rel=1e-9)


@pytest.mark.parametrize("sees", ["papers", "papers_no_energy", "foreseen"])
def test_what_is_shown_lies_between_0_and_1(sees: str) -> None:
    """Every feature of every choice lies in [0, 1], whatever was chosen before."""
    environment = _environment(EXPERIMENT_2, Pairing(sees=sees))  # type: ignore[arg-type]
    rng = np.random.default_rng(2)
    environment.reset()
    while not environment.done:
        rows = environment.choices.rows
        assert rows.min() >= 0.0
        assert rows.max() <= 1.0
        environment.step(int(rng.integers(len(rows))))


def test_waiting_ends_by_its_bound() -> None:
    """An agent that always waits where it may still runs every job, and not much later."""
    environment = _environment(EXPERIMENT_1, Pairing(wait_s=0.5, most_wait_s=2.0))
    environment.reset()
    while not environment.done:
        environment.step(len(environment.choices.rows) - 1)
    starts_s = environment.simulation.recording.start_s
    assert len(starts_s) == 6
    assert max(starts_s) < 200.0


def test_one_placement_an_event() -> None:
    """With `one`, no two jobs start at one instant."""
    environment = _environment(
        EXPERIMENT_2, Pairing(sees="papers", placements_per_event="one", wait=False)
    )
    environment.reset()
    while not environment.done:
        environment.step(0)
    starts_s = environment.simulation.recording.start_s
    assert len(set(starts_s)) == len(starts_s)


def test_same_seed_same_weights(trained: Path, tmp_path: Path) -> None:
    """Training twice by the same seed writes the same bytes, by another seed others."""
    again = train_pairing(EXPERIMENT_1, tmp_path / "a", Training(hyperparameters=QUICK))
    other = train_pairing(EXPERIMENT_1, tmp_path / "b", Training(hyperparameters=QUICK, seed=1))
    assert again.read_bytes() == trained.read_bytes()
    assert other.read_bytes() != trained.read_bytes()


def test_a_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """Stopped by an error after a simulation and resumed, it ends with the same bytes."""
    settings = dataclasses.replace(QUICK, simulations=4)
    training = Training(hyperparameters=settings)
    whole = train_pairing(EXPERIMENT_1, tmp_path / "whole", training)

    class StoppedError(Exception):
        pass

    def stop(done: object) -> None:
        if getattr(done, "simulation", 0) == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        train_pairing(EXPERIMENT_1, tmp_path / "parts", training, told=stop)
    parts = train_pairing(EXPERIMENT_1, tmp_path / "parts", training, resume=True)
    assert parts.read_bytes() == whole.read_bytes()


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    """Going on with other settings than it began with is an error that says so."""
    train_pairing(EXPERIMENT_1, tmp_path, Training(hyperparameters=QUICK))
    other = Training(hyperparameters=QUICK, seed=3)
    with pytest.raises(PolicyError, match="another training"):
        train_pairing(EXPERIMENT_1, tmp_path, other, resume=True)


def test_the_papers_form_trains(tmp_path: Path) -> None:
    """The papers' networks learn with their settings, and the averaged actor is what is kept."""
    settings = Hyperparameters(simulations=4, trajectories=2, epochs=2)
    pairing = Pairing(sees="papers", placements_per_event="one", wait=False)
    training = Training(pairing=pairing, hyperparameters=settings, reward="spent", validate_every=0)
    actor, about = load_pairing(train_pairing(EXPERIMENT_1, tmp_path, training))
    assert isinstance(actor, PapersActor)
    assert about.pairing.placements_per_event == "one"


def test_the_papers_networks_have_the_layers_of_the_paper() -> None:
    """Actor and critic are as wide, layer by layer, as in section 3.4."""
    actor, critic = PapersActor(10), PapersCritic(10, 81)
    widths = [part.out_features for part in actor.modules() if isinstance(part, torch.nn.Linear)]
    assert widths == [16, 16, 8, 8, 4, 4, 1]
    widths = [part.out_features for part in critic.modules() if isinstance(part, torch.nn.Linear)]
    assert widths == [32, 16, 8, 4, 1, 128, 64, 32, 16, 8, 1]


def test_the_wire_changes_nothing(trained: Path, tmp_path: Path) -> None:
    """An agent's run has the same results, to the byte, in one process and in two."""
    scheduler = f"pairing:{trained}"
    for transport in ("inproc", "ipc"):
        run_scenario(
            EXPERIMENT_1,
            scheduler=scheduler,
            transport=transport,
            out=tmp_path / transport,
        )
    for path in (tmp_path / "inproc").iterdir():
        assert path.read_bytes() == (tmp_path / "ipc" / path.name).read_bytes()


def test_a_policy_of_few_nodes_runs_on_many(trained: Path, tmp_path: Path) -> None:
    """What was trained on two nodes schedules all jobs of forty."""
    metrics, _ = run_scenario(
        FOLDER / "ineps" / "exp3.yaml",
        scheduler=f"pairing:{trained}",
        transport="inproc",
        out=tmp_path,
    )
    assert metrics["jobs_completed"] == 180


def _broken(path: Path, trained: Path) -> dict[str, Path]:
    actor = PapersActor(3)
    draw(actor, torch.Generator().manual_seed(0))
    files = {
        name: path / f"{name}.safetensors" for name in ("missing", "truncated", "nodes", "nan")
    }
    files["truncated"].write_bytes(trained.read_bytes()[:1000])
    save_pairing(files["nodes"], actor, About(pairing=Pairing(sees="papers")))
    good, about = load_pairing(trained)
    for weights in good.parameters():
        weights.fill_(torch.nan)
    save_pairing(files["nan"], good, about)
    return files


@pytest.mark.parametrize("name", ["missing", "truncated", "nodes", "nan"])
def test_a_bad_model_is_told_in_one_line(name: str, trained: Path, tmp_path: Path) -> None:
    """A file that is missing, cut short, of other features or not finite: exit 2, one line."""
    file = _broken(tmp_path, trained)[name]
    result = CliRunner().invoke(
        app, ["run", str(EXPERIMENT_1), "--scheduler", f"pairing:{file}", "--transport", "inproc"]
    )
    assert result.exit_code == 2
    assert file.name in result.output
    assert len(result.output.strip().splitlines()) == 1
