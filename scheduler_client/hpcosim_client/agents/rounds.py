"""The loop of an agent that decides step by step, whatever it is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from hpcosim_client.view import Policy, View

Shown = TypeVar("Shown")


class Rounds(Protocol[Shown]):
    """The decisions of one simulation: `begin` at each event, then `look` and `take` in turn."""

    def begin(self, view: View) -> None:
        """Take in an event."""

    def look(self, view: View) -> Shown | None:
        """Return what there is to choose from; None: nothing, until the next event."""

    def take(self, view: View, shown: Shown, action: int, /) -> object:
        """Carry out an action that was chosen from what was shown."""


def by_rounds(new: Callable[[View], Rounds[Shown]], choose: Callable[[View, Shown], int]) -> Policy:
    """Return the policy that asks an agent as long as it has a choice.

    Args:
        new: makes the rounds of a simulation, from the view at its first event.
        choose: returns the agent's action.
    """
    rounds: Rounds[Shown] | None = None

    def decide(view: View) -> None:
        nonlocal rounds
        if rounds is None:
            rounds = new(view)
        rounds.begin(view)
        while (shown := rounds.look(view)) is not None:
            rounds.take(view, shown, choose(view, shown))

    return decide
