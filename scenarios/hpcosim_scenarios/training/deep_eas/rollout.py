"""Trajectories of Deep-EAS: many runs of a sequence side by side, decided on together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpcosim_client.agents.chance import drawn
from hpcosim_client.agents.deep_eas.network import DeepEasNetwork
from hpcosim_client.agents.deep_eas.picture import Picture
from hpcosim_client.job import Floats
from hpcosim_scenarios.training.deep_eas.environment import SequenceEnvironment


@dataclass(slots=True)
class Trajectory:
    """One run, decision by decision.

    Attributes:
        seen: the pictures.
        masks: which actions were possible; empty: none was masked.
        actions: what was chosen.
        times_s: when.
    """

    seen: list[Picture] = field(default_factory=list)
    masks: list[NDArray[np.bool_]] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)

    def note(self, environment: SequenceEnvironment, action: int) -> None:
        """Keep a decision that is about to be carried out."""
        self.seen.append(environment.seen)
        if environment.mask is not None:
            self.masks.append(environment.mask)
        self.actions.append(action)
        self.times_s.append(environment.now_s)


def logits_of(
    network: DeepEasNetwork,
    seen: Sequence[Picture],
    masks: Sequence[NDArray[np.bool_]],
) -> Tensor:
    """Return logits, float32[decisions, actions]; minus infinity for what is masked."""
    logits: Tensor = network(torch.from_numpy(np.stack(seen)).to(torch.float32))
    if masks:
        logits = logits.masked_fill(torch.from_numpy(~np.stack(masks)), -torch.inf)
    return logits


def explore(
    network: DeepEasNetwork,
    environments: Sequence[SequenceEnvironment],
    rngs: Sequence[np.random.Generator],
) -> list[Trajectory]:
    """Run each environment to its end, each choice drawn by its probability."""
    trajectories = [Trajectory() for _ in environments]
    for run, logits in _runs(network, environments):
        action = drawn(logits, rngs[run])
        trajectories[run].note(environments[run], action)
        environments[run].step(action)
    return trajectories


def exploit(network: DeepEasNetwork, environments: Sequence[SequenceEnvironment]) -> Floats:
    """Run each environment to its end with the best choices; return the EDPs of all jobs."""
    for run, logits in _runs(network, environments):
        environments[run].step(int(logits.argmax()))
    return np.concatenate([environment.normalised_edps() for environment in environments])


def watch_esjf(environments: Sequence[SequenceEnvironment]) -> list[Trajectory]:
    """Run each environment as energy-aware shortest job first does."""
    trajectories = [Trajectory() for _ in environments]
    for environment, trajectory in zip(environments, trajectories, strict=True):
        environment.reset()
        while not environment.done:
            action = environment.teach()
            trajectory.note(environment, action)
            environment.step(action)
    return trajectories


def _runs(
    network: DeepEasNetwork, environments: Sequence[SequenceEnvironment]
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield the number and the logits of every run that is to be decided on, until none is."""
    for environment in environments:
        environment.reset()
    while active := [run for run, one in enumerate(environments) if not one.done]:
        seen = [environments[run].seen for run in active]
        masks = [mask for run in active if (mask := environments[run].mask) is not None]
        with torch.inference_mode():
            logits = logits_of(network, seen, masks).numpy()
        yield from zip(active, logits, strict=True)
