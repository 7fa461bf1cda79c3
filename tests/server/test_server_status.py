"""The status of a server: what its processes tell, and what makes it unhealthy."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from hpcosim_protocol import (
    Error,
    GetStatus,
    Hello,
    ServerStatus,
    SessionStatus,
    decode_server_message,
    encode,
)
from hpcosim_server.service.control import Load, WorkerReport
from hpcosim_server.service.front import Routes
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.service import Service
from hpcosim_server.service.vitals import later, merged
from hpcosim_server.wire.post import Post
from support.journaled import JournaledScheduler, JournaledServer


@pytest.fixture
def server(tmp_path: Path) -> JournaledServer:
    """Return a server without sessions."""
    return JournaledServer(tmp_path)


def status_of(service: Service) -> ServerStatus:
    """Return the status of a service, as a client gets it."""
    status = decode_server_message(service.answer(encode(GetStatus())))
    assert isinstance(status, ServerStatus)
    return status


def test_open_sessions_are_described_without_secrets(server: JournaledServer) -> None:
    """The status has the label, the progress and the silence of a session, and not its name."""
    scheduler = JournaledScheduler(server)
    scheduler.step()
    server.pass_time(7.0)
    status = status_of(server.service)
    (session,) = status.sessions
    assert (session.label, session.scheduler, session.jobs) == (
        scheduler.session[:8],
        "easy",
        12,
    )
    assert session.now_s == scheduler.view.now_s
    assert session.silent_s == pytest.approx(7.0, abs=1e-3)
    assert scheduler.session.encode() not in encode(status)
    assert (status.journal, status.results, status.problems()) == ("ok", "ok", [])


def test_asking_for_the_status_does_not_end_the_silence_of_a_session(
    server: JournaledServer,
) -> None:
    """A session whose client is gone ends on time, however often the status is asked for."""
    JournaledScheduler(server).step()
    for _ in range(8):
        server.pass_time(100.0)
        status_of(server.service)
    status = status_of(server.service)
    assert (status.sessions_active, status.sessions_over) == (0, 1)
    assert status.failures == {"client_silent": 1}


def test_refused_sessions_are_counted(server: JournaledServer) -> None:
    """A hello that opens no session counts."""
    server.limits = Limits(sessions=1)
    server.kill()
    JournaledScheduler(server)
    assert isinstance(server.send(Hello(versions=[1])), Error)
    assert status_of(server.service).sessions_refused == 1


def test_a_journal_that_cannot_be_written_is_a_problem_until_its_session_ends(
    server: JournaledServer,
) -> None:
    """A full disk makes a server unhealthy; with room again and a new journal it is healthy."""
    scheduler = JournaledScheduler(server)
    server.disk.room = 10
    scheduler.step()
    status = status_of(server.service)
    assert (status.journal, status.journals_failed) == ("failing", 1)
    assert status.problems() == ["journals cannot be written"]
    server.disk.room = None
    scheduler.finish()
    status = status_of(server.service)
    assert (status.journal, status.journals_failed, status.problems()) == ("ok", 1, [])


def test_a_journal_that_cannot_be_created_is_a_problem(server: JournaledServer) -> None:
    """A session without a journal makes a server unhealthy."""
    server.disk.room = 0
    JournaledScheduler(server)
    status = status_of(server.service)
    assert (status.journal, status.journals_failed) == ("failing", 1)


def test_results_that_cannot_be_written_are_a_problem_until_others_are(
    server: JournaledServer,
) -> None:
    """The last results that were written, or not, decide."""
    server.out.write_text("in the way")
    scheduler = JournaledScheduler(server)
    while not scheduler.ended:
        scheduler.step()
    server.service.tidy()
    assert status_of(server.service).problems() == ["results cannot be written"]
    server.out.unlink()
    JournaledScheduler(server).finish()
    status = status_of(server.service)
    assert (status.problems(), status.failures) == ([], {"results_not_written": 1})


def test_a_stopped_service_drains(server: JournaledServer) -> None:
    """A service that ends still tells its status."""
    JournaledScheduler(server)
    server.service.stop("stopped by SIGTERM")
    assert status_of(server.service).problems() == ["draining"]


def test_the_status_of_several_processes_is_their_sum() -> None:
    """Counters are added, sessions are joined, and the worst state counts."""
    one = ServerStatus(
        server="s",
        memory_mb=10.0,
        sessions=[SessionStatus(label="a", silent_s=1.0)],
        sessions_active=1,
        sessions_over=2,
        failures={"client_left": 1},
        journal="ok",
    )
    other = ServerStatus(
        server="s",
        memory_mb=5.0,
        sessions=[SessionStatus(label="b")],
        sessions_active=1,
        failures={"client_left": 2, "internal_error": 1},
        journal="failing",
        results="ok",
    )
    both = merged([later(one, 2.0), other])
    assert [(each.label, each.silent_s) for each in both.sessions] == [("a", 3.0), ("b", 0.0)]
    assert (both.memory_mb, both.sessions_active, both.sessions_over) == (15.0, 2, 2)
    assert both.failures == {"client_left": 3, "internal_error": 1}
    assert (both.journal, both.results) == ("failing", "ok")


def test_counters_of_a_worker_stay_when_it_ends() -> None:
    """A front adds what workers that have ended have counted."""
    routes = Routes([1, 2])
    posts = [cast(Post, object()) for _ in range(2)]
    for number, post in enumerate(posts, 1):
        route = routes.note(WorkerReport(Load(number, 3, 1, 2), 0), post, 0.0)
        route.status = ServerStatus(server="s", sessions_active=1, sessions_over=2, journal="ok")
    routes.lose(posts[1])
    status = routes.status(1.0)
    assert (status.sessions_active, status.sessions_over, status.journal) == (1, 4, "ok")
