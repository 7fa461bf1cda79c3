"""Checks of a server: opening, resending, resuming, closing and separation of sessions."""

from __future__ import annotations

from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server import ServerUnderTest
from hpcosim_conformance.servers.session import Map, OpenSession, of_kind

UNKNOWN_SESSION = "0" * 24
SOME_STEPS = 5
STEPS_COMPARED = 200
STEPS_APART = 20


def hello_again(server: ServerUnderTest) -> None:
    """A resent hello opens no second session, and a changed one with its nonce is rejected."""
    hello = server.hello()
    session = OpenSession(server.exchange, server.welcome(hello))
    first = server.body
    session.step()
    server.welcome(hello)
    what = "the second welcome for a resent hello differs from the first"
    expect(server.body == first, "R-nonce", what)
    other = hello | {"client": "another client"}
    server.expect_error(other, "invalid_message", "R-nonce-differs")
    session.step()


def other_nonces(server: ServerUnderTest) -> None:
    """Hellos with different nonces, or without a nonce, open different sessions."""
    sessions = [server.open(), server.open(), server.open(nonce=""), server.open(nonce="")]
    names = {session.name for session in sessions}
    expect(len(names) == 4, "R-nonce-differs", f"four hellos opened {len(names)} sessions")


def resend(server: ServerUnderTest) -> None:
    """A resent request gets the same bytes and has no effect."""
    session = server.open()
    for _ in range(SOME_STEPS):
        request = session.request()
        events = session.read_reply(server.exchange(request))
        first = server.body
        for _ in range(2):
            server.exchange(request)
            what = "the reply to a resent request differs from the first reply"
            expect(server.body == first, "R-resend", what)
        server.expect_error(request | {"elapsed_s": 1.0}, "out_of_order", "R-resend")
        if not events:
            return


def out_of_order(server: ServerUnderTest) -> None:
    """A wrong `seq` is rejected, and the right one works afterwards."""
    session = server.open()
    session.step()
    session.step()
    for seq in (1, session.seq + 2, 2**63 - 1):
        request = session.request() | {"seq": seq}
        server.expect_error(request, "out_of_order", "R-out-of-order", seq=seq)
    session.step()


def unknown_session(server: ServerUnderTest) -> None:
    """A request in an unknown session gets the error `unknown_session`."""
    for request in (
        {"type": "decisions", "session": UNKNOWN_SESSION, "seq": 1},
        {"type": "bye", "session": UNKNOWN_SESSION},
        server.hello(session=UNKNOWN_SESSION),
    ):
        server.expect_error(request, "unknown_session", "R-unknown-session")


def bye(server: ServerUnderTest) -> None:
    """`bye` closes its session and no other."""
    stays, leaves = server.open(), server.open()
    leaves.step()
    reply = server.exchange({"type": "bye", "session": leaves.name})
    what = f"the reply to bye is {reply['type']}; expected goodbye"
    expect(reply["type"] == "goodbye", "R-bye", what)
    error = server.expect_error(leaves.request(), "unknown_session", "R-bye")
    expect(bool(error["message"]), "R-unknown-session", "the error has no message")
    stays.step()


def coming_back(server: ServerUnderTest) -> None:
    """A client that resumes its session, even twice, gets a snapshot and can continue."""
    session = server.open()
    session.advance_until(
        lambda: (session.running and session.seq > SOME_STEPS) or None, "a job runs"
    )
    for _ in range(2):
        _check_snapshot(session, server.welcome(server.hello(session=session.name)))
    session.step()


def history(server: ServerUnderTest) -> None:
    """A client that asks for the history of its session gets all requests and replies."""
    session = server.open()
    for _ in range(SOME_STEPS):
        session.step()
    _check_history(server, session, len(session.log))
    _check_snapshot(session, server.welcome(server.hello(session=session.name)))
    before, seq = len(session.log), session.seq
    for _ in range(SOME_STEPS):
        session.step()
    first = _check_history(server, session, len(session.log) - before, seq)
    what = "the history after a snapshot does not begin with the snapshot"
    expect(bool(first.get("snapshot")), "R-history-snapshot", what)
    session.step()


def status(server: ServerUnderTest) -> None:
    """The status needs no session, has no name of one, and changes nothing."""
    session = server.open()
    session.step()
    reply = server.exchange({"type": "get_status"})
    if reply["type"] == "error":
        code = reply["code"]
        what = f"the reply to get_status is {code}; expected server_status or invalid_message"
        expect(code == "invalid_message", "R-status", what)
        raise NotTriedError("the server does not tell its status")
    got = reply["type"]
    expect(got == "server_status", "R-status", f"the reply to get_status is {got}")
    secret = session.name.encode() in server.body
    expect(not secret, "R-status", "the status has the name of a session, which is a secret")
    session.step()


def _check_history(server: ServerUnderTest, session: OpenSession, events: int, seq: int = 0) -> Map:
    """Compare the last events of a session with its history; return the first reply."""
    rule = "R-history-snapshot" if seq else "R-history"
    welcome = server.welcome(server.hello(session=session.name, history=True))
    if not welcome["options"].get("history"):
        raise NotTriedError("the server keeps no history")
    expect(not welcome.get("snapshot"), rule, "the welcome has a snapshot")
    pages: list[Map] = []
    recorded: list[Map] = []
    after = 0
    while after < session.seq:
        request = {"type": "get_history", "session": session.name, "after": after}
        pages.append(server.exchange(request))
        exchanges = pages[-1].get("exchanges")
        expect(bool(exchanges), rule, f"the reply to get_history after {after} has no exchanges")
        assert exchanges is not None
        for exchange in exchanges:
            seq += 1
            got = exchange["request"].get("seq"), exchange["reply"].get("seq")
            expect(got == (seq, seq), rule, f"the history has the seq {got}; expected {seq}")
            recorded += exchange["reply"]["events"]
        after = seq
    same = recorded == session.log[-events:]
    expect(same, rule, "the history has other events than the replies")
    return pages[0]


def _check_snapshot(session: OpenSession, welcome: Map) -> None:
    rule = "R-coming-back"
    what = "the welcome names another session than the resumed one"
    expect(welcome["session"] == session.name, rule, what)
    got, expected = (welcome.get("seq"), welcome.get("now_s")), (session.seq, session.now_s)
    expect(got == expected, rule, f"the welcome has seq and now_s {got}; expected {expected}")
    snapshot = welcome.get("snapshot") or [{"type": "nothing"}]
    first = snapshot[0]["type"]
    what = f"the snapshot begins with {first}; expected simulation_began"
    expect(first == "simulation_began", rule, what)
    open_jobs = {*session.waiting, *session.running}
    last_first = dict.fromkeys(reversed(_jobs(session.log, "job_submitted")))
    submitted = [job for job in reversed(last_first) if job in open_jobs]
    jobs = _jobs(snapshot, "job_submitted")
    expect(jobs == submitted, rule, f"the snapshot has the jobs {jobs}; expected {submitted}")
    running, started = set(session.running), set(_jobs(snapshot, "job_started"))
    expected_starts = running.intersection(_jobs(session.log, "job_started"))
    what = f"the snapshot has the running jobs {sorted(started)}; expected {sorted(running)}"
    expect(expected_starts <= started <= running, rule, what)


def _jobs(events: list[Map], kind: str) -> list[int]:
    """Return the job numbers of the events of a kind."""
    return [event["job_id"] for event in of_kind(events, kind)]


def same_again(server: ServerUnderTest) -> None:
    """The same seed and requests produce the same replies, byte for byte."""
    one, two = server.open(seed=5), server.open(seed=5)
    for _ in range(STEPS_COMPARED):
        same = _step(server, one) == _step(server, two)
        what = f"two sessions with the same seed got different replies to seq {one.seq}"
        expect(same, "R-same-again", what)
        if one.metrics is not None:
            return


def sessions_apart(server: ServerUnderTest) -> None:
    """The requests in one session do not affect another session."""
    alone = server.open(seed=6)
    expected = [_step(server, alone) for _ in range(STEPS_APART)]
    one, other = server.open(seed=6), server.open(seed=6)
    for number, body in enumerate(expected):
        what = f"another session changed the reply to seq {one.seq + 1}"
        expect(_step(server, one) == body, "R-apart", what)
        if other.metrics is None:
            rejections = [{"type": "reject_job", "job_id": job} for job in other.waiting]
            other.decide(*rejections, elapsed_s=float(number))


def _step(server: ServerUnderTest, session: OpenSession) -> bytes:
    """Make a step and return the bytes of the reply; empty: the simulation has ended."""
    if session.metrics is not None:
        return b""
    session.step()
    return server.body
