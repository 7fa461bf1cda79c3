"""Restores sessions: each runs again from its journal, and its replies are compared.

A session that cannot be restored is a `JournalError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import msgspec

from hpcosim_protocol import Decisions, DecodeError, Hello, Welcome, decode_client_message
from hpcosim_protocol import decode_client_message as decode_request
from hpcosim_protocol import decode_server_message as decode_reply
from hpcosim_server import log
from hpcosim_server.errors import JournalError, SessionRefused
from hpcosim_server.journal.journal_file import (
    EndedRecord,
    ExchangeRecord,
    JournalReader,
    JournalWriter,
    OpenedRecord,
    PlacedRecord,
    ResumedRecord,
    WrittenRecord,
)
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Opened, Session
from hpcosim_server.service.session_journals import checksum_of
from hpcosim_server.service.sessions import FIRST_WORKER, ClosedSession, closed_session, worker_of
from hpcosim_server.service.status import Cause
from hpcosim_server.wire.listener import address_with

RECALLED = 100
"""Number of ended sessions whose last reply a restarted server can repeat."""

MAX_SHOWN = 500


class Recovery:
    """Restores sessions: those of an earlier server, and those of a worker that was killed.

    Args:
        journals: the journals; None: none are kept.
        resume: whether the sessions of an earlier server go on.
    """

    def __init__(self, journals: Journals | None, *, resume: bool) -> None:
        self.journals = journals
        self._resume = resume
        self._foreign = frozenset[str]()
        if journals is not None and not resume and (names := journals.open_names()):
            self._foreign = frozenset(names)
            log.warning(
                "sessions_not_restored",
                journals=len(names),
                folder=str(journals.folder),
                hint="an earlier server left open sessions here; restore them with --resume",
            )

    def workers(self) -> set[int]:
        """Return the numbers of the workers that sessions of an earlier server need."""
        found = set[int]()
        if self.journals is None or not self._resume:
            return found
        for name in self.journals.open_names():
            try:
                file = self.journals.read(name)
            except JournalError:
                continue  # `restore` reports it
            try:
                reader = JournalReader(file)
                record = opened_record(iter(reader), reader)
            except JournalError:
                continue
            finally:
                file.close()
            if record is not None:
                found.add(worker_of(record.session))
        return found

    def recover(self, service: Service, worker: int | None = None, *, again: bool = False) -> None:
        """Restore the sessions of a process, before its first message.

        Args:
            worker: number of the worker; None: the server is one process.
        """
        if self.journals is None or not (again or self._resume):
            return
        workers = (worker, 0) if worker == FIRST_WORKER else (worker,)
        for one in workers:  # the first worker has the sessions of a server of one process, too
            restore(service, self.journals, of_worker=one, skip=self._foreign, counted=again)


class Restored(NamedTuple):
    """What was restored.

    Attributes:
        refused: the journals that could not be restored, with the reason.
    """

    sessions: int
    ended: int
    refused: dict[str, str]


def restore(
    service: Service,
    journals: Journals,
    *,
    of_worker: int | None = None,
    skip: Collection[str] = (),
    counted: bool = False,
) -> Restored:
    """Restore the sessions that were open, and write results that were not written.

    Each session runs again from its journal in a new simulation, and each reply is compared with
    the recorded one. A session that differs is refused: its journal stays as it is.

    Args:
        skip: names of journals that stay as they are.
    """
    sessions = ended = 0
    refused: dict[str, str] = {}
    for name in journals.open_names():
        if name in skip:
            continue
        try:
            is_open = _restore(service, journals, name, of_worker, counted=counted)
        except JournalError as error:
            refused[name] = str(error)
            log.error("session_not_restored", journal=name, error=str(error))
        else:
            sessions += is_open is True
            ended += is_open is False
    for name in journals.ended_names()[-RECALLED:]:
        _recall(service, journals, name, of_worker)
    if sessions or ended or refused:
        log.info("restored", sessions=sessions, ended=ended, refused=len(refused))
    return Restored(sessions, ended, refused)


def _restore(
    service: Service, journals: Journals, name: str, of_worker: int | None, *, counted: bool
) -> bool | None:
    """Restore a session; return whether it is open, or None if there is none of this worker."""
    file = journals.read(name)
    try:
        reader = JournalReader(file)
        records = iter(reader)
        opening = opened_record(records, reader)
        if opening is None:
            if of_worker is None:  # otherwise another worker may be about to write it
                journals.discard(name)
            return None
        if of_worker is not None and worker_of(opening.session) != of_worker:
            return None
        try:
            rerun = Rerun(open_again(opening, service.new_session))
            for _ in run_again(rerun, records):
                pass
        except JournalError:
            why = "it could not be restored; see the server's log"
            service.closed.remember(opening.session, ClosedSession(why, 0, b""))
            raise
    finally:
        file.close()
    if reader.fault:
        log.warning("journal_cut", journal=name, error=reader.fault)
    writer = journals.go_on(name, reader.end, keep_rest=not reader.is_cut)
    for seq, offset in rerun.places:
        writer.mark(seq, offset)
    writer.snapshot_at = rerun.snapshot_at
    _adopt(service, journals, rerun, writer, counted=counted)
    return not rerun.session.ended_because


def _adopt(
    service: Service, journals: Journals, rerun: Rerun, writer: JournalWriter, *, counted: bool
) -> None:
    """Add a session that ran again to a service."""
    session = rerun.session
    if rerun.written:  # the server was killed before it moved the journal
        journals.finish(writer)
        service.closed.remember(session.name, closed_session(session))
        return
    session.journal = writer
    service.adopt(session, rerun.cause, counted=counted)


def _recall(service: Service, journals: Journals, name: str, of_worker: int | None) -> None:
    """Let a service repeat the last reply of an ended session."""
    session, owner, why, last = "", b"", "", None
    try:
        file = journals.read(name, ended=True)
        try:
            for placed in JournalReader(file):
                record = placed.record
                if isinstance(record, OpenedRecord):
                    session, owner = record.session, record.owner
                    if of_worker is not None and worker_of(session) != of_worker:
                        return
                elif isinstance(record, ExchangeRecord):
                    last = record
                elif isinstance(record, EndedRecord):
                    why = record.why
        finally:
            file.close()
        request = decode_client_message(last.request) if last else None
    except (JournalError, DecodeError) as error:
        log.warning("journal_not_read", journal=name, error=str(error))
        return
    seq = request.seq if isinstance(request, Decisions) else 0
    reply = last.reply if last else b""
    service.closed.remember(session, ClosedSession(why, seq, reply, owner))


@dataclass(slots=True)
class Rerun:
    """A session that runs again.

    Attributes:
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


def opened_record(records: Iterator[PlacedRecord], reader: JournalReader) -> OpenedRecord | None:
    """Return the first record of a journal; None: it was cut off, so no client got a reply."""
    placed = next(records, None)
    if placed is not None and isinstance(placed.record, OpenedRecord):
        return placed.record
    if placed is None and (reader.is_cut or not reader.fault):
        return None
    why = reader.fault or "its first record is of another kind"
    raise JournalError(f"expected a journal that begins with the opening of a session: {why}")


def open_again(record: OpenedRecord, open_simulation: Callable[[Hello], Opened]) -> Session:
    """Open a session again."""
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
    opened.run.realtime = record.realtime
    # Its requests were within the other limits of the server of that time.
    limits = Limits(elapsed_s=math.inf, simulated_s=record.simulated_s)
    address = address_with(record.owner)
    session = Session(record.session, hello, opened, welcome.options, 0.0, address, limits)
    _compare(0, 0.0, record.welcome, session.welcome())
    return session


def run_again(rerun: Rerun, records: Iterator[PlacedRecord]) -> Iterator[Rerun]:
    """Carry out the records of a journal; yield before each, and after the last one."""
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
    reply = session.decide(request, record.elapsed_s)
    _compare(request.seq, session.opened.simulation.now_s, record.reply, reply)


def _compare(seq: int, now_s: float, expected: bytes, got: bytes) -> None:
    """Compare a recorded reply and a new one, byte by byte."""
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
