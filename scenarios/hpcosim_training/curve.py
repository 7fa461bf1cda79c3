"""What is told of a training: a table, and TensorBoard's logs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

CURVE = "curve.csv"
TENSORBOARD = "tensorboard"


class Curve:
    """Writes `curve.csv` and TensorBoard's logs, a line for each iteration.

    Args:
        out: the folder.
        columns: a line; its first field is the number of the iteration, its last the seconds that
            it took.
        after: iterations up to this one stay, as a training that goes on wrote them.

    Raises:
        OSError: they can't be written.
    """

    def __init__(self, out: Path, columns: type[NamedTuple], after: int | None = None) -> None:
        path, fields = out / CURVE, columns._fields
        kept = [row for row in _lines(path) if int(row[0]) <= after] if after is not None else []
        self._file = path.open("w", newline="", encoding="utf-8")
        self._table = csv.writer(self._file, lineterminator="\n")
        self._table.writerow(fields)
        self._table.writerows(kept)
        self._board = _board(out / TENSORBOARD, after)

    def __enter__(self) -> Curve:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._board.close()

    def add(self, done: Any) -> None:
        """Write a line."""
        self._table.writerow((*done[:-1], f"{done[-1]:.2f}"))
        self._file.flush()
        for name, value in zip(done._fields[1:], done[1:], strict=True):
            self._board.add_scalar(name, value, done[0])


def read_lines(folder: Path) -> list[list[str]]:
    """Return the lines of a training's table, without its head.

    Raises:
        OSError: there is none in the folder.
    """
    with (folder / CURVE).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


def _lines(path: Path) -> list[list[str]]:
    return read_lines(path.parent) if path.exists() else []


def _board(folder: Path, after: int | None) -> SummaryWriter:
    from torch.utils.tensorboard import SummaryWriter

    purge = None if after is None else after + 1
    return SummaryWriter(str(folder), purge_step=purge)
