"""Requests to change the pace of a session."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from hpcosim_live.errors import PaceError
from hpcosim_server.service.pace import Pace

EXAMPLE = '{"speed": 3600}, {"speed": null}, {"paused": true} or {"step": 1}'


class PaceChange(msgspec.Struct, forbid_unknown_fields=True):
    """A change of the pace; exactly one field is given.

    Attributes:
        speed: simulated seconds per wall-clock second; None: as fast as possible.
        paused: whether to pause.
        step: number of batches of events to run while paused.
    """

    speed: float | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET
    step: int | UnsetType = UNSET


def change_pace(pace: Pace, body: bytes) -> None:
    """Carry out a request.

    Args:
        pace: the pace of the session.
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
    try:
        if not isinstance(change.speed, UnsetType):
            pace.change_speed(change.speed)
        elif not isinstance(change.paused, UnsetType):
            pace.pause() if change.paused else pace.resume()
        elif not isinstance(change.step, UnsetType):
            pace.step(change.step)
    except ValueError as error:
        raise PaceError(str(error)) from None
