"""Requests to change the pace of a session."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from hpcosim_server.service.pace import Pace, PaceState
from hpcosim_view.errors import PaceError
from hpcosim_view.live.messages import PaceChange

EXAMPLE = '{"speed": 3600}, {"speed": null}, {"paused": true} or {"step": 1}'


def pace_change(body: bytes) -> PaceChange:
    """Return the change in a request.

    Args:
        body: the request as JSON.

    Raises:
        PaceError: the request is invalid.
    """
    try:
        change = msgspec.json.decode(body, type=PaceChange)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PaceError(f"{error}; expected {EXAMPLE}") from None
    if sum(value is not UNSET for value in (change.speed, change.paused, change.step)) != 1:
        raise PaceError(f"expected one of {EXAMPLE}")
    apply(change, Pace())
    return change


def apply(change: PaceChange, pace: Pace) -> None:
    """Change a pace.

    Raises:
        PaceError: a value is out of range, or the pace cannot be changed.
    """
    try:
        if not isinstance(change.speed, UnsetType):
            pace.change_speed(change.speed)
        elif not isinstance(change.paused, UnsetType):
            pace.pause() if change.paused else pace.resume()
        elif not isinstance(change.step, UnsetType):
            pace.step(change.step)
    except ValueError as error:
        raise PaceError(str(error)) from None


def changed(state: PaceState, change: PaceChange) -> PaceState:
    """Return the settings of a pace after a change."""
    if not isinstance(change.speed, UnsetType):
        return state._replace(speed=change.speed)
    paused = True if isinstance(change.paused, UnsetType) else change.paused
    return state._replace(paused=paused)
