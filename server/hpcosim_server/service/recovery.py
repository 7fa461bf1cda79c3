"""Which sessions a process of a server restores from their journals, and when."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from hpcosim_protocol import Decisions, DecodeError, decode_client_message
from hpcosim_server import log
from hpcosim_server.errors import JournalError
from hpcosim_server.journal.reader import JournalReader
from hpcosim_server.journal.records import EndedRecord, ExchangeRecord, OpenedRecord
from hpcosim_server.journal.store import Journals
from hpcosim_server.journal.writer import JournalWriter
from hpcosim_server.service.closed import ClosedSession, closed_session
from hpcosim_server.service.rerun import Rerun, open_again, opened_record, run_again
from hpcosim_server.service.service import Service
from hpcosim_server.service.sessions import FIRST_WORKER, worker_of

RECALLED = 100
"""Number of ended sessions whose last reply a restarted server can repeat."""


class Recovery:
    """Restores sessions: those of an earlier server, and those of a worker that was killed.

    Args:
        journals: the journals; None: none are kept.
        resume: whether the sessions of an earlier server go on.
    """

    def __init__(self, journals: Journals | None, *, resume: bool) -> None:
        self._journals = journals
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

    @property
    def keeps_journals(self) -> bool:
        """Whether sessions survive their process."""
        return self._journals is not None

    def workers(self) -> set[int]:
        """Return the numbers of the workers that sessions of an earlier server need."""
        found = set[int]()
        if self._journals is None or not self._resume:
            return found
        for name in self._journals.open_names():
            try:
                file = self._journals.read(name)
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
            service: the service of the process.
            worker: number of the worker; None: the server is one process.
            again: whether the worker was started before.
        """
        if self._journals is None or not (again or self._resume):
            return
        workers = (worker, 0) if worker == FIRST_WORKER else (worker,)
        for one in workers:  # the first worker has the sessions of a server of one process, too
            restore(service, self._journals, of_worker=one, skip=self._foreign, counted=again)


class Restored(NamedTuple):
    """What was restored.

    Attributes:
        sessions: number of open sessions.
        ended: number of sessions that had ended, and whose results are written now.
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
        service: a service that keeps its journals in `journals`, before its first message.
        journals: the journals.
        of_worker: number of the worker whose sessions are restored; None: all sessions.
        skip: names of journals that stay as they are.
        counted: whether the sessions are among those that the server has opened.
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
    """Restore a session; return whether it is open, or None if there is none of this worker.

    Raises:
        JournalError: the session cannot be restored.
    """
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
