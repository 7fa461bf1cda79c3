"""The trained agents of a study: trained once, tried out, and the best kept."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from hpcosim_studies.pool import in_parallel
from hpcosim_studies.rows import Row, read_rows, write_rows

TABLE = "agents.csv"


class Training(Protocol):
    """A training of a study."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        ...

    @property
    def model(self) -> str:
        """The name of the file that the best of the trainings with that name is kept in."""
        ...


Any_ = TypeVar("Any_", bound=Training)


def train_all(
    tasks: Sequence[Any_],
    out: Path,
    train: Callable[[Any_, Path], list[Row]],
    *,
    columns: Sequence[str],
    table: str = TABLE,
    digits: int | None = 10,
    workers: int | None = None,
    title: str = "training",
) -> list[Row]:
    """Train and try out agents, and write the table of all; return its rows.

    Each training has a folder named after it. One whose folder holds a table is not repeated; one
    that was interrupted starts again.

    Args:
        tasks: the trainings.
        out: the folder.
        train: trains an agent into a folder, tries it out and returns the rows of it; importable
            by name.
        columns: of the table.
        table: the name of the table's file, in the folder and in each training's.
        digits: significant digits of floats in it; None: all.
        workers: processes; 1: this one; None: one for each core.
        title: what the progress shown is of.
    """
    once = partial(_train_once, out=out, train=train, columns=columns, table=table, digits=digits)
    in_parallel(once, tasks, workers, title)
    rows = [row for task in tasks for row in read_rows(out / task.name / table)]
    write_rows(out / table, columns, rows, digits)
    return rows


def keep_best(
    tasks: Iterable[Training], out: Path, weights: str, score: Callable[[Path], float]
) -> None:
    """Copy the weights of the best training of each `model` to the file of that name.

    Args:
        tasks: the trainings.
        out: the folder with theirs.
        weights: the name of the file in a training's folder.
        score: of a training's folder; the least is the best. It must not look at a test.
    """
    by_model: dict[str, list[Path]] = {}
    for task in tasks:
        by_model.setdefault(task.model, []).append(out / task.name)
    for model, folders in by_model.items():
        shutil.copyfile(min(folders, key=score) / weights, out / model)


def _train_once(
    task: Any_,
    out: Path,
    train: Callable[[Any_, Path], list[Row]],
    columns: Sequence[str],
    table: str,
    digits: int | None,
) -> None:
    folder = out / task.name
    if not (folder / table).exists():
        rows = train(task, folder)
        write_rows(folder / table, columns, rows, digits)
