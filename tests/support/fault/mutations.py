"""Planted bugs, each of which the simulated runs must find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from hpcosim_client import connection
from hpcosim_protocol import Error, JobSubmitted, encode
from hpcosim_server.engine.simulation import Simulation
from hpcosim_server.journal.writer import JournalWriter
from hpcosim_server.service import outcomes
from hpcosim_server.service.closed import ClosedSessions
from hpcosim_server.service.handling import Handling
from hpcosim_server.service.held import HeldReplies
from hpcosim_server.service.idle_clock import IdleClock
from hpcosim_server.service.journaling import Journaling
from hpcosim_server.service.outcomes import Outcomes
from hpcosim_server.service.session import Session
from hpcosim_server.service.sessions import OpenSessions
from support.fault.disk import SimulatedFile
from support.fault.host import Host
from support.fault.plan import Plan, Window

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


_find = Handling._find


def _finds_another(handling: Handling, name: str, address: bytes) -> Session:
    """Return the session that was opened last."""
    _find(handling, name, address)
    return list(handling.shared.sessions)[-1]


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
    exchanged, tick = Journaling.exchanged, Journaling.tick

    def flush(journaling: Journaling) -> None:
        while late:
            exchanged(*late.pop(0))
        tick(journaling)

    def kill(host: Host, away_s: float) -> None:
        late.clear()
        leave(host, away_s)

    leave = Host._leave
    monkeypatch.setattr(Journaling, "exchanged", lambda *record: late.append(record))
    monkeypatch.setattr(Journaling, "tick", flush)
    monkeypatch.setattr(Host, "_leave", kill)


MUTATIONS: Mapping[str, Plant] = {
    "a repeated request is carried out again": _instead(Session, "decide", _executes_again),
    "requests of any seq are carried out": _instead(Session, "decide", _any_seq),
    "the last answer is forgotten": _instead(Session, "decide", _forgets_the_answer),
    "a session is taken for another": _instead(Handling, "_find", _finds_another),
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
    "two sessions share a folder": _instead(outcomes, "folder_name", lambda _: "results-00000001"),
    "a record is written after its reply": _journals_later,
    "a record is not synchronised": _instead(JournalWriter, "sync", _nothing),
    "a request is not in the journal": _instead(Journaling, "exchanged", _nothing),
    "the end of a journal is kept": _instead(SimulatedFile, "truncate", _nothing),
    "the client takes a late reply": _instead(connection, "answers", lambda *_: True),
}
"""The planted bugs, by what is wrong."""

_KILLS = (Window(2.0, 2.0), Window(5.0, 2.0), Window(9.0, 2.0))
_CLIENT_KILLS = Plan(latency_s=0.3, client_crashes=_KILLS)
_SERVER_KILLS = Plan(latency_s=0.3, server_crashes=_KILLS, journal="always")
FOCUS: Mapping[str, Plan] = {
    "a client that comes back gets the first welcome": _CLIENT_KILLS,
    "the snapshot lacks a job": _CLIENT_KILLS,
    "a record is written after its reply": _SERVER_KILLS,
    "a record is not synchronised": replace(_SERVER_KILLS, power_fails=True),
    "the end of a journal is kept": _SERVER_KILLS,
    "a stopped server closes sessions": Plan(3, latency_s=0.3, server_stops=(Window(2.0, 60.0),)),
}
"""The faults of runs that find bugs which the seeds on their own find within 40 to 120 runs."""
