"""The log of a server: events with a level and fields.

`log.info("session_opened", jobs=3)` writes an event. A writer decides what becomes of it; by
default it prints warnings and errors to standard error. structlog does more, but its imports took
130 ms of a server's start.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from traceback import walk_tb
from typing import Any

Event = dict[str, Any]
"""The fields of an event, its name as `event` and its level as `level`."""

Writer = Callable[[Event], None]

QUIET = "info"
"""The level of events that are left out until a writer is set."""

MOST_FRAMES = 50


def info(event: str, **fields: object) -> None:
    """Log what happens in normal operation."""
    _writer({**fields, "event": event, "level": "info"})


def warning(event: str, **fields: object) -> None:
    """Log what an operator should look at; arguments as of `info`."""
    _writer({**fields, "event": event, "level": "warning"})


def error(event: str, **fields: object) -> None:
    """Log a failure; arguments as of `info`."""
    _writer({**fields, "event": event, "level": "error"})


def exception(event: str, **fields: object) -> None:
    """Log a failure with the exception that is being handled; arguments as of `info`."""
    raised = sys.exc_info()[1]
    error(event, **fields, **({} if raised is None else {"exception": described(raised)}))


def write_to(writer: Writer) -> Writer:
    """Pass all later events of this process to a writer; return the previous writer."""
    global _writer
    previous, _writer = _writer, writer
    return previous


def as_json(event: Event) -> str:
    """Return an event as one line of JSON."""
    return json.dumps(event, default=repr)


def described(error: BaseException) -> list[Event]:
    """Return an exception and its causes as fields, the outermost first.

    Local variables are left out: they have names of sessions and contents of messages.
    """
    return [
        {
            "exc_type": type(each).__name__,
            "exc_value": str(each),
            "exc_notes": list(getattr(each, "__notes__", ())),
            "is_cause": is_cause,
            "frames": _frames(each),
            "exceptions": [described(one) for one in getattr(each, "exceptions", ())],
        }
        for each, is_cause in _chain(error)
    ]


def _chain(error: BaseException) -> Iterator[tuple[BaseException, bool]]:
    """Yield an exception and those before it, each with whether it is an explicit cause."""
    current: BaseException | None = error
    is_cause, seen = False, set[int]()
    while current is not None and id(current) not in seen:
        yield current, is_cause
        seen.add(id(current))
        is_cause = current.__cause__ is not None
        hidden = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or hidden


def _frames(error: BaseException) -> list[Event]:
    frames = [
        {"filename": code.co_filename, "lineno": line, "name": code.co_name}
        for frame, line in walk_tb(error.__traceback__)
        for code in (frame.f_code,)
    ]
    if len(frames) > 2 * MOST_FRAMES:  # a recursion
        del frames[MOST_FRAMES:-MOST_FRAMES]
    return frames


def _print(event: Event) -> None:
    if event["level"] != QUIET:
        print(as_json(event), file=sys.stderr)  # noqa: T201 - until `write_to` is called


_writer: Writer = _print
