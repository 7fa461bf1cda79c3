"""What is told of a training: a table, and TensorBoard's logs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

CURVE = "curve.csv"
TENSORBOARD = "tensorboard"


class Simulation(NamedTuple):
    """What came of one simulation, and of what was learned from it.

    Attributes:
        simulation: counted from 1; 0: before the first, after imitation.
        decisions: in all its trajectories.
        mean, least: objective of its trajectories, by that of the teacher.
        reward: mean sum of the rewards of a trajectory.
        actor_loss, critic_loss, entropy: means over the update.
        validation: objective of the best choices on the validation workload, by that of
            the teacher; NaN: not looked at.
        seconds: how long it took, on a clock on the wall.
    """

    simulation: int
    decisions: int
    mean: float
    least: float
    reward: float
    actor_loss: float
    critic_loss: float
    entropy: float
    validation: float
    seconds: float


class Curve:
    """Writes `curve.csv` and TensorBoard's logs, a line for each simulation.

    Args:
        out: the folder.
        after: simulations up to this one stay, as a training that goes on wrote them.

    Raises:
        OSError: they can't be written.
    """

    def __init__(self, out: Path, after: int | None = None) -> None:
        kept = [] if after is None else _lines(out / CURVE, after)
        self._file = (out / CURVE).open("w", newline="", encoding="utf-8")
        self._table = csv.writer(self._file, lineterminator="\n")
        self._table.writerow(Simulation._fields)
        self._table.writerows(kept)
        self._board = _board(out / TENSORBOARD, after)

    def __enter__(self) -> Curve:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._board.close()

    def add(self, done: Simulation) -> None:
        """Write a line."""
        self._table.writerow((*done[:-1], f"{done.seconds:.2f}"))
        self._file.flush()
        for name, value in done._asdict().items():
            if name != "simulation":
                self._board.add_scalar(name, value, done.simulation)


def read_curve(folder: Path) -> list[Simulation]:
    """Return what a training told.

    Raises:
        OSError: there is no curve in the folder.
    """
    with (folder / CURVE).open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    return [Simulation(int(row[0]), int(row[1]), *map(float, row[2:])) for row in rows]


def _lines(path: Path, after: int) -> list[list[str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in list(csv.reader(file))[1:] if int(row[0]) <= after]


def _board(folder: Path, after: int | None) -> SummaryWriter:
    from torch.utils.tensorboard import SummaryWriter

    purge = None if after is None else after + 1
    return SummaryWriter(str(folder), purge_step=purge)
