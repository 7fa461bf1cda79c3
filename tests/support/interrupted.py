"""Trainings that are interrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class StoppedError(Exception):
    """The training was interrupted."""


def stop_at(iteration: int) -> Callable[[Any], None]:
    """Return what interrupts a training when it is told that an iteration is done."""

    def told(done: Any) -> None:
        if done.iteration == iteration:
            raise StoppedError

    return told
