"""Runs of an agent on sequences, side by side, and what it decided in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.agents.chance import drawn_each
from hpcosim_client.agents.deep_eas.network import Network, logits_of
from hpcosim_client.agents.deep_eas.scene import Scene, joined
from hpcosim_client.job import Floats, Ints
from hpcosim_training.deep_eas.esjf import esjf_actions
from hpcosim_training.deep_eas.sequences import Sequences

Watch = Callable[[Sequences, Ints], NDArray[np.float32]]
"""Returns float32[runs, features] of some runs."""


class Decisions(NamedTuple):
    """What was decided; the decisions of a run are one behind the other.

    Attributes:
        run: int64[decisions].
        step: when, int64[decisions].
        scene: what was told.
        action: what was chosen, int64[decisions].
        log: the logarithm of its probability, float64[decisions].
        watched: what was told of the runs to a critic, float32[decisions, features].
    """

    run: Ints
    step: Ints
    scene: Scene
    action: Ints
    log: Floats
    watched: NDArray[np.float32]

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.run)


def explore(
    network: Network, sequences: Sequences, rng: np.random.Generator, watch: Watch
) -> Decisions:
    """Run all to their end, each choice drawn by its probability."""
    parts = []
    while len(runs := sequences.asked()):
        scene = sequences.scene(runs)
        logits = logits_of(network, scene)
        action = drawn_each(logits, rng)
        log = np.take_along_axis(_log_softmax(logits), action[:, None], axis=1)[:, 0]
        watched = watch(sequences, runs)
        parts.append(Decisions(runs, sequences.now[runs], scene, action, log, watched))
        sequences.take(runs, action)
    return _by_run(parts)


def exploit(network: Network, sequences: Sequences) -> None:
    """Run all to their end with the best choices."""
    while len(runs := sequences.asked()):
        sequences.take(runs, logits_of(network, sequences.scene(runs)).argmax(axis=1))


def run_esjf(sequences: Sequences) -> None:
    """Run all to their end as energy-aware shortest job first does."""
    while len(runs := sequences.asked()):
        sequences.take(runs, esjf_actions(sequences.scene(runs)))


def _log_softmax(logits: NDArray[np.float32]) -> Floats:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    logs: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return logs


def _by_run(parts: list[Decisions]) -> Decisions:
    run = np.concatenate([part.run for part in parts])
    order = np.argsort(run, kind="stable")
    return Decisions(
        run[order],
        np.concatenate([part.step for part in parts])[order],
        joined([part.scene for part in parts]).some(order),
        np.concatenate([part.action for part in parts])[order],
        np.concatenate([part.log for part in parts])[order],
        np.concatenate([part.watched for part in parts])[order],
    )
