"""Checks of a server's sessions: opened, resumed, repeated, left, and beside each other."""

from __future__ import annotations

from hpcosim_conformance.errors import expect
from hpcosim_conformance.servers.server import ServerUnderTest
from hpcosim_conformance.servers.session import Map, OpenSession, of_kind

UNKNOWN_SESSION = "0" * 24
SOME_STEPS = 5
STEPS_COMPARED = 200
STEPS_APART = 20


def hello_again(server: ServerUnderTest) -> None:
    """A hello sent again with its nonce opens no second session; a changed one is refused."""
    hello = server.hello()
    session = OpenSession(server.ask, server.welcome(hello))
    first = server.body
    session.step()
    server.welcome(hello)
    expect(server.body == first, "R-nonce", "the second welcome differs from the first")
    other = hello | {"client": "another client"}
    server.refuses(other, "invalid_message", "R-nonce-differs")
    session.step()


def other_nonces(server: ServerUnderTest) -> None:
    """Hellos with other nonces, or with none, open sessions of their own."""
    sessions = [server.open(), server.open(), server.open(nonce=""), server.open(nonce="")]
    names = {session.name for session in sessions}
    expect(len(names) == 4, "R-nonce-differs", f"four hellos opened {len(names)} sessions")


def resend(server: ServerUnderTest) -> None:
    """The last request sent again gets the same bytes, and nothing happens."""
    session = server.open()
    for _ in range(SOME_STEPS):
        request = session.request()
        events = session.take(server.ask(request))
        first = server.body
        for _ in range(2):
            server.ask(request)
            expect(server.body == first, "R-resend", "the second answer differs")
        server.refuses(request | {"elapsed_s": 1.0}, "out_of_order", "R-resend")
        if not events:
            return


def out_of_order(server: ServerUnderTest) -> None:
    """A `seq` that is not due is refused, and the one that is due still works."""
    session = server.open()
    session.step()
    session.step()
    for seq in (1, session.seq + 2, 2**63 - 1):
        request = session.request() | {"seq": seq}
        server.refuses(request, "out_of_order", "R-out-of-order", seq=seq)
    session.step()


def unknown_session(server: ServerUnderTest) -> None:
    """A request that names a session that never was is refused with that code."""
    for request in (
        {"type": "decisions", "session": UNKNOWN_SESSION, "seq": 1},
        {"type": "bye", "session": UNKNOWN_SESSION},
        server.hello(session=UNKNOWN_SESSION),
    ):
        server.refuses(request, "unknown_session", "R-unknown-session")


def bye(server: ServerUnderTest) -> None:
    """A client may leave; its session is over then, and no other is."""
    stays, leaves = server.open(), server.open()
    leaves.step()
    answer = server.ask({"type": "bye", "session": leaves.name})
    expect(answer["type"] == "goodbye", "R-bye", f"it answered bye with {answer['type']}")
    said = server.refuses(leaves.request(), "unknown_session", "R-bye")
    expect(bool(said["message"]), "R-unknown-session", "it does not say why")
    stays.step()


def coming_back(server: ServerUnderTest) -> None:
    """A client that comes back, even twice, gets a snapshot and goes on."""
    session = server.open()
    session.until(lambda: (session.running and session.seq > SOME_STEPS) or None, "a job runs")
    for _ in range(2):
        _check_snapshot(session, server.welcome(server.hello(session=session.name)))
    session.step()


def _check_snapshot(session: OpenSession, welcome: Map) -> None:
    rule = "R-coming-back"
    expect(welcome["session"] == session.name, rule, "it came back to another session")
    told, due = (welcome.get("seq"), welcome.get("now_s")), (session.seq, session.now_s)
    expect(told == due, rule, f"seq and now_s are {told}, not {due}")
    snapshot = welcome.get("snapshot") or [{"type": "nothing"}]
    first = snapshot[0]["type"]
    expect(first == "simulation_began", rule, f"its snapshot begins with {first}")
    open_jobs = {*session.waiting, *session.running}
    submitted = [job for job in _jobs(session.log, "job_submitted") if job in open_jobs]
    jobs = _jobs(snapshot, "job_submitted")
    expect(jobs == submitted, rule, f"its snapshot has the jobs {jobs}, not {submitted}")
    running, started = set(session.running), set(_jobs(snapshot, "job_started"))
    due_starts = running.intersection(_jobs(session.log, "job_started"))
    what = f"its snapshot has the starts of {sorted(started)}, not all of {sorted(running)}"
    expect(due_starts <= started <= running, rule, what)


def _jobs(events: list[Map], kind: str) -> list[int]:
    """Return the jobs that events of a kind are about."""
    return [event["job_id"] for event in of_kind(events, kind)]


def same_again(server: ServerUnderTest) -> None:
    """The same seed and requests give the same answers, byte for byte."""
    one, two = server.open(seed=5), server.open(seed=5)
    for _ in range(STEPS_COMPARED):
        same = _step(server, one) == _step(server, two)
        expect(same, "R-same-again", f"the answers to seq {one.seq} differ")
        if one.metrics is not None:
            return


def sessions_apart(server: ServerUnderTest) -> None:
    """The requests of one client change nothing in the session of another."""
    alone = server.open(seed=6)
    due = [_step(server, alone) for _ in range(STEPS_APART)]
    one, other = server.open(seed=6), server.open(seed=6)
    for number, body in enumerate(due):
        what = f"beside another, its answer to seq {one.seq + 1} differs"
        expect(_step(server, one) == body, "R-apart", what)
        if other.metrics is None:
            rejections = [{"type": "reject_job", "job_id": job} for job in other.waiting]
            other.decide(*rejections, elapsed_s=float(number))


def _step(server: ServerUnderTest, session: OpenSession) -> bytes:
    """Return the bytes of the answer to the next step; empty: the simulation has ended."""
    if session.metrics is not None:
        return b""
    session.step()
    return server.body
