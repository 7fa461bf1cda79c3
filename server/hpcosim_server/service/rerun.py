"""Runs a session again from its journal, and compares each reply with the recorded one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

import msgspec

from hpcosim_protocol import Decisions, DecodeError, Hello, Welcome
from hpcosim_protocol import decode_client_message as decode_request
from hpcosim_protocol import decode_server_message as decode_reply
from hpcosim_server.errors import JournalError, SessionRefused
from hpcosim_server.journal.reader import JournalReader, Placed
from hpcosim_server.journal.records import (
    EndedRecord,
    ExchangeRecord,
    OpenedRecord,
    ResumedRecord,
    WrittenRecord,
)
from hpcosim_server.service.journaling import checksum_of
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.session import Opened, Session
from hpcosim_server.service.status import Cause

UNLIMITED = Limits(elapsed_s=math.inf)
"""The server checked the recorded requests by its own limits."""

MAX_SHOWN = 500
"""Maximum number of characters of a value in an error message."""


@dataclass(slots=True)
class Rerun:
    """A session that runs again.

    Attributes:
        session: the session, after the records so far.
        places: `seq` of each request and offset of its record.
        snapshot_at: offset of the record of the last snapshot; -1: none.
        ended: the recorded end; None: there is none, though the simulation may be over.
        written: whether its results were written.
    """

    session: Session
    places: list[tuple[int, int]] = field(default_factory=list)
    snapshot_at: int = -1
    ended: EndedRecord | None = None
    written: bool = False

    @property
    def cause(self) -> Cause | None:
        """Cause of the end of a session that is over; None: the simulation is complete."""
        if self.ended is not None:
            return cast(Cause, self.ended.cause) or None
        return None if self.session.opened.run.complete else "simulation_stuck"


def opened_record(records: Iterator[Placed], reader: JournalReader) -> OpenedRecord | None:
    """Return the first record of a journal; None: it was cut off, so no client got a reply.

    Raises:
        JournalError: the journal does not begin with the opening of a session.
    """
    placed = next(records, None)
    if placed is not None and isinstance(placed.record, OpenedRecord):
        return placed.record
    if placed is None and (reader.is_cut or not reader.fault):
        return None
    why = reader.fault or "its first record is of another kind"
    raise JournalError(f"expected a journal that begins with the opening of a session: {why}")


def open_again(record: OpenedRecord, open_simulation: Callable[[Hello], Opened]) -> Session:
    """Open a session again.

    Args:
        record: the opening in the journal.
        open_simulation: returns the simulation for a hello, or raises SessionRefused.

    Raises:
        JournalError: the scenario is missing or has changed, or the welcome differs.
    """
    try:
        hello, welcome = decode_request(record.hello), decode_reply(record.welcome)
    except DecodeError as error:
        raise JournalError(f"the opening of the session cannot be decoded: {error}") from None
    if not (isinstance(hello, Hello) and isinstance(welcome, Welcome)):
        raise JournalError("expected hello and welcome in the first record of the journal")
    try:
        opened = open_simulation(hello)
    except SessionRefused as refused:
        raise JournalError(f"the session cannot be opened again: {refused.what}") from None
    if checksum_of(opened) != record.checksum:
        raise JournalError(
            f"the scenario {welcome.scenario!r} or a file of it has changed since the session was "
            "opened; expected the files, options and version of hpcosim of that time"
        )
    if hello.policy:
        opened.run.policy = hello.policy
    session = Session(record.session, hello, opened, welcome.options, now_s=0.0, limits=UNLIMITED)
    _compare(0, 0.0, record.welcome, session.welcome())
    return session


def run_again(rerun: Rerun, records: Iterator[Placed]) -> Iterator[Rerun]:
    """Carry out the records of a journal; yield before each, and after the last one.

    Raises:
        JournalError: a reply differs from the recorded one, or a record is not possible here.
    """
    for placed in records:
        yield rerun
        record, session = placed.record, rerun.session
        if isinstance(record, ExchangeRecord):
            _exchange(session, record)
            rerun.places.append((session.seq, placed.start))
        elif isinstance(record, ResumedRecord):
            session.resumed_at, rerun.snapshot_at = session.seq, placed.start
            _compare(session.seq, session.opened.simulation.now_s, record.reply, session.resume())
        elif isinstance(record, EndedRecord):
            rerun.ended = record
            session.end(record.why)
        elif isinstance(record, WrittenRecord):
            rerun.written = True
        else:
            raise JournalError("expected one opening of a session, got a second one")
    yield rerun


def _exchange(session: Session, record: ExchangeRecord) -> None:
    try:
        request = decode_request(record.request)
    except DecodeError as error:
        raise JournalError(f"request {session.seq + 1} cannot be decoded: {error}") from None
    if not isinstance(request, Decisions):
        raise JournalError(f"request {session.seq + 1} has the wrong type; expected decisions")
    reply = session.decide(request)
    _compare(request.seq, session.opened.simulation.now_s, record.reply, reply)


def _compare(seq: int, now_s: float, expected: bytes, got: bytes) -> None:
    """Compare a recorded reply and a new one, byte by byte.

    Raises:
        JournalError: they differ; names the first difference.
    """
    if expected != got:
        where, first, second = _difference(expected, got)
        raise JournalError(
            f"the reply to request {seq} differs, at the simulated time {now_s} s{where}: expected "
            f"{_shown(first)}, got {_shown(second)}"
        )


def _difference(expected: bytes, got: bytes) -> tuple[str, object, object]:
    """Return the place of the first difference of two messages, and the values there."""
    first, second = msgspec.msgpack.decode(expected), msgspec.msgpack.decode(got)
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return "", first, second
    for name in ("events", "snapshot"):
        before, now = first.get(name, []), second.get(name, [])
        for index in range(max(len(before), len(now))):
            one, other = (
                each[index] if index < len(each) else "no event" for each in (before, now)
            )
            if one != other:
                return f", {name}[{index}]", one, other
    for name in {**first, **second}:
        if first.get(name) != second.get(name):
            return f", field {name}", first.get(name), second.get(name)
    return ", its encoding", expected.hex(" "), got.hex(" ")


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
