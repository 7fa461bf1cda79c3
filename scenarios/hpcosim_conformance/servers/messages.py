"""Checks of a server: messages, frames and the hello."""

from __future__ import annotations

import msgspec

from hpcosim_conformance.encodings import UNKNOWN_FIELDS
from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server_under_test import (
    DELIMITER,
    Map,
    OpenSession,
    ServerUnderTest,
    of_kind,
    rejection_codes,
)

OTHER_VERSION = 999
PING: Map = {"type": "hello", "versions": []}
MAX_BYTES = 64 * 2**20  # of a message that the server must reject
MAX_DECISIONS = 1_000_000
POLICY_STEPS = 3
POLICY: Map = {
    "name": "fcfs",
    "settings": {"queue": {"order": ["submission", {"weight": 0.5}]}, "limit": None},
    "model_sha256": "0" * 64,
    "packages": {"numpy": "2.0.0"},
}
BASIC_OPTIONS = {
    "kill_at_walltime",
    "dynamic_jobs",
    "max_message_bytes",
    "max_decisions",
    "idle_timeout_s",
}
pack = msgspec.msgpack.encode


# Hello


UNKNOWN_SESSION = "0" * 24
SOME_STEPS = 5
STEPS_COMPARED = 200
STEPS_APART = 20


def ping(server: ServerUnderTest) -> None:
    """A hello without versions gets an error and opens no session."""
    server.expect_error(PING, "unsupported_version", "R-ping")


def versions_refused(server: ServerUnderTest) -> None:
    """A hello with only unsupported versions gets an error that names both sides' versions."""
    hello = {"type": "hello", "versions": [OTHER_VERSION]}
    message = server.expect_error(hello, "unsupported_version", "R-versions")["message"]
    both = str(OTHER_VERSION) in message and "1" in message.replace(str(OTHER_VERSION), "")
    what = f"the message of the error does not name both sides' versions: {message}"
    expect(both, "R-versions", what)


def version_before_all(server: ServerUnderTest) -> None:
    """A hello of a later version is rejected for its version, for any other fields."""
    hello = {"type": "hello", "versions": [OTHER_VERSION], "client": 7, "nonce": [], "seed": "x"}
    server.expect_error(hello, "unsupported_version", "R-version-first")


def version_chosen(server: ServerUnderTest) -> None:
    """Of several versions the server chooses the one that it supports."""
    version = server.open(versions=[OTHER_VERSION, 1, 3]).welcome["version"]
    expect(version == 1, "R-versions", f"the server chose version {version}; expected 1")


def welcome(server: ServerUnderTest) -> None:
    """The welcome of a new session has a name, the basic options and no state to resume."""
    session = server.open()
    missing = BASIC_OPTIONS - {*session.options}
    what = f"the welcome lacks the options {', '.join(sorted(missing))}"
    expect(not missing, "R-options", what)
    expect(bool(session.name), "R-session-name", "the session has no name")
    fresh = not session.welcome.get("seq") and not session.welcome.get("snapshot")
    expect(fresh, "R-seq", "the welcome of a new session has a seq or a snapshot")


def unknown_scenario(server: ServerUnderTest) -> None:
    """A hello with an unknown scenario gets the error `unknown_scenario`."""
    hello = server.hello(scenario="no such scenario")
    server.expect_error(hello, "unknown_scenario", "R-unknown-scenario")


def policy(server: ServerUnderTest) -> None:
    """A hello with a `policy` is accepted, and the policy changes no reply."""
    one, two = server.open(seed=1, policy=POLICY), server.open(seed=1)
    for _ in range(POLICY_STEPS):
        one.step()
        body = server.body
        two.step()
        what = f"a policy in the hello changed the reply to seq {one.seq}"
        expect(server.body == body, "R-policy", what)
        if one.metrics is not None:
            return


# Frames


def frames_come_back(server: ServerUnderTest) -> None:
    """The reply begins with the frames before the body of the request."""
    envelope = [b"request", b"\x00\x07", DELIMITER]
    before = _pinged(server, envelope)
    what = f"the server returned the frames {before}; expected {envelope}"
    expect(before == envelope, "R-envelope", what)


def no_delimiter(server: ServerUnderTest) -> None:
    """The reply to a request without a delimiter has none."""
    before = _pinged(server, [])
    what = f"the reply has the frames {before} before the body; expected none"
    expect(not before, "R-no-delimiter", what)


def _pinged(server: ServerUnderTest, envelope: list[bytes]) -> list[bytes]:
    """Send a ping and return the frames before the body of the reply."""
    server.send([*envelope, pack(PING)])
    *before, body = server.receive()
    server.read(body)
    return before


def too_many_frames(server: ServerUnderTest) -> None:
    """A message of more than six frames gets no reply, and the next message gets one."""
    server.send([DELIMITER] * 6 + [pack(PING)])
    server.send([b"the next", DELIMITER, pack(PING)])
    frames = server.receive()
    what = f"the server replied to a message of 7 frames: {frames}"
    expect(frames[0] == b"the next", "R-long-message", what)


# Bad messages


def bad_messages(server: ServerUnderTest) -> None:
    """Invalid messages are rejected and leave the session unchanged."""
    session = server.open()
    good = session.request()
    bad: dict[str, bytes] = {
        "an empty body": b"",
        "an invalid byte": b"\xc1",
        "JSON": msgspec.json.encode(good),
        "a byte after the message": pack(good) + b"\x00",
        "half a message": pack(good)[:-4],
        "a list": pack(["hello", [1]]),
        "a map without a type": pack({"versions": [1]}),
        "an unknown type": pack({"type": "please"}),
        "a server's message": pack({"type": "goodbye"}),
        "bytes for text": pack(good | {"session": b"x"}),
        "a missing session": pack({"type": "decisions", "seq": 1}),
        "a missing seq": pack({"type": "decisions", "session": session.name}),
        "seq 0": pack(good | {"seq": 0}),
        "a boolean for seq": pack(good | {"seq": True}),
        "text for seq": pack(good | {"seq": "1"}),
        "a fraction for seq": pack(good | {"seq": 1.5}),
        "null for decisions": pack(good | {"decisions": None}),
        "an integer as decision": pack(good | {"decisions": [7]}),
        "a decision without its job": pack(good | {"decisions": [{"type": "kill_job"}]}),
        "a negative elapsed_s": pack(good | {"elapsed_s": -1.0}),
        "elapsed_s above 10^15": pack(good | {"elapsed_s": 2e15}),
    }
    for name, body in bad.items():
        server.expect_error(body, "invalid_message", "R-invalid-message", request=name)
    session.step()


def unknown_decisions(server: ServerUnderTest) -> None:
    """An unknown decision or an unknown kind in `wake_on` rejects the whole message."""
    session = server.open()
    session.step()
    alarm = {"type": "set_alarm", "at_s": session.now_s + 1e9, "alarm_id": 3}
    for request in (
        session.request(alarm, {"type": "format_disk", "node": 0}),
        session.request(alarm, wake_on=["boredom"]),
    ):
        server.expect_error(request, "invalid_message", "R-unknown-decisions")
    codes = rejection_codes(session.decide({"type": "cancel_alarm", "alarm_id": 3}))
    what = "the server executed a decision of a rejected message"
    expect(len(codes) == 1, "R-whole-message", what)


def unknown_fields(server: ServerUnderTest) -> None:
    """Unknown fields in any map change no reply."""
    one, two = server.open(seed=1, **UNKNOWN_FIELDS), server.open(seed=1)
    one.decide(**UNKNOWN_FIELDS)
    two.decide()
    allocation = two.advance_until_a_job_can_start()
    while one.seq < two.seq:
        one.step()
    replies = [
        server.exchange(one.request(allocation | UNKNOWN_FIELDS, **UNKNOWN_FIELDS)),
        server.exchange(two.request(allocation)),
    ]
    expect(replies[0] == replies[1], "R-unknown-fields", "unknown fields changed the reply")


def too_large(server: ServerUnderTest) -> None:
    """A body that is one byte too long gets the error `message_too_large`."""
    session = server.open()
    most = session.options.get("max_message_bytes", 0)
    if not 0 < most <= MAX_BYTES:
        raise NotTriedError(f"max_message_bytes is {most}")
    server.expect_error(bytes(most + 1), "message_too_large", "R-too-large")
    session.step()


def too_many_decisions(server: ServerUnderTest) -> None:
    """A message with one decision too many gets the error `too_many_decisions`."""
    session = server.open()
    session.step()
    most = session.options.get("max_decisions", 0)
    request = session.request(*[{"type": "cancel_alarm"}] * (min(most, MAX_DECISIONS) + 1))
    body = pack(request)
    if not 0 < most <= MAX_DECISIONS or len(body) > session.options.get("max_message_bytes", 0):
        raise NotTriedError(f"max_decisions is {most}")
    server.expect_error(body, "too_many_decisions", "R-too-many-decisions", seq=session.seq + 1)
    session.step()


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
