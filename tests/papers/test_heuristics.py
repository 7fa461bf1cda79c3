"""The study of heuristics on the experiments of InEPS: its runs, files and README."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from hpcosim_experiments.executors import IN_THIS_PROCESS
from hpcosim_experiments.statistics.rows import Row, write_rows
from hpcosim_papers.ineps.study import heuristics
from hpcosim_papers.studies.study import Request, rows_of
from support.paths import SCENARIOS

README = SCENARIOS / "papers" / "ineps" / "README.md"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """Return the rows of Experiment 1."""
    out = tmp_path_factory.mktemp("exp1") / "out"
    return rows_of(
        heuristics.study_of({}, {}, ["exp1"]), Request("ineps", out, executor=IN_THIS_PROCESS)
    )


def as_every_experiment(rows: list[Row]) -> list[Row]:
    """Return the runs of one experiment as the runs of every experiment."""
    return [{**row, "experiment": name} for name in heuristics.EXPERIMENTS for row in rows]


@pytest.mark.slow
def test_chance_is_run_with_many_seeds(rows: list[Row]) -> None:
    """A random scheduler is run once for each seed, a deterministic one once."""
    runs = Counter(row["scheduler"] for row in rows)
    assert runs["random-high-cores"] == runs["first-random-one"] == heuristics.SEEDS
    random = {name for name, count in runs.items() if count > 1}
    assert random == {name for name in runs if heuristics.is_random(name)}
    assert runs["none-none"] == runs["first-high-cores"] == runs["minmin-immediate"] == 1
    assert len({row["energy_j"] for row in rows if row["scheduler"] == heuristics.WORST}) > 1


@pytest.mark.slow
def test_the_same_rows_give_the_same_files(rows: list[Row], tmp_path: Path) -> None:
    """The same rows give the same bytes of tables and figures."""
    every = as_every_experiment(rows)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name / "results.csv", heuristics.COLUMNS, every, None)
        (tmp_path / name / "tables.md").write_text(heuristics.tables(every))
        heuristics.draw(tmp_path / name / "energy.png", every, heuristics.ENERGY)
    for file in ("results.csv", "tables.md", "energy.png"):
        content = (tmp_path / "a" / file).read_bytes()
        assert content == (tmp_path / "b" / file).read_bytes()


def test_readme_has_the_tables_of_the_study(rows: list[Row]) -> None:
    """The README contains the rows of Experiment 1 in `tables.md`."""
    made = heuristics.tables(as_every_experiment(rows)).splitlines()
    expected = [line for line in made if line.startswith("| exp1 ")]
    readme = README.read_text().partition("### Unseen workloads")[0].splitlines()
    assert len(expected) == 6
    assert [line for line in readme if line.startswith("| exp1 ")] == expected


def test_a_tie_is_won_by_a_scheduler_that_draws_nothing() -> None:
    """Among equal means a deterministic scheduler is named, with the number of ties."""
    energies = {"random-none": 5.0, "first-none": 5.0, "none-none": 5.0, "shortest-none": 6.0}
    rows = [
        {"experiment": "exp1", "scheduler": name, "energy_j": energy_j}
        for name, energy_j in energies.items()
    ]
    found = heuristics.best_of(heuristics.indexed(rows), heuristics.ENERGY, "exp1", list(energies))
    assert found == ("first-none", 5.0, 2)
