"""The agent that pairs jobs with nodes: its rounds, what it foresees, its training, its files."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from typer.testing import CliRunner

from hpcosim_cli.main import app
from hpcosim_cli.train import app as train_app
from hpcosim_client import PolicyError
from hpcosim_client.agents.networks_file import write_network
from hpcosim_client.agents.pairing.model import FORMAT, ROWS, About, load_pairing, save_pairing
from hpcosim_client.agents.pairing.networks import PapersActor, PapersCritic, draw
from hpcosim_client.agents.pairing.settings import Pairing
from hpcosim_protocol import NodeGroup, Platform, Processor
from hpcosim_scenarios.errors import RunError
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.run import Transport, run_scenario
from hpcosim_studies.papers import papers_folder
from hpcosim_training.pairing.environment import PairingEnvironment, Task
from hpcosim_training.pairing.session import Training
from hpcosim_training.pairing.settings import FORESEEING, Hyperparameters
from hpcosim_training.pairing.train import train_pairing
from support.simulating import cluster_of, jobs_of

EXPERIMENT_1 = papers_folder() / "ineps" / "exp1.yaml"
EXPERIMENT_2 = papers_folder() / "ineps" / "exp2.yaml"
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
        papers_folder() / "ineps" / "exp3.yaml",
        scheduler=f"pairing:{trained}",
        transport="inproc",
        out=tmp_path,
    )
    assert metrics["jobs_completed"] == 180


def test_a_model_of_other_rows_is_refused_by_version(trained: Path, tmp_path: Path) -> None:
    """Columns of another version would mislead an actor; both versions are named."""
    actor, about = load_pairing(trained)
    tensors = actor.state_dict()
    write_network(tmp_path / "old.safetensors", tensors, FORMAT, replace(about, rows=ROWS + 1))
    with pytest.raises(PolicyError, match=rf"rows of version {ROWS + 1}; these are of {ROWS}"):
        load_pairing(tmp_path / "old.safetensors")


def test_training_without_power_data_is_refused(tmp_path: Path) -> None:
    """Where nodes draw no power, `train pairing` says so in one line and writes nothing."""
    dark = tmp_path / "dark.yaml"
    dark.write_text(re.sub(r"(static_w|dynamic_w): [\d.]+", r"\1: 0", EXPERIMENT_1.read_text()))
    out = tmp_path / "out"
    result = CliRunner().invoke(train_app, ["pairing", str(dark), "--out", str(out)])
    assert result.exit_code == 2
    assert "draw no power" in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize("sees", ["papers", "foreseen"])
def test_while_nothing_fits_nothing_is_asked(sees: str) -> None:
    """With every pair masked there is no decision: the next comes when a job can go somewhere."""
    pairing = Pairing(sees=sees, wait=False)  # type: ignore[arg-type]
    task = Task(cluster_of(1, 2, static_w=5.0, dynamic_w=1.0), pairing, "spent")
    environment = PairingEnvironment(task, jobs_of((0, 10, 2), (1, 10, 2), (2, 10, 2)))
    environment.reset()
    asked_s = []
    while not environment.done:
        asked_s.append(environment.simulation.now_s)
        assert len(environment.choices.rows) >= 1
        environment.step(0)
    assert asked_s == [0.0, 10.0, 20.0]


@pytest.mark.parametrize("sees", ["papers", "foreseen"])
def test_a_pair_above_the_jobs_most_energy_is_not_offered(sees: str) -> None:
    """A job that may cost 100 J waits for the node it costs 70 J on; the other would take 520 J.

    10 s x (5 W + 2 x 1 W) = 70 J, and with 50 W for 5 W 520 J.
    """
    processors = [Processor(2, 1.0, static_w, 1.0, 0.5) for static_w in (5.0, 50.0)]
    platform = Platform(tuple(NodeGroup(1, (processor,)) for processor in processors))
    pairing = Pairing(sees=sees, wait=False)  # type: ignore[arg-type]
    jobs = dataclasses.replace(
        jobs_of((0, 10, 2), (1, 10, 2)), max_energy_j=np.array([100.0, 100.0])
    )
    environment = PairingEnvironment(Task(platform, pairing, "spent"), jobs)
    environment.reset()
    offered = []
    while not environment.done:
        choices = environment.choices
        pairs = [choices.pair(choice) for choice in range(len(choices.rows))]
        offered.append((environment.simulation.now_s, [pair and pair[1] for pair in pairs]))
        environment.step(0)
    assert offered == [(0.0, [0]), (10.0, [0])]


def test_drawn_choices_follow_the_scenarios_seed(trained: Path, tmp_path: Path) -> None:
    """`pairing-sampled` has the same results by the same seed, and others by some other seed."""
    sampled = f"pairing-sampled:{trained}"
    files: set[tuple[int, bytes]] = set()
    for seed in (1, 2, 3, 1):
        out = tmp_path / f"{seed}-{len(files)}"
        overrides = {"seed": seed}
        run_scenario(
            EXPERIMENT_1, scheduler=sampled, transport="inproc", out=out, overrides=overrides
        )
        files.add((seed, (out / "jobs.csv").read_bytes()))
    assert len(files) == 3
    assert len({jobs for _, jobs in files}) > 1


def test_a_scenarios_agents_are_called_by_name(trained: Path, tmp_path: Path) -> None:
    """`scheduler.agents` names a model beside the scenario; results are the model's own."""
    path = tmp_path / "own.yaml"
    text = EXPERIMENT_1.read_text().rsplit("scheduler:", 1)[0]
    path.write_text(
        text + "scheduler: {name: fcfs, agents: {mine: 'pairing:models/a.safetensors'}}\n"
    )
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a.safetensors").write_bytes(trained.read_bytes())
    models = {path: "mine", EXPERIMENT_1: f"pairing:{trained}"}
    mine, its = (
        run_scenario(file, scheduler=name, transport="inproc", out=tmp_path / str(number))[0]
        for number, (file, name) in enumerate(models.items())
    )
    assert mine == its


@pytest.mark.parametrize("transport", ["inproc", "ipc"])
def test_a_job_no_node_holds_is_told_whoever_ends_first(
    transport: Transport, trained: Path, tmp_path: Path
) -> None:
    """The scheduler's own words come through, though the server is over before its process."""
    demo = papers_folder().parent / "demo.yaml"
    with pytest.raises(RunError, match=r"asks for 34 cores.* at most 32 here"):
        run_scenario(demo, scheduler=f"pairing:{trained}", transport=transport, out=tmp_path)


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
