"""The study of the pairing agent: its trainings, tables, and shipped networks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra rl is not installed")

from hpcosim_experiments.definition import Combinations
from hpcosim_experiments.executors import IN_THIS_PROCESS
from hpcosim_experiments.statistics.rows import Labels, Row, read_rows, where
from hpcosim_papers.ineps.study import heuristics, pairing_tables
from hpcosim_papers.ineps.study.heuristics import ENERGY, indexed, study_of
from hpcosim_papers.ineps.study.pairing import COLUMNS, OPTIMA, find_optima, train_one
from hpcosim_papers.ineps.study.pairing_tables import (
    EXPERIMENTS,
    OURS,
    PAPERS,
    VARIANTS,
    PairingRun,
    Results,
    Spread,
    sampled_spread,
    summary,
    trainings,
)
from hpcosim_papers.studies.agents import TABLE
from hpcosim_papers.studies.study import (
    Request,
    only,
    papers_folder,
    reproduce_study,
    rows_of,
    scenario_path,
)
from hpcosim_scenarios.running.run import Transport, run_scenario

PAIRING = tuple(EXPERIMENTS)
FOLDER = papers_folder() / "ineps"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the trainings of Experiment 1."""
    experiment = EXPERIMENTS["pairing-exp1"]
    papers, ours = (
        dataclasses.replace(training, iterations=1, episodes=1, epochs=1)
        for training in (experiment.papers, experiment.ours)
    )
    changed = {"pairing-exp1": experiment._replace(papers=papers, ours=ours)}
    monkeypatch.setattr(pairing_tables, "EXPERIMENTS", {**EXPERIMENTS, **changed})


@pytest.fixture
def few_seeds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run what draws by chance with two seeds on the large experiments: it is never the best."""
    if request.node.callspec.params["study"] in ("pairing-exp3", "pairing-exp4"):
        monkeypatch.setattr(heuristics, "only", two_seeds_of)


def two_seeds_of(wanted: Callable[[Labels], bool]) -> Callable[[Combinations], Combinations]:
    """Return what `only` returns, for two seeds."""
    return only(lambda labels: labels["seed"] in (0, 1) and wanted(labels))


def agent(seed: int, energy: Spread, variant: str = PAPERS) -> Row:
    """Return the row of an agent of Experiment 1."""
    greedy = (variant, "energy", seed, "exp1", 9.0, 3000.0, 2e5)
    return dict(zip(COLUMNS, (*greedy, *energy, 2e5, 0, 1, 3e5), strict=True))


@pytest.mark.parametrize("study", PAIRING)
def test_what_is_trained(study: str) -> None:
    """Both objectives have five trained and five untrained seeds, each with its own folder."""
    tasks = trainings(study)
    assert len({task.name for task in tasks}) == len(tasks)
    for objective in ("energy", "edp"):
        ours = [one for one in tasks if (one.variant, one.objective) == (OURS, objective)]
        assert sorted(one.seed for one in ours if one.trained) == [0, 1, 2, 3, 4]
    for form in (PAPERS, OURS):
        assert sum(one.variant == form and not one.trained for one in tasks) == 5


@pytest.mark.parametrize("study", ["pairing-exp1", "pairing-exp2"])
def test_small_experiments_have_every_variant(study: str) -> None:
    """Experiments 1 and 2 have all variants of waiting, placements and energy features."""
    assert {task.variant for task in trainings(study)} == set(VARIANTS)


def test_the_papers_settings() -> None:
    """The settings of Experiment 3 are those of table 4.13 of the thesis."""
    training = PairingRun("pairing-exp3", PAPERS, "energy", 0).training
    assert (training.iterations, training.episodes) == (100, 5)
    assert (training.minibatch, training.epochs) == (32, 50)
    assert (training.clip, training.discount, training.gae_lambda) == (0.1, 0.99, 0.95)
    assert (training.learning_rate, training.critic_learning_rate) == (0.001, None)
    assert training.swa
    assert training.windows.jobs == 90
    assert training.reward == "spent"


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_an_untrained_agent_learned_nothing(tmp_path: Path) -> None:
    """An untrained agent has no training time, and its name says that it is untrained."""
    task = PairingRun("pairing-exp1", PAPERS, "energy", 1, trained=False)
    (found,) = train_one(task, tmp_path)
    assert found["variant"] == "untrained papers"
    assert found["training_s"] < 0.1
    least, mean, most = (found[f"drawn_energy_j_{of}"] for of in ("least", "mean", "most"))
    assert least <= mean <= most


def test_runs_of_all_seeds_are_one_spread() -> None:
    """Mean, deviation, minimum and maximum are those of the runs of all seeds."""
    agents = [agent(0, Spread(1, 0, 1, 1)), agent(1, Spread(3, 0, 2, 5))]
    assert sampled_spread(agents, ENERGY) == Spread(2.0, 1.0, 1, 5)


@pytest.mark.slow
def test_tables_have_all_lines(tmp_path: Path) -> None:
    """Tables have lines for the optimum, heuristics, all agents, and published values."""
    find_optima("exp1", tmp_path / OPTIMA)
    seeds = [agent(seed, Spread(3000, 1, 2900, 3100)) for seed in (0, 1)]
    untrained = agent(0, Spread(1, 1, 1, 1), "untrained papers")
    request = Request("pairing-exp1", tmp_path / "out", executor=IN_THIS_PROCESS)
    runs = indexed(rows_of(study_of({}, {}, ["exp1"]), request))
    results = Results([*seeds, untrained], runs, read_rows(tmp_path / OPTIMA))
    said = summary(results, ["exp1"])
    for words in (
        "| optimum: may wait for the next event | 2,736.4 |",
        "| best MinMin: minmin-immediate (+ 2) | 2,854.2 |",
        "| untrained papers (1 seed) |",
        "| papers (2 seeds) | 3,000.0 | 0.0 | 105.11 | 3,000.0 |",
        "| papers, for energy | low-mem-ops-high-mem-bw | 20.20, 11.84, 0.28 | 18.88, 16.09, 13.29",
    ):
        assert words in said


@pytest.mark.slow
@pytest.mark.usefixtures("few_seeds")
@pytest.mark.parametrize("study", PAIRING)
def test_a_study_is_drawn_from_what_is_shipped(study: str, tmp_path: Path) -> None:
    """Without `--train` tables and figures come from the shipped results."""
    reproduce_study(Request(study, tmp_path))
    experiments_tried = EXPERIMENTS[study].tested_on
    names = {
        "runs",
        "experiment.json",
        "summary.md",
        "bars.png",
        *(f"schedules-{name}.png" for name in experiments_tried),
    }
    assert {path.name for path in tmp_path.iterdir()} == names
    said = (tmp_path / "summary.md").read_text()
    shipped = (FOLDER / study / "summary.md").read_text()
    assert said == shipped


@pytest.mark.slow
@pytest.mark.parametrize("name", ["energy", "edp"])
@pytest.mark.parametrize("experiment", ["exp1", "exp2", "exp3", "exp4_mem", "exp4_comp"])
def test_a_shipped_agent_has_its_published_value(
    experiment: str, name: str, tmp_path: Path
) -> None:
    """`--scheduler pairing-energy` gives the published value of one of the seeds.

    Floating-point sums of torch differ by machine, so a choice and the value may differ slightly.
    """
    path = scenario_path("ineps", experiment)
    metrics, _ = run_scenario(path, scheduler=f"pairing-{name}", transport="inproc", out=tmp_path)
    study = f"pairing-{experiment.partition('_')[0]}"
    rows = read_rows(FOLDER / study / TABLE, COLUMNS)
    agents = where(rows, experiment=experiment, variant=OURS, objective=name)
    assert len(agents) == 5
    key = "energy_j" if name == "energy" else "edp_js"
    assert min(abs(row[key] / metrics[key] - 1) for row in agents) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_a_shipped_agent_plays_the_same_on_every_transport(
    transport: Transport, tmp_path: Path
) -> None:
    """Jobs and metrics are the same bytes on every transport and in process."""
    path = scenario_path("ineps", "exp2")
    for name in ("inproc", transport):
        out = tmp_path / name
        run_scenario(path, scheduler="pairing-edp", transport=name, out=out)
    for file in ("jobs.csv", "metrics.json"):
        assert (tmp_path / "inproc" / file).read_bytes() == (
            tmp_path / transport / file
        ).read_bytes()
