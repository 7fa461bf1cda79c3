"""Learning curves: a line for each iteration, in a table and in TensorBoard's logs."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

CURVE = "curve.csv"
TENSORBOARD = "tensorboard"


class Iteration(NamedTuple):
    """What came of an iteration; NaN: it was not measured.

    Attributes:
        iteration: counted from 1; 0: before the first, after behaviour cloning.
        phase: the workload it learned from, or `cloning`, or empty.
        decisions: the decisions of its rollout.
        mean_return: mean over its episodes of the sum of rewards.
        policy_loss, value_loss: means over the steps of its updates.
        entropy: mean entropy of a choice, nats.
        validation: the validation score of the best actor, lower is better.
        seconds: wall time.
        measures: what else the learner measured, by name.
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
    measures: Mapping[str, float] = {}


COMMON = Iteration._fields[:-1]


class Curve:
    """Writes `curve.csv` and TensorBoard's logs, a line for each iteration.

    Args:
        out: the folder.
        measures: the names of the learner's measures, columns behind the common ones.
        after: keep the lines of the iterations up to this one; None: none.

    Raises:
        OSError: they can't be written.
    """

    def __init__(self, out: Path, measures: tuple[str, ...], after: int | None = None) -> None:
        path = out / CURVE
        kept = [] if after is None or not path.exists() else _lines(path)[1:]
        self._measures = measures
        self._file = path.open("w", newline="", encoding="utf-8")
        self._table = csv.writer(self._file, lineterminator="\n")
        self._table.writerow((*COMMON, *measures))
        self._table.writerows(row for row in kept if int(row[0]) <= (after or 0))
        self._board = _board(out / TENSORBOARD, after)

    def __enter__(self) -> Curve:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._board.close()

    def add(self, done: Iteration) -> None:
        """Write a line."""
        values = done._asdict() | dict(done.measures)
        values["seconds"] = f"{done.seconds:.2f}"
        self._table.writerow([values.get(name, math.nan) for name in (*COMMON, *self._measures)])
        self._file.flush()
        for name in (*COMMON[2:], *self._measures):
            self._board.add_scalar(name, float(values.get(name, math.nan)), done.iteration)


def read_curve(path: Path) -> list[Iteration]:
    """Return the learning curve of a training.

    Args:
        path: the table, or the folder it is in. Columns are found by name; those that are not
            common to all trainings are measures.

    Raises:
        OSError: there is none.
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
