"""Planted bugs, each of which the simulated runs must find."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from hpcosim_client import connection as client_connection
from hpcosim_protocol import Error, JobSubmitted, encode
from hpcosim_protocol.zmtp import Rest
from hpcosim_server.journal.journal_file import JournalWriter
from hpcosim_server.journal.store import Journals
from hpcosim_server.service import front, outcomes, sessions
from hpcosim_server.service.admission import Admission
from hpcosim_server.service.control import WorkerReport
from hpcosim_server.service.countdown import IdleClock
from hpcosim_server.service.front import Routes
from hpcosim_server.service.held_replies import HeldReplies
from hpcosim_server.service.outcomes import Outcomes
from hpcosim_server.service.recovery import restore
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Session
from hpcosim_server.service.session_journals import SessionJournals
from hpcosim_server.service.sessions import ClosedSessions, OpenSessions, worker_of
from hpcosim_server.service.worker import WorkerDoor
from hpcosim_server.wire import post
from hpcosim_server.wire.peer import MovedConnection
from hpcosim_server.wire.peers import Peers, Roster
from hpcosim_sim.engine.simulation import Simulation
from support.fault import fleet
from support.fault.disk import SimulatedFile
from support.fault.host import Host
from support.fault.plan import FleetPlan, Plan, Window
from support.fault.totals import SimulatedTotals

Plant = Callable[[pytest.MonkeyPatch], None]


def _instead(owner: Any, name: str, other: Callable[..., Any]) -> Plant:
    """Return what puts a function in the place of another one."""
    return lambda monkeypatch: monkeypatch.setattr(owner, name, other)


def _nothing(*_: Any, **__: Any) -> None:
    """Stands for a function that was forgotten."""


def _executes_again(session: Session, request: Any, elapsed_s: float | None = None) -> bytes:
    """Carry out a repeated request again."""
    if request.seq not in (session.seq, session.seq + 1) or request.seq == 0:
        return encode(Error(code="out_of_order", message="", seq=request.seq))
    answer = encode(session._advance(request, request.elapsed_s))
    session.seq, session.last_answer, session._last_request = request.seq, answer, request
    return answer


def _any_seq(session: Session, request: Any, elapsed_s: float | None = None) -> bytes:
    """Carry out every request, whatever its number."""
    answer = encode(session._advance(request, request.elapsed_s))
    session.seq, session.last_answer, session._last_request = request.seq, answer, request
    return answer


_decide = Session.decide


def _forgets_the_answer(session: Session, request: Any, elapsed_s: float | None = None) -> bytes:
    session._last_request = None
    return _decide(session, request, elapsed_s)


_find = Service._find


def _finds_another(service: Service, name: str, address: bytes) -> Session:
    """Return the session that was opened last."""
    _find(service, name, address)
    return list(service._open)[-1]


def _drops_at_a_repeated_hello(
    sessions: OpenSessions, hello: Any, address: bytes = b""
) -> Session | None:
    known = sessions._by_nonce.get(hello.nonce)
    if known is not None:
        sessions.remove(known)
    return None


def _keeps_the_nonce(sessions: OpenSessions, session: Session) -> None:
    del sessions._by_name[session.name]


_snapshot = Simulation.snapshot


def _stale_welcome(session: Session) -> bytes:
    """Return the first welcome to a client that comes back."""
    return session.welcome()


def _snapshot_without_a_job(simulation: Simulation) -> Any:
    events = _snapshot(simulation)
    lost = next((each for each in events if isinstance(each, JobSubmitted)), None)
    return [each for each in events if each is not lost]


def _journals_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the records of requests after their replies."""
    late: list[tuple[Any, ...]] = []
    exchanged, tick = SessionJournals.exchanged, SessionJournals.tick

    def flush(journaling: SessionJournals) -> None:
        while late:
            exchanged(*late.pop(0))
        tick(journaling)

    def kill(host: Host, away_s: float) -> None:
        late.clear()
        leave(host, away_s)

    leave = Host._leave
    monkeypatch.setattr(SessionJournals, "exchanged", lambda *record: late.append(record))
    monkeypatch.setattr(SessionJournals, "tick", flush)
    monkeypatch.setattr(Host, "_leave", kill)


_close = Service._close


def _close_others(service: Service, session: Session, failed: Any) -> None:
    if failed != "internal_error":
        _close(service, session, failed)


_release = Peers.release
_kept: list[socket.socket] = []


def _release_without_rest(peers: Peers, address: bytes) -> MovedConnection | None:
    moved = _release(peers, address)
    return moved and moved._replace(rest=Rest())


def _release_twice(peers: Peers, address: bytes) -> MovedConnection | None:
    """Give a connection away, and keep its descriptor."""
    moved = _release(peers, address)
    if moved is None:
        return None
    _kept.append(moved.connection)
    return moved._replace(connection=moved.connection.dup())


_note = Routes.note


def _note_without_nonces(routes: Routes, told: WorkerReport, *rest: Any) -> Any:
    return _note(routes, structs.replace(told, nonces=()), *rest)


def _restore_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker restores the sessions of all workers."""

    def restore_all(*args: Any, of_worker: int | None = None, **options: Any) -> Any:
        return restore(*args, of_worker=None, **options)

    monkeypatch.setattr(fleet, "restore", restore_all)


def _dismiss_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers without sessions leave at once, and give no connection back."""
    monkeypatch.setattr(Routes, "idle", lambda routes, _: routes.free()[1:])
    monkeypatch.setattr(WorkerDoor, "_give_back", lambda door, *_: None)


def _strict(body: bytes) -> int | None:
    about = sessions._about.decode(body)
    return worker_of(about.session) or 1 if about.session else 0


FLEET_MUTATIONS: Mapping[str, Plant] = {
    "a connection moves without what is unread": _instead(Peers, "release", _release_without_rest),
    "a connection that moves stays open": _instead(Peers, "release", _release_twice),
    "descriptors are not closed when they are sent": _instead(post, "_close_all", _nothing),
    "the front forgets nonces": _instead(Routes, "of_nonce", lambda *_: 0),
    "a new front does not learn nonces": _instead(Routes, "note", _note_without_nonces),
    "a worker restores the sessions of others": _restore_all,
    "a worker restores nothing": _instead(fleet, "restore", _nothing),
    "a request that waited is not read again": _instead(Peers, "unpark", _nothing),
    "requests go to any worker": _instead(front, "destination", lambda _: 0),
    "a damaged text ends the front": _instead(front, "destination", _strict),
    "workers with a hello on its way leave": _dismiss_at_once,
    "a connection that is gone is kept": _instead(Roster, "close", _nothing),
    "a worker counts only its own sessions": _instead(SimulatedTotals, "of_others", lambda *_: 0),
}
"""Planted bugs of the front and the workers, by what is wrong."""

MUTATIONS: Mapping[str, Plant] = {
    "a repeated request is carried out again": _instead(Session, "decide", _executes_again),
    "requests of any seq are carried out": _instead(Session, "decide", _any_seq),
    "the last answer is forgotten": _instead(Session, "decide", _forgets_the_answer),
    "a session is taken for another": _instead(Service, "_find", _finds_another),
    "a repeated hello opens another session": _instead(OpenSessions, "opened_by", lambda *_: None),
    "a repeated hello drops the session": _instead(
        OpenSessions, "opened_by", _drops_at_a_repeated_hello
    ),
    "the nonce of a closed session is kept": _instead(OpenSessions, "remove", _keeps_the_nonce),
    "the last answer of a closed session is forgotten": _instead(
        ClosedSessions, "repeated_reply", lambda *_: None
    ),
    "a client that comes back gets the first welcome": _instead(Session, "resume", _stale_welcome),
    "the snapshot lacks a job": _instead(Simulation, "snapshot", _snapshot_without_a_job),
    "messages do not count against the idle timeout": _instead(Session, "note_message", _nothing),
    "a stopped server closes sessions": _instead(IdleClock, "note_pause", _nothing),
    "held replies are never sent": _instead(HeldReplies, "due", lambda _: ()),
    "results are not written": _instead(Outcomes, "add", _nothing),
    "a client does not learn that it has no results": _instead(Outcomes, "attempt", lambda *_: ""),
    "two sessions share a folder": _instead(outcomes, "folder_name", lambda _: "results-00000001"),
    "a record is written after its reply": _journals_later,
    "a record is not synchronised": _instead(JournalWriter, "sync", _nothing),
    "a request is not in the journal": _instead(SessionJournals, "exchanged", _nothing),
    "the end of a journal is kept": _instead(SimulatedFile, "truncate", _nothing),
    "the client takes a late reply": _instead(client_connection, "answers", lambda *_: True),
    "the name of a journal is not synchronised": _instead(Journals, "_sync_names", _nothing),
    "the end of a session is not synchronised": _instead(Journals, "settle", _nothing),
    "the removal of a journal is not synchronised": _instead(
        Journals, "_try_to_sync_names", _nothing
    ),
    "there may be any number of sessions": _instead(Admission, "_check_sessions", _nothing),
    "there may be any number of jobs": _instead(Admission, "_check_jobs", _nothing),
    "a session without memory stays open": _instead(Service, "_close", _close_others),
}
"""The planted bugs, by what is wrong."""

_KILLS = (Window(2.0, 2.0), Window(5.0, 2.0), Window(9.0, 2.0))
_CLIENT_KILLS = Plan(latency_s=0.3, client_crashes=_KILLS)
_SERVER_KILLS = Plan(latency_s=0.3, server_crashes=_KILLS, journal="always")
_POWER_LOST = tuple(Window(1.0 + 1.5 * number, 0.3) for number in range(14))
_END_LOST = Plan(
    3, latency_s=0.05, server_crashes=_POWER_LOST, journal="interval", power_fails=True
)
_REMOVED = replace(_END_LOST, disk_full=(Window(0.5, 4.0),), server_crashes=(Window(25.0, 1.0),))
FOCUS: Mapping[str, Plan] = {
    "a client does not learn that it has no results": Plan(1, disk_full=(Window(0.0, 50.0),)),
    "a client that comes back gets the first welcome": _CLIENT_KILLS,
    "the snapshot lacks a job": _CLIENT_KILLS,
    "a record is written after its reply": _SERVER_KILLS,
    "a record is not synchronised": replace(_SERVER_KILLS, power_fails=True),
    "the end of a journal is kept": _SERVER_KILLS,
    "the name of a journal is not synchronised": replace(_SERVER_KILLS, power_fails=True),
    "the end of a session is not synchronised": _END_LOST,
    "the removal of a journal is not synchronised": _REMOVED,
    "there may be any number of sessions": Plan(4, latency_s=0.3, max_sessions=1),
    "there may be any number of jobs": Plan(4, latency_s=0.3, total_jobs=20),
    "a session without memory stays open": Plan(2, latency_s=0.3, no_memory=0.05),
    "a stopped server closes sessions": Plan(3, latency_s=0.3, server_stops=(Window(2.0, 60.0),)),
}
"""The faults of runs that find bugs which the seeds on their own find within 40 to 120 runs."""

FLEET_FOCUS: Mapping[str, FleetPlan] = {
    "a connection moves without what is unread": FleetPlan(4, cuts=0.8),
    "a worker counts only its own sessions": FleetPlan(6, lost=0.1, refused=0.3, max_sessions=3),
}
"""The same, for runs with a front and workers."""
