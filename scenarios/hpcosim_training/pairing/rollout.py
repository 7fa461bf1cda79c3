"""Trajectories of an actor: several runs side by side, decided on together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpcosim_client.agents.chance import drawn
from hpcosim_client.agents.pairing.choices import Choices, Rows
from hpcosim_client.agents.pairing.networks import Actor, best
from hpcosim_client.job import Floats, Ints
from hpcosim_training.pairing.environment import PairingEnvironment


@dataclass(slots=True)
class Trajectory:
    """One run, decision by decision.

    Attributes:
        rows, actions: what there was to choose from, see `Choices`.
        chosen: which of that.
        log_probabilities: of the choice, as the actor was then.
        rewards: what it brought.
        objective: what the run came to, J or J s.
        scale: that of its rewards.
    """

    rows: list[Rows] = field(default_factory=list)
    actions: list[Ints] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    objective: float = np.nan
    scale: float = 1.0

    def __len__(self) -> int:
        return len(self.chosen)


class Batch(NamedTuple):
    """Decisions as the networks take them; see `networks`."""

    rows: Tensor
    there: Tensor
    actions: Tensor


def batch_of(rows: Sequence[Rows], actions: Sequence[Ints]) -> Batch:
    """Return decisions padded to the longest."""
    most = max(len(part) for part in rows)
    seen = np.zeros((len(rows), most, rows[0].shape[1]), dtype=np.float32)
    there = np.zeros((len(rows), most), dtype=np.bool_)
    numbers = np.zeros((len(rows), most), dtype=np.int64)
    for place, (part, its) in enumerate(zip(rows, actions, strict=True)):
        seen[place, : len(part)] = part
        there[place, : len(part)] = True
        numbers[place, : len(part)] = its
    return Batch(torch.from_numpy(seen), torch.from_numpy(there), torch.from_numpy(numbers))


def logits_of(actor: Actor, choices: Sequence[Choices]) -> NDArray[np.float32]:
    """Return the actor's logits for some decisions, float32[decisions, most]."""
    rows, there, _ = batch_of([one.rows for one in choices], [one.actions for one in choices])
    with torch.inference_mode():
        logits: NDArray[np.float32] = actor(rows, there).numpy()
    return logits


def explore(
    actor: Actor,
    environments: Sequence[PairingEnvironment],
    rngs: Sequence[np.random.Generator],
) -> list[Trajectory]:
    """Run each environment to its end, each choice drawn by its probability.

    Args:
        actor: who decides.
        environments: what is run; each is reset.
        rngs: what draws, one for each.
    """
    trajectories = [Trajectory() for _ in environments]
    for environment in environments:
        environment.reset()
    while active := [i for i, environment in enumerate(environments) if not environment.done]:
        choices = [environments[i].choices for i in active]
        logits = logits_of(actor, choices)
        for run, one, its in zip(active, choices, logits, strict=True):
            its = its[: len(one.rows)].astype(np.float64)
            its -= its.max()
            its -= np.log(np.exp(its).sum())
            chosen = drawn(its, rngs[run])
            trajectory = trajectories[run]
            trajectory.rows.append(one.rows)
            trajectory.actions.append(one.actions)
            trajectory.chosen.append(chosen)
            trajectory.log_probabilities.append(float(its[chosen]))
            trajectory.rewards.append(environments[run].step(chosen))
    for trajectory, environment in zip(trajectories, environments, strict=True):
        trajectory.objective, trajectory.scale = environment.objective, environment.scale
    return trajectories


def exploit(actor: Actor, environments: Sequence[PairingEnvironment]) -> Floats:
    """Run each environment to its end, always with the best choice; return the objectives."""
    for environment in environments:
        environment.reset()
    while active := [one for one in environments if not one.done]:
        choices = [environment.choices for environment in active]
        for environment, its in zip(active, logits_of(actor, choices), strict=True):
            environment.step(best(its))
    return np.array([environment.objective for environment in environments])
