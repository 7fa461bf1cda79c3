"""Reproduce a part of the study, from its runs to tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hpcosim_experiments.definition import combinations_of, load_experiment
from hpcosim_experiments.statistics.rows import Row, Rows
from hpcosim_papers.power.study import curricula, pareto_figure, radar, sensitivity, timeouts
from hpcosim_papers.power.study import pareto_figure as pareto
from hpcosim_papers.power.study.paper import COLUMNS, columns_of, missing
from hpcosim_papers.studies import study

CURRICULA = "power-curricula"


class Part(NamedTuple):
    """The output files of a part of the study.

    Attributes:
        summary: returns the Markdown text for the rows and the reasons for managers left out.
        figures: functions that draw the rows into a file, by file name.
        arranged: returns the rows of all runs as the output files have them.
    """

    summary: Callable[[Rows, Sequence[str]], str]
    figures: study.Figures
    arranged: Callable[[list[Row]], Rows] = lambda rows: rows


PARTS: Mapping[str, Part] = {
    "power-timeouts": Part(timeouts.summary, {"timeouts.png": timeouts.draw}, timeouts.arranged),
    CURRICULA: Part(lambda rows, _: curricula.summary(rows), {"curricula.png": curricula.draw}),
    "power-radar": Part(radar.summary, {"radar.png": radar.draw}),
    "power-sensitivity": Part(
        sensitivity.summary, {"sensitivity.png": sensitivity.draw}, sensitivity.arranged
    ),
    "power-pareto": Part(
        pareto.summary,
        {"pareto.png": lambda path, rows: pareto_figure.draw(path, rows, pareto.front(rows))},
    ),
}


def reproduce(request: study.Request) -> None:
    """Run a part of the study; write `results.csv`, `summary.md` and figures."""
    known: Sequence[Row] = ()
    if request.name == CURRICULA:
        trained = study.papers_folder() / "power" / curricula.TABLE
        if request.train:
            from hpcosim_papers.power.study.training import train_grid

            trained = train_grid(request.out, request.workers)
        known = curricula.read_trainings(trained)
    study.carry_out(study_of(request.name), request, known)


def study_of(name: str) -> study.Study:
    """Return a part of the study, without the managers whose packages are missing."""
    part, file = PARTS[name], study.experiment_file("power", name)
    managers = combinations_of(load_experiment(file)).axes["manager"].values
    left_out = [reason for value in managers if (reason := missing(str(value.label)))]
    return study.Study(
        file,
        COLUMNS,
        {"summary.md": lambda rows: part.summary(rows, left_out)},
        part.figures,
        described=columns_of,
        arranged=part.arranged,
        changed=study.only(lambda labels: not missing(str(labels["manager"]))),
    )
