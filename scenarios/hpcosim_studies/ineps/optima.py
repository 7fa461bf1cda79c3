"""The true optimum of the small experiments, beside the agents."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, get_args

from hpcosim_scenarios.planning.optimum import least
from hpcosim_scenarios.planning.optimum.bound import Objective
from hpcosim_scenarios.planning.optimum.moves import Placements
from hpcosim_scenarios.running.library import Library
from hpcosim_studies import FOLDER

OPTIMA = "optimum.csv"
SMALL = ("exp1", "exp2")
"""Those that the search gets through."""

CLASSES = {
    "one": "one job an event, never waits",
    "all": "all that fit, never waits",
    "any": "may wait for the next event",
}


class Best(NamedTuple):
    """A line of `optimum.csv`.

    Attributes:
        experiment: the scenario.
        placements: the class of schedules, see `optimum.moves`.
        objective: what is least.
        value: that, J or J s.
        explored: states the search went on from.
    """

    experiment: str
    placements: str
    objective: str
    value: float
    explored: int


def find_optima(experiment: str, path: Path) -> None:
    """Write the optima of a small experiment, if that was not done before."""
    if path.exists() or experiment not in SMALL:
        return
    library = Library([FOLDER / "ineps" / f"{experiment}.yaml"])
    found = []
    for placements in get_args(Placements):
        for objective in get_args(Objective):
            optimum = least(library.first, library.first_jobs, objective, placements)
            found.append(Best(experiment, placements, objective, optimum.value, optimum.explored))
    _write(path, found)


def _write(path: Path, optima: Iterable[Best]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(Best._fields)
        lines.writerows(optima)


def read_optima(path: Path) -> list[Best]:
    """Return what there is; nothing if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Best(experiment, placements, objective, float(value), int(explored))
            for experiment, placements, objective, value, explored in list(csv.reader(file))[1:]
        ]
