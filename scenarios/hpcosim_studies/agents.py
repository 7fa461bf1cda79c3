"""The trained agents of a study: trained once, tried out, and the best kept."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
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


T = TypeVar("T", bound=Training)


def train_all(
    tasks: Sequence[T],
    out: Path,
    train: Callable[[T, Path], list[Row]],
    columns: Sequence[str],
    *,
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
    paths = [out / task.name / table for task in tasks]
    pending = [task for task, path in zip(tasks, paths, strict=True) if not path.exists()]
    write = partial(write_rows, columns=columns, digits=digits)
    once = partial(_train_one, out=out, train=train, table=table, write=write)
    in_parallel(once, pending, workers, title)
    rows = [row for path in paths for row in read_rows(path)]
    write(out / table, rows=rows)
    return rows


def _train_one(
    task: T,
    out: Path,
    train: Callable[[T, Path], list[Row]],
    table: str,
    write: Callable[..., None],
) -> None:
    folder = out / task.name
    rows = train(task, folder)
    write(folder / table, rows=rows)


def keep_best(
    folders: Sequence[Path], weights: str, kept: Path, score: Callable[[Path], float]
) -> None:
    """Copy the weights of the best of several trainings.

    Args:
        folders: of the trainings.
        weights: the name of the file in a training's folder.
        kept: the file to copy it to.
        score: of a training's folder; the least is the best. It must not look at a test.
    """
    shutil.copyfile(min(folders, key=score) / weights, kept)
