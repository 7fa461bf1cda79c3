"""Budgets of a server with several processes: they hold for all of them together."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import pytest

from hpcosim_client import Connection, ServerRefusedError
from hpcosim_protocol import Decisions, Hello
from hpcosim_scenarios.running.library import Library
from hpcosim_server.errors import SessionRefused
from hpcosim_server.service import service as services
from hpcosim_server.service.admission import MIB, Admission
from hpcosim_server.service.countdown import Countdown
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.service import Service
from hpcosim_server.service.sessions import (
    ClosedSession,
    ClosedSessions,
    OpenSessions,
    Part,
    Totals,
)
from hpcosim_server.wire.log_rate import LogRate
from support.processes import SCENARIO, Processes, Server

# The threads of pytest-xdist hold no lock that the children need.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@contextmanager
def beside(act: Callable[[], object]) -> Iterator[int]:
    """Yield the number of a process that has done something and lives until the end, or a kill."""
    told, tells = os.pipe()
    waits, goes_on = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(goes_on)
            act()
            os.write(tells, b"done")
            os.read(waits, 1)
        finally:
            os._exit(0)
    os.close(tells)
    os.close(waits)
    try:
        assert os.read(told, 4) == b"done"
        yield child
    finally:
        os.close(goes_on)
        os.close(told)
        os.waitpid(child, 0)


def ask(service: Service, kind: str, **fields: Any) -> dict[str, Any]:
    """Return the reply to a message."""
    reply: dict[str, Any] = msgpack.unpackb(service.answer(msgpack.packb({"type": kind, **fields})))
    return reply


def partial_run(service: Service) -> None:
    """Let a session end early, after a request."""
    name = ask(service, "hello", versions=[1])["session"]
    ask(service, "decisions", session=name, seq=1, decisions=[])
    ask(service, "bye", session=name)
    service.tidy()


def in_each(totals: Totals, limits: Limits, out: Path) -> Callable[..., Service]:
    """Return what makes the service of each process."""
    path = out.parent / "small.yaml"
    path.write_text(SCENARIO.format(name="small", jobs=40))
    folders = Countdown(limits.partial_results)
    library = Library([path])
    return partial(Service, library.open, limits, out, totals=totals, folders=folders)


def test_the_part_of_a_killed_process_does_not_count() -> None:
    """Parts of other processes are added up as long as these live; a new process starts at 0."""
    totals = Totals()
    totals.state(Part.JOBS, 5)
    with beside(lambda: totals.state(Part.JOBS, 70)) as first:
        with beside(lambda: totals.state(Part.JOBS, 8)):
            assert totals.of_others(Part.JOBS) == 78
            os.kill(first, signal.SIGKILL)
            os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
            assert totals.of_others(Part.JOBS) == 8
        with beside(lambda: totals.state(Part.KEPT_BYTES, 1)):
            assert totals.of_others(Part.JOBS) == 0


def test_a_process_that_is_killed_while_it_decides_stops_no_other() -> None:
    """The kernel takes the lock back."""
    totals = Totals()
    deciding = totals.decision()
    with beside(deciding.__enter__) as child:
        os.kill(child, signal.SIGKILL)
        with totals.decision():
            totals.state(Part.JOBS, 1)


def test_jobs_of_all_processes_are_bounded(tmp_path: Path) -> None:
    """A session is refused for the jobs of another process, and admitted after its end."""
    new_service = in_each(Totals(), Limits(total_jobs=100), tmp_path / "out")
    service = new_service()

    def open_two() -> None:
        other = new_service()
        for _ in range(2):
            assert ask(other, "hello", versions=[1])["type"] == "welcome"

    with beside(open_two):
        refused = ask(service, "hello", versions=[1])
        assert refused["code"] == "too_many_sessions"
        assert "80 jobs" in refused["message"]
        assert "limits.max_total_jobs" in refused["message"]
    assert ask(service, "hello", versions=[1])["type"] == "welcome"


def test_open_sessions_of_all_processes_are_bounded(tmp_path: Path) -> None:
    """A hello that a front has not counted is refused: a copy of one whose session is over.

    A copy of one whose session is open gets its welcome, and a session that ends leaves its place.
    """
    new_service = in_each(Totals(), Limits(sessions=2), tmp_path / "out")
    service = new_service()
    session = ask(service, "hello", versions=[1], nonce="one")["session"]
    ask(service, "bye", session=session)
    with beside(lambda: ask(new_service(), "hello", versions=[1])):
        welcome = ask(service, "hello", versions=[1], nonce="two")
        assert welcome["type"] == "welcome"
        refused = ask(service, "hello", versions=[1], nonce="one")
        assert refused["code"] == "too_many_sessions"
        assert "2 sessions are open" in refused["message"]
        assert ask(service, "hello", versions=[1], nonce="two") == welcome
        ask(service, "bye", session=welcome["session"])
        assert ask(service, "hello", versions=[1], nonce="one")["type"] == "welcome"
    assert ask(service, "hello", versions=[1], nonce="three")["type"] == "welcome"


def test_a_session_that_could_not_be_opened_leaves_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place and its jobs are free for other processes, and it does not count for `--once`."""
    new_service = in_each(Totals(), Limits(sessions=1, total_jobs=40), tmp_path / "out")

    def fail(*_: object) -> Any:
        raise MemoryError

    def open_none() -> None:
        monkeypatch.setattr(services, "Session", fail)
        assert ask(new_service(), "hello", versions=[1])["code"] == "internal_error"

    with beside(open_none):
        assert ask(new_service(), "hello", versions=[1])["type"] == "welcome"
    with monkeypatch.context() as once:
        once.setattr(services, "Session", fail)
        service = new_service(sessions=1)
        assert ask(service, "hello", versions=[1])["code"] == "internal_error"
    assert ask(service, "hello", versions=[1])["type"] == "welcome"


def test_memory_of_all_processes_is_bounded() -> None:
    """A hello is refused for the memory of another process."""
    totals, limits = Totals(), Limits(memory_bytes=100 * MIB)

    def admission(used: int) -> Admission:
        return Admission(
            limits, OpenSessions(), Countdown(None), fail, totals, used=lambda: used * MIB
        )

    def fail(_: Hello) -> Any:
        raise LookupError

    with beside(lambda: admission(70).note_memory()), pytest.raises(SessionRefused) as no:
        admission(31).open(Hello(versions=[1]))
    assert "limits.max_memory_mb" in no.value.what
    with pytest.raises(LookupError):
        admission(31).open(Hello(versions=[1]))


def test_last_replies_of_all_processes_are_bounded() -> None:
    """A process keeps what others leave: its oldest replies go first."""
    totals = Totals()

    def closed(*names: str) -> ClosedSessions:
        sessions = ClosedSessions(10, 100, totals)
        for name in names:
            sessions.remember(name, ClosedSession("over", 3, 40 * b"x"))
        return sessions

    def kept(sessions: ClosedSessions, *names: str) -> list[bool]:
        asked = [Decisions(session=name, seq=3, decisions=[]) for name in names]
        return [sessions.repeated_reply(request) is not None for request in asked]

    with beside(lambda: closed("a")):
        assert kept(closed("b", "c"), "b", "c") == [False, True]
        with beside(lambda: closed("d")):
            assert totals.of_others(Part.KEPT_BYTES) == 40  # there was no room for another
    assert kept(closed("e", "f"), "e", "f") == [True, True]


def test_results_of_partial_sessions_of_all_processes_are_bounded(tmp_path: Path) -> None:
    """The folders that one process has made are not there for another one."""
    out = tmp_path / "out"
    new_service = in_each(Totals(), Limits(partial_results=3), out)

    def two() -> None:
        other = new_service()
        for _ in range(2):
            partial_run(other)

    with beside(two):
        service = new_service()
        for _ in range(5):
            partial_run(service)
    assert len(list(out.iterdir())) == 3


def test_log_lines_of_all_processes_are_bounded() -> None:
    """Forked processes share one bucket; each counts what it left out."""
    rate = LogRate(2.0, 3, lambda: 0.0)
    with beside(lambda: [rate.admits() for _ in range(2)]):
        assert [rate.admits() for _ in range(3)] == [True, False, False]
        assert rate.take_left_out() == 2


@pytest.mark.slow
def test_jobs_of_all_workers_are_bounded(processes: Processes, tmp_path: Path) -> None:
    """A server with two workers refuses the jobs that its two sessions would have together."""
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO.format(name="small", jobs=40))
    options = ("--workers", "2", "--set", "limits.max_total_jobs=79")
    server = Server(processes, path, *options, out=tmp_path / "out")
    with Connection(server.address) as first, Connection(server.address) as second:
        names = [first.hello(client="a").session]
        with pytest.raises(ServerRefusedError, match="the open sessions have 40 jobs"):
            second.hello(client="b")
        first.bye()
        names.append(second.hello(client="c").session)
    server.process.terminate()
    assert server.end() == 0
