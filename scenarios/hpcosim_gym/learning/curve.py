"""Learning curves: one row for each iteration, as CSV and for TensorBoard."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcosim_gym.learning.trainers import Progress

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

CURVE = "curve.csv"
TENSORBOARD = "tensorboard"
TIMES = ("seconds", "environment_s")
"""Columns that are written with two digits after the point."""


class Iteration(NamedTuple):
    """A row of the learning curve. NaN: not measured.

    Attributes:
        iteration: number of the iteration, from 1; 0: before the first, after behaviour cloning.
        phase: name of the training workload, `cloning`, or empty.
        decisions: number of decisions in the rollout.
        mean_return: mean return (undiscounted sum of rewards) of its episodes.
        policy_loss, value_loss: mean losses over the optimiser steps.
        entropy: mean entropy of a decision, nats.
        validation: validation score of the better of current and averaged actor; lower is better.
        seconds: wall-clock time, s.
        environment_s: CPU time of the environments in the rollout, of all workers, s.
        measures: additional metrics of the learner, by name.
    """

    iteration: int
    phase: str = ""
    decisions: int = 0
    mean_return: float = math.nan
    policy_loss: float = math.nan
    value_loss: float = math.nan
    entropy: float = math.nan
    validation: float = math.nan
    seconds: float = math.nan
    environment_s: float = math.nan
    measures: Mapping[str, float] = {}

    @property
    def values(self) -> dict[str, Any]:
        """All values by the name of their column."""
        return {name: getattr(self, name) for name in COMMON} | dict(self.measures)

    @property
    def progress(self) -> Progress:
        """The iteration as a training reports it; the text is without what is NaN."""
        shown = {"return": self.mean_return, **self.measures, "validation": self.validation}
        figures = "  ".join(f"{name} {each:.5g}" for name, each in shown.items() if each == each)
        text = f"{self.phase:9}  {figures}" if self.phase else figures
        speed = ""
        if self.decisions and self.seconds > 0.0 and self.environment_s == self.environment_s:
            share = min(self.environment_s / self.seconds, 1.0)
            speed = f" ({self.decisions / self.seconds:,.0f} decisions/s, {share:.0%} environment)"
        return Progress(self.iteration, f"{text}  took {self.seconds:.1f} s{speed}", self.values)


COMMON = Iteration._fields[:-1]


class LearningCurve:
    """Writer of `curve.csv` and TensorBoard logs, one row for each iteration.

    Args:
        out: the folder.
        columns: names of the columns; the first one numbers the rows.
        after: keep existing rows up to this number (resumed training); None: start empty.

    Raises:
        OSError: the files cannot be written.
    """

    def __init__(self, out: Path, columns: Sequence[str], after: int | None = None) -> None:
        path = out / CURVE
        kept = [] if after is None or not path.exists() else _lines(path)[1:]
        self._columns = columns
        self._file = path.open("w", newline="", encoding="utf-8")
        self._table = csv.writer(self._file, lineterminator="\n")
        self._table.writerow(columns)
        self._table.writerows(row for row in kept if int(row[0]) <= (after or 0))
        self._board = _board(out / TENSORBOARD, after)

    def __enter__(self) -> LearningCurve:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._board.close()

    def add(self, values: Mapping[str, Any]) -> None:
        """Write a row; a column without a value is NaN."""
        row = [values.get(name, math.nan) for name in self._columns]
        written = dict(zip(self._columns, row, strict=True))
        for name in TIMES:
            if name in written:
                written[name] = f"{written[name]:.2f}"
        self._table.writerow(written.values())
        self._file.flush()
        for name, value in zip(self._columns[1:], row[1:], strict=True):
            if not isinstance(value, str):
                self._board.add_scalar(name, float(value), row[0])


def read_curve(path: Path) -> list[Iteration]:
    """Return the learning curve of a training.

    Args:
        path: the CSV file or its folder. Columns are found by name; columns that are not common to
            all trainings become `measures`.

    Raises:
        OSError: the file is missing.
    """
    head, *rows = _lines(path / CURVE if path.is_dir() else path)
    return [_iteration(dict(zip(head, row, strict=True))) for row in rows]


def _iteration(values: Mapping[str, str]) -> Iteration:
    number, phase, decisions = (values.get(name, "") for name in COMMON[:3])
    common = [float(values.get(name, "nan")) for name in COMMON[3:]]
    measures = {name: float(value) for name, value in values.items() if name not in COMMON}
    return Iteration._make([int(number), phase, int(decisions), *common, measures])


def _lines(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def _board(folder: Path, after: int | None) -> SummaryWriter:
    from torch.utils.tensorboard import SummaryWriter

    purge = None if after is None else after + 1
    return SummaryWriter(str(folder), purge_step=purge)
