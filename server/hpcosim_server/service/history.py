"""The history of a session, read from its journal for a scheduler that comes back."""

from __future__ import annotations

from collections.abc import Iterator

from hpcosim_protocol import (
    Decisions,
    Event,
    Events,
    Exchange,
    GetHistory,
    History,
    Welcome,
    decode_client_message,
    decode_server_message,
)
from hpcosim_server.errors import SessionRefused
from hpcosim_server.journal.reader import JournalReader
from hpcosim_server.journal.records import ExchangeRecord, ResumedRecord
from hpcosim_server.journal.storage import JournalFile
from hpcosim_server.journal.writer import JournalWriter
from hpcosim_server.service.session import Session

PAGE_BYTES = 2**20
"""Size of the exchanges of a message; one more exchange may exceed it."""


def has_history(session: Session) -> bool:
    """Return whether the journal of a session has all its requests."""
    return session.journal is not None and session.journal.file is not None


def history_of(session: Session, request: GetHistory) -> History:
    """Return requests and replies of a session.

    Raises:
        SessionRefused: the journal of the session was closed.
    """
    journal = session.journal
    if journal is None or journal.file is None:
        what = "get_history: the server has no history of the session; resume it with a snapshot"
        raise SessionRefused("invalid_message", what)
    history = History(after=request.after)
    after = request.after
    if session.resumed_at >= max(after, 0) and session.seq >= after:
        history.snapshot, history.snapshot_s = _snapshot(journal.file, journal.snapshot_at)
        after = session.resumed_at
    history.exchanges = list(_exchanges(journal, journal.file, after))
    return history


def _snapshot(file: JournalFile, place: int) -> tuple[list[Event], float]:
    """Return the snapshot at a place of a journal, and its time."""
    record = next(iter(JournalReader(file, place))).record
    assert isinstance(record, ResumedRecord)
    welcome = decode_server_message(record.reply)
    assert isinstance(welcome, Welcome)
    return welcome.snapshot, welcome.now_s


def _exchanges(journal: JournalWriter, file: JournalFile, after: int) -> Iterator[Exchange]:
    size = 0
    for placed in JournalReader(file, journal.place_of(after + 1) or None):
        record = placed.record
        if not isinstance(record, ExchangeRecord):
            continue
        request = decode_client_message(record.request)
        reply = decode_server_message(record.reply)
        assert isinstance(request, Decisions)
        assert isinstance(reply, Events)  # any other reply ends the session
        if request.seq > after:
            yield Exchange(request=request, reply=reply)
            size += placed.end - placed.start
            if size >= PAGE_BYTES:
                return
