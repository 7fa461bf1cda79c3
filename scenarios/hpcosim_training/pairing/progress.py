"""What is told of each simulation of a training."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hpcosim_training.curve import read_lines


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


def read_curve(folder: Path) -> list[Simulation]:
    """Return what a training told.

    Raises:
        OSError: there is no curve in the folder.
    """
    return [
        Simulation(int(row[0]), int(row[1]), *map(float, row[2:])) for row in read_lines(folder)
    ]
