"""What the curricula come to: figure 11 (section 5.2), from the table that training writes."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hpcosim_scenarios.errors import ScenariosError
from hpcosim_studies.power.agents import TRAINED_BESIDE
from hpcosim_studies.power.batch import Row, Spec, run_all, write_rows
from hpcosim_studies.power.curriculum_figure import Group, draw_curricula
from hpcosim_studies.power.managers import timeouts
from hpcosim_studies.power.readings import (
    BEST,
    CALLED,
    NO_CL,
    PAPER,
    TEST,
    TIMEOUTS_MIN,
    TRAININGS,
    UNTRAINED,
    WORKERS,
)
from hpcosim_studies.power.runs import KEPT
from hpcosim_studies.power.tables import (
    ENERGY,
    WAIT,
    WASTED,
    Measure,
    change,
    groups,
    mean,
    percent,
    spread,
    table,
    text_of,
)

MEASURES = (ENERGY, WASTED, WAIT)
"""Panels (a) to (c) of figure 11."""


class Trainings(NamedTuple):
    """All trainings of one algorithm.

    Attributes:
        algorithm: `a2c` or `ppo`.
        by_curriculum: the runs on the test part, one a seed.
    """

    algorithm: str
    by_curriculum: dict[str, list[Row]]


def compare_curricula(
    out: Path,
    trained: Path = TRAININGS,
    *,
    path: Path = TEST,
    minutes: Sequence[float] = TIMEOUTS_MIN,
    workers: int = WORKERS,
) -> None:
    """Draw the trainings of a table, and write `results.csv`, `summary.md` and `curricula.png`.

    Args:
        out: the folder, which exists.
        trained: the table that `curricula.train_grid` writes.
        path: the scenario, for the timeout that stands beside them.
        minutes: the timeouts of which the best is shown.
        workers: processes.

    Raises:
        ScenariosError: there is no such table, or it has no trainings.
        As `run_all`, and `draw_curricula`; OSError: the folder can't be written to.
    """
    trainings = read_trainings(trained)
    beside = TRAINED_BESIDE[trainings[0].algorithm]
    rows = run_all(timeouts(minutes, beside, path=path), workers, "power-curricula")
    best = min(rows, key=WASTED.of)
    learned = [row for each in trainings for runs in each.by_curriculum.values() for row in runs]
    write_rows(out / "results.csv", [*learned, *rows])
    for each in trainings:
        name = "curricula" if len(trainings) == 1 else f"curricula-{each.algorithm}"
        drawn = [group_of(each, measure, best) for measure in MEASURES]
        draw_curricula(out / f"{name}.png", drawn, each.algorithm.upper(), best.spec.label)
    (out / "summary.md").write_text(summary(trainings, best), encoding="utf-8")


def read_trainings(path: Path) -> list[Trainings]:
    """Return what a table has, in the order of the paper's curricula.

    Its columns are `algorithm`, `curriculum`, `seed` and those of `KEPT`. A curriculum
    `untrained` is the network before it has learned anything.

    Raises:
        ScenariosError: it can't be read, or has no line.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [_row(line) for line in csv.DictReader(file)]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ScenariosError(f"{path} is no table of trainings: {error!r}") from None
    if not rows:
        raise ScenariosError(f"{path} has no trainings")
    found = []
    for algorithm in dict.fromkeys(row.spec.kind for row in rows):
        mine = groups(row for row in rows if row.spec.kind == algorithm)
        by_curriculum = {label: runs for (label, _), runs in mine.items()}
        ordered = [name for name in (*CALLED, UNTRAINED) if name in by_curriculum]
        found.append(Trainings(algorithm, {name: by_curriculum[name] for name in ordered}))
    return found


def group_of(trainings: Trainings, measure: Measure, best: Row) -> Group:
    """Return a panel, with the untrained network and the best timeout beside the curricula."""
    values = {
        name: [measure.of(row) for row in runs] for name, runs in trainings.by_curriculum.items()
    }
    untrained = values.pop(UNTRAINED, None)
    return Group(
        measure.named,
        values,
        statistics.fmean(untrained) if untrained else None,
        measure.of(best),
    )


def summary(trainings: Sequence[Trainings], best: Row) -> str:
    """Return the tables, as Markdown."""
    parts: list[list[str]] = [
        ["# Curricula (figure 11)"],
        [
            "Mean over seeds, least and most. Changes are against no curriculum. The paper has, of",
            f"one training each as far as it says, {PAPER.wasted_to_no_cl} % wasted energy for",
            f"`{BEST}`, and {PAPER.wait_to_no_cl[0]} % to {PAPER.wait_to_no_cl[1]} % mean wait",
            "for easy to hard.",
        ],
    ]
    for each in trainings:
        head = ["curriculum", "", "seeds", *(measure.named for measure in MEASURES)]
        head += ["wasted: change", "wait: change"]
        parts += [[f"## {each.algorithm.upper()}"], table(head, _lines(each, best))]
        if UNTRAINED not in each.by_curriculum:
            parts.append(["No untrained network: the table has none."])
    return text_of(*parts)


def _lines(trainings: Trainings, best: Row) -> list[list[str]]:
    without = trainings.by_curriculum.get(NO_CL)
    lines = []
    for name, runs in (*trainings.by_curriculum.items(), (best.spec.label, [best])):
        cells = [name, CALLED.get(name, ""), str(len(runs)) if name != best.spec.label else ""]
        cells += [spread(runs, measure) for measure in MEASURES]
        changes = (WASTED, WAIT) if without and name != NO_CL else ()
        cells += [percent(change(mean(runs, of), mean(without or [], of))) for of in changes]
        lines.append(cells + [""] * (8 - len(cells)))
    return lines


def _row(line: dict[str, str]) -> Row:
    algorithm, curriculum, seed = line["algorithm"], line["curriculum"], int(line["seed"])
    beside = TRAINED_BESIDE[algorithm]
    spec = Spec(algorithm, curriculum, {"name": "rl"}, beside, seed=seed)
    return Row(spec, {name: float(line[name]) for name in KEPT})
