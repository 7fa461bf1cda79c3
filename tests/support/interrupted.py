"""Interruption of trainings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class StoppedError(Exception):
    """The training was interrupted."""


def stop_at(iteration: int) -> Callable[[Any], None]:
    """Return a callback that interrupts a training after an iteration."""

    def told(done: Any) -> None:
        if done[0] == iteration:  # of an `Iteration` or a `Progress`
            raise StoppedError

    return told
