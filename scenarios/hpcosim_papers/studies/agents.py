"""Training and evaluation of the agents of a study, and selection of the best agent."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from hpcosim_experiments import executors
from hpcosim_experiments.statistics.rows import Row, read_rows, write_rows
from hpcosim_papers.studies.study import StudyError
from hpcosim_scenarios.running.in_process import shown

# Parallel execution of the runs of a study, with progress.

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_parallel(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    workers: int | None = None,
    title: str = "study",
) -> list[Result]:
    """Call a function for each task and return the results in the order of the tasks.

    Each process has one thread, so the results do not depend on the number of processes.

    Args:
        workers: number of processes; 1: the current process; None: one per core.

    Raises:
        StudyError: the processes of a task were killed, for example because memory ran out.
    """
    count = min(workers or executors.cores(), len(tasks))
    settings = executors.Local(workers=count) if count > 1 else executors.IN_THIS_PROCESS
    with shown(title, "runs") as report, executors.open_executor(settings) as executor:
        try:
            return executors.results_of(
                executor, function, tasks, lambda completed, total: report(0.0, completed, total)
            )
        except executors.LostTaskError as error:
            raise StudyError(
                f"{title}: after {error.completed} of {len(tasks)} tasks: {error}"
            ) from None


TABLE = "agents.csv"


class Training(Protocol):
    """The training of an agent in a study."""

    @property
    def name(self) -> str:
        """Name of the folder of the training."""
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
    """Train and evaluate agents and write their results into one table.

    Each training has a folder `out`/name. The function skips a training whose folder contains its
    table and restarts an interrupted one.

    Args:
        train: trains an agent into a folder, evaluates it and returns the rows of its results; a
            function that other processes can import.
        table: file name of the table, in `out` and in the folder of each training.
        digits: significant digits of floats in the table; None: full precision.

    Returns:
        The rows of the table.
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
        weights: file name of the weights in each folder.
        score: returns the validation score of a folder; the lowest score is the best. It must not
            depend on test results.
    """
    shutil.copyfile(min(folders, key=score) / weights, kept)
