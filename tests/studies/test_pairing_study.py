"""The study of the pairing agent: what is trained, what is kept of it, and what is said of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hpcosim_scenarios.errors import ScenariosError
from hpcosim_scenarios.running.run import Transport, run_scenario
from hpcosim_studies import FOLDER, PAIRING, STUDIES, TRAINED, reproduce_study
from hpcosim_studies.ineps import experiments
from hpcosim_studies.ineps.agents_tables import Agents, drawn, summary
from hpcosim_studies.ineps.experiments import (
    EXPERIMENTS,
    OURS,
    PAPERS,
    VARIANTS,
    Trained,
    trainings,
)
from hpcosim_studies.ineps.grid import AGENTS, train_one
from hpcosim_studies.ineps.heuristics import Results, run_all
from hpcosim_studies.ineps.optima import OPTIMA, find_optima, read_optima
from hpcosim_studies.ineps.outcomes import (
    Outcome,
    Spread,
    read_outcomes,
    write_outcomes,
)
from hpcosim_training.learners.pairing.train import ACTOR


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let agents of Experiment 1 learn next to nothing."""
    experiment = EXPERIMENTS["pairing-exp1"]
    papers, ours = (
        dataclasses.replace(training, iterations=1, episodes=1, epochs=1)
        for training in (experiment.papers, experiment.ours)
    )
    changed = {"pairing-exp1": experiment._replace(papers=papers, ours=ours)}
    monkeypatch.setattr(experiments, "EXPERIMENTS", {**EXPERIMENTS, **changed})


def outcome(seed: int, energy: Spread, variant: str = PAPERS) -> Outcome:
    """Return what an agent of Experiment 1 might come to."""
    return Outcome(
        variant, "energy", seed, "exp1", 9.0, 3000.0, 2e5, energy, Spread(2e5, 0, 1, 3e5)
    )


def test_studies_are_those_of_the_command_line() -> None:
    """Every study has an experiment, and the other way round."""
    assert set(PAIRING) == set(EXPERIMENTS)


@pytest.mark.parametrize("study", PAIRING)
def test_what_is_trained(study: str) -> None:
    """Ours has five seeds for both objectives, and so many untrained; each has its own folder."""
    tasks = trainings(study)
    assert len({task.folder for task in tasks}) == len(tasks)
    for objective in ("energy", "edp"):
        ours = [one for one in tasks if (one.variant, one.objective) == (OURS, objective)]
        assert sorted(one.seed for one in ours if one.trained) == [0, 1, 2, 3, 4]
    for form in (PAPERS, OURS):
        assert sum(one.variant == form and not one.trained for one in tasks) == 5


@pytest.mark.parametrize("study", ["pairing-exp1", "pairing-exp2"])
def test_small_experiments_have_every_variant(study: str) -> None:
    """Waiting, one or all placements and energy features are switched on Experiments 1 and 2."""
    assert {task.variant for task in trainings(study)} == set(VARIANTS)


def test_the_papers_settings() -> None:
    """What the thesis' table 4.13 says of Experiment 3 is what trains there."""
    training = Trained("pairing-exp3", PAPERS, "energy", 0).training
    assert (training.iterations, training.episodes) == (100, 5)
    assert (training.minibatch, training.epochs) == (32, 50)
    assert (training.clip, training.discount, training.gae_lambda) == (0.1, 0.99, 0.95)
    assert (training.learning_rate, training.critic_learning_rate) == (0.001, None)
    assert training.swa
    assert training.windows.jobs == 90
    assert training.reward == "spent"


@pytest.mark.usefixtures("quick")
def test_what_was_trained_is_not_trained_again(tmp_path: Path) -> None:
    """A training that is there stays as it is; one that was cut short is done anew."""
    task = Trained("pairing-exp1", OURS, "energy", 3)
    train_one(task, tmp_path)
    folder = tmp_path / task.folder
    weights, table = (folder / ACTOR).read_bytes(), (folder / AGENTS).read_bytes()
    (folder / ACTOR).write_bytes(b"")
    train_one(task, tmp_path)
    assert (folder / ACTOR).read_bytes() == b""
    (folder / AGENTS).unlink()
    train_one(task, tmp_path)
    assert (folder / ACTOR).read_bytes() == weights
    first, again = read_outcomes(folder / AGENTS)[0], table.decode().splitlines()[1]
    assert first.energy_j == float(again.split(",")[5])


@pytest.mark.usefixtures("quick")
def test_an_untrained_agent_learned_nothing(tmp_path: Path) -> None:
    """Of one simulation that is not done no time is counted, and its name says so."""
    task = Trained("pairing-exp1", PAPERS, "energy", 1, trained=False)
    train_one(task, tmp_path)
    (found,) = read_outcomes(tmp_path / task.folder / AGENTS)
    assert found.variant == "untrained papers"
    assert found.training_s < 0.1
    assert found.energy.least <= found.energy.mean <= found.energy.most


def test_outcomes_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Nothing is lost between writing and reading but the eleventh digit."""
    written = [outcome(0, Spread(1.5, 0.25, 1.0, 2.0)), outcome(1, Spread(3.0, 0.5, 1.0, 4.0))]
    write_outcomes(tmp_path / AGENTS, written)
    assert read_outcomes(tmp_path / AGENTS) == written


def test_runs_of_all_seeds_are_one_spread() -> None:
    """Mean and deviation are those of all runs together, least and most those of any."""
    spread = drawn([outcome(0, Spread(1, 0, 1, 1)), outcome(1, Spread(3, 0, 2, 5))], "energy")
    assert spread == Spread(2.0, 1.0, 1, 5)


def test_tables_name_everybody(tmp_path: Path) -> None:
    """Optimum, heuristics, untrained and trained agents and the published figures have a line."""
    find_optima("exp1", tmp_path / OPTIMA)
    seeds = [outcome(seed, Spread(3000, 1, 2900, 3100)) for seed in (0, 1)]
    said = summary(
        Agents([*seeds, outcome(0, Spread(1, 1, 1, 1), "untrained papers")]),
        Results(list(run_all(["exp1"]))),
        read_optima(tmp_path / OPTIMA),
        ["exp1"],
    )
    for words in (
        "| optimum: may wait for the next event | 2,736.4 |",
        "| best MinMin: minmin-immediate (+ 2) | 2,854.2 |",
        "| untrained papers (1 seed) |",
        "| papers (2 seeds) | 3,000.0 | 0.0 | 105.11 | 3,000.0 |",
        "| papers, for energy | low_mem_ops-high_mem_bw | 20.20, 11.84, 0.28 | 18.88, 16.09, 13.29",
    ):
        assert words in said


@pytest.mark.parametrize("study", PAIRING)
def test_a_study_is_drawn_from_what_is_shipped(study: str, tmp_path: Path) -> None:
    """Without `--train` tables and figures come from the results beside the scenarios."""
    reproduce_study(study, tmp_path)
    experiments_tried = EXPERIMENTS[study].tested_on
    names = {"summary.md", "bars.png", *(f"schedules-{name}.png" for name in experiments_tried)}
    assert {path.name for path in tmp_path.iterdir()} == names
    said = (tmp_path / "summary.md").read_text()
    shipped = (FOLDER / "ineps" / study / "summary.md").read_text()
    assert said == shipped


@pytest.mark.parametrize("name", ["energy", "edp"])
@pytest.mark.parametrize("experiment", ["exp1", "exp2", "exp3", "exp4_mem", "exp4_comp"])
def test_a_shipped_agent_comes_to_what_is_told_of_it(
    experiment: str, name: str, tmp_path: Path
) -> None:
    """`--scheduler pairing-energy` plays the network that one of the seeds' figures are of.

    Where torch adds up in another order a choice may differ, and the figure a little.
    """
    path = FOLDER / "ineps" / f"{experiment}.yaml"
    metrics, _ = run_scenario(path, scheduler=f"pairing-{name}", transport="inproc", out=tmp_path)
    study = f"pairing-{experiment.partition('_')[0]}"
    told = [
        one
        for one in read_outcomes(FOLDER / "ineps" / study / AGENTS)
        if (one.experiment, one.variant, one.objective) == (experiment, OURS, name)
    ]
    assert len(told) == 5
    key = "energy_j" if name == "energy" else "edp_js"
    assert min(abs(getattr(one, key) / metrics[key] - 1) for one in told) < 0.02


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_a_shipped_agent_plays_the_same_on_every_transport(
    transport: Transport, tmp_path: Path
) -> None:
    """Jobs and metrics are the same to the byte as in one process."""
    path = FOLDER / "ineps" / "exp2.yaml"
    for name in ("inproc", transport):
        out = tmp_path / name
        run_scenario(path, scheduler="pairing-edp", transport=name, out=out)
    for file in ("jobs.csv", "metrics.json"):
        assert (tmp_path / "inproc" / file).read_bytes() == (
            tmp_path / transport / file
        ).read_bytes()


@pytest.mark.parametrize("study", [study for study in STUDIES if study not in TRAINED])
def test_where_nothing_is_trained_train_is_refused(study: str, tmp_path: Path) -> None:
    """`--train` is not passed over in silence; the studies that train are named."""
    with pytest.raises(ScenariosError, match=f"nothing is trained in {study}; .*pairing-exp1"):
        reproduce_study(study, tmp_path / "out", train=True)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A file where the folder should be is an error of ours that names it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ScenariosError, match="file"):
        reproduce_study("pairing-exp1", tmp_path / "file")
