"""Rounds of an agent: each has one observation and one action. An event can have several rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Ints
from hpcosim_client.view import Policy, View


def sampled(logits: NDArray[np.floating], rng: np.random.Generator) -> int:
    """Return an action sampled from logits, float[actions], by the Gumbel-max trick."""
    return int(sampled_each(logits[None], rng)[0])


def sampled_each(logits: NDArray[np.floating], rng: np.random.Generator) -> Ints:
    """Return a sampled action for each line of float[lines, actions], int64[lines]."""
    actions: Ints = (logits - np.log(rng.exponential(size=logits.shape))).argmax(axis=1)
    return actions


Observed = TypeVar("Observed")


class AgentRounds(Protocol[Observed]):
    """The rounds of one simulation: `begin` at each event, then `look` and `take` alternately."""

    def begin(self, view: View) -> None:
        """Apply the events since the last call."""

    def look(self, view: View) -> Observed | None:
        """Return the observation of the next round; None: no round until the next event."""

    def take(self, view: View, observed: Observed, action: int, /) -> object:
        """Carry out the action of a round."""


def by_rounds(
    new: Callable[[View], AgentRounds[Observed]], choose: Callable[[View, Observed], int]
) -> Policy:
    """Return the policy of an agent.

    Args:
        new: makes the rounds of a simulation from the view at its first event.
        choose: returns the agent's action for an observation.
    """
    rounds: AgentRounds[Observed] | None = None

    def decide(view: View) -> None:
        nonlocal rounds
        if rounds is None:
            rounds = new(view)
        rounds.begin(view)
        while (observed := rounds.look(view)) is not None:
            rounds.take(view, observed, choose(view, observed))

    return decide
