"""The trajectories of one simulation, made here or in several processes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple, Protocol

import numpy as np
import torch
from safetensors.torch import load, save

from hpcosim_client.agents.pairing.model import actor_of
from hpcosim_client.agents.pairing.networks import Actor
from hpcosim_training.pairing.environment import PairingEnvironment, Task
from hpcosim_training.pairing.reference import scaled
from hpcosim_training.pairing.rollout import Trajectory, explore
from hpcosim_training.pairing.teacher import Teacher
from hpcosim_training.pairing.windows import Windows
from hpcosim_workloads.table import JobTable


class Ground(NamedTuple):
    """What is explored.

    Attributes:
        task: what is decided.
        jobs: the workload.
        windows: the parts of it that are run.
        seed: of what is drawn.
        teacher: rewards are over what this one comes to.
    """

    task: Task
    jobs: JobTable
    windows: Windows
    seed: int
    teacher: Teacher

    def rng(self, *stream: int) -> np.random.Generator:
        """Return the chance of one stream, the same for the same numbers."""
        return np.random.default_rng([self.seed, *stream])

    def draw(self, rng: np.random.Generator) -> PairingEnvironment:
        """Return a part of the workload."""
        return scaled(self.task, self.windows.draw(rng, self.jobs), self.teacher)

    def trajectories(
        self, actor: Actor, simulation: int, numbers: Sequence[int]
    ) -> list[Trajectory]:
        """Return these of the trajectories of a simulation."""
        rngs = [self.rng(simulation, number) for number in numbers]
        environments = [self.draw(rng) for rng in rngs]
        return explore(actor, environments, rngs)


class Explorer(Protocol):
    """Makes the trajectories of a simulation."""

    def __call__(self, actor: Actor, simulation: int, count: int) -> list[Trajectory]:
        """Return so many."""


def here(ground: Ground) -> Explorer:
    """Return the explorer of this process."""

    def trajectories(actor: Actor, simulation: int, count: int) -> list[Trajectory]:
        return ground.trajectories(actor, simulation, range(count))

    return trajectories


class Pooled:
    """Explores in several processes; the trajectories come in the same order.

    Args:
        ground: what is explored.
        workers: how many processes.
    """

    def __init__(self, ground: Ground, workers: int) -> None:
        self._ground = ground
        self._workers = workers
        self._pool = ProcessPoolExecutor(workers, get_context("spawn"))

    def __enter__(self) -> Pooled:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def __call__(self, actor: Actor, simulation: int, count: int) -> list[Trajectory]:
        """Return the trajectories of a simulation."""
        weights = save({name: value.contiguous() for name, value in actor.state_dict().items()})
        parts = [
            self._pool.submit(_explore, self._ground, weights, simulation, part.tolist())
            for part in np.array_split(np.arange(count), self._workers)
            if len(part)
        ]
        return [trajectory for part in parts for trajectory in part.result()]


def _explore(
    ground: Ground, weights: bytes, simulation: int, numbers: list[int]
) -> list[Trajectory]:
    torch.set_num_threads(1)
    actor = actor_of(ground.task.settings)
    actor.load_state_dict(load(weights))
    return ground.trajectories(actor, simulation, numbers)
