"""What a service writes to the journals of its sessions, and reads for their history."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

import hpcosim_protocol as protocol
from hpcosim_server import log
from hpcosim_server.errors import SessionRefused
from hpcosim_server.journal import journal_file as records
from hpcosim_server.journal.storage import JournalFile
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.session import Opened, Session
from hpcosim_server.service.status import Cause, folder_name
from hpcosim_server.wire.listener import key_of

PAGE_BYTES = 2**20
"""Size of the exchanges of a message; one more exchange may exceed it."""


class SessionJournals:
    """Keeps the journals of the sessions of a service. Each record is written before the reply."""

    def __init__(self, journals: Journals | None) -> None:
        self._journals = journals

    def opened(self, session: Session, hello: bytes, limits: Limits) -> None:
        """Begin the journal of a session."""
        if self._journals is None:
            return
        opened = session.opened
        record = records.OpenedRecord(
            session=session.name,
            hello=hello,
            welcome=session.welcome(),
            scenario_file=opened.file,
            overrides=dict(opened.run.overrides),
            checksum=checksum_of(opened),
            max_jobs=limits.jobs,
            realtime=opened.run.realtime,
            simulated_s=limits.simulated_s,
            owner=key_of(session.address),
        )
        session.journal = self._journals.create(folder_name(session))
        if session.journal is not None:
            session.journal.append(record)

    def exchanged(
        self, session: Session, request: bytes, reply: bytes, elapsed_s: float | None
    ) -> None:
        """Record decisions that a session has carried out, and its reply."""
        if session.journal is not None:
            record = records.ExchangeRecord(request, reply, elapsed_s)
            session.journal.append_exchange(record, session.seq)

    def resumed(self, session: Session, reply: bytes) -> None:
        """Record that a client got a snapshot. Another one at the same request changes nothing."""
        if session.journal is not None and session.resumed_at != session.seq:
            session.journal.append_snapshot(records.ResumedRecord(reply))
        session.resumed_at = session.seq

    def ended(self, session: Session, cause: Cause | None) -> None:
        """Record the end of a session. The stop of the server does not end it: it can go on."""
        if self._journals is None or session.journal is None:
            return
        if cause == "stopped":
            log.info("session_kept", session=session.label, journal=session.journal.name)
            session.journal = None
        elif session.journal.failure:  # it would restore the session to a state before its end
            self._journals.finish(session.journal)
            session.journal = None
        else:
            session.journal.append(records.EndedRecord(session.ended_because, cause or ""))
            self._journals.settle(session.journal)

    def written(self, session: Session) -> None:
        """Finish the journal of a session whose results are written."""
        if self._journals is not None and session.journal is not None:
            session.journal.append(records.WrittenRecord())
            self._journals.finish(session.journal)
            session.journal = None

    def dropped(self, session: Session) -> None:
        """Remove the journal of a session that does not count."""
        if self._journals is not None and session.journal is not None:
            self._journals.drop(session.journal)
            session.journal = None

    def tick(self) -> None:
        """Synchronise the journals with the disk if it is time."""
        if self._journals is not None:
            self._journals.tick()

    def close(self) -> None:
        """Close the journals. Sessions that are open can be restored from them."""
        if self._journals is not None:
            self._journals.close()


def checksum_of(opened: Opened) -> str:
    """Return the SHA-256 of what a simulation depends on, except for the code and the client.

    It covers the scenario with its overrides, and by their checksums the files of its workload and
    of its economics.
    """
    run = opened.run
    parts = (
        run.scenario,
        run.seed,
        run.effective_scenario,
        run.workload_source,
        run.economics,
        run.skipped,
        opened.jobs,
    )
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


def history_of(session: Session, request: protocol.GetHistory) -> protocol.History:
    """Return requests and replies of a session.

    Raises:
        SessionRefused: the journal of the session was closed.
    """
    journal = session.journal
    if journal is None or journal.file is None:
        what = "get_history: the server has no history of the session; resume it with a snapshot"
        raise SessionRefused("invalid_message", what)
    history = protocol.History(after=request.after)
    after = request.after
    if session.resumed_at >= max(after, 0) and session.seq >= after:
        history.snapshot, history.snapshot_s = _snapshot(journal.file, journal.snapshot_at)
        after = session.resumed_at
    history.exchanges = list(_exchanges(journal, journal.file, after))
    return history


def _snapshot(file: JournalFile, place: int) -> tuple[list[protocol.Event], float]:
    """Return the snapshot at a place of a journal, and its time."""
    record = next(iter(records.JournalReader(file, place))).record
    assert isinstance(record, records.ResumedRecord)
    welcome = protocol.decode_server_message(record.reply)
    assert isinstance(welcome, protocol.Welcome)
    return welcome.snapshot, welcome.now_s


def _exchanges(
    journal: records.JournalWriter, file: JournalFile, after: int
) -> Iterator[protocol.Exchange]:
    size = 0
    for placed in records.JournalReader(file, journal.place_of(after + 1) or None):
        record = placed.record
        if not isinstance(record, records.ExchangeRecord):
            continue
        request = protocol.decode_client_message(record.request)
        reply = protocol.decode_server_message(record.reply)
        assert isinstance(request, protocol.Decisions)
        assert isinstance(reply, protocol.Events)  # any other reply ends the session
        if request.seq > after:
            yield protocol.Exchange(request=request, reply=reply)
            size += placed.end - placed.start
            if size >= PAGE_BYTES:
                return
