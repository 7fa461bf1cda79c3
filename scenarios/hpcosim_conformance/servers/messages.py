"""Checks of a server's messages, frames and sessions."""

from __future__ import annotations

import msgspec

from hpcosim_conformance.encodings import UNKNOWN_FIELDS
from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server import DELIMITER, ServerUnderTest
from hpcosim_conformance.servers.session import Map, OpenSession, of_kind, rejection_codes
from hpcosim_protocol import Options

OTHER_VERSION = 999
UNKNOWN_SESSION = "0" * 24
PING: Map = {"type": "hello", "versions": []}
MOST_BYTES = 64 * 2**20  # of a message that the server must refuse
MOST_DECISIONS = 1_000_000
LATER_OPTIONS = {"wake_on_allocation"}  # not of edition 1.0
SOME_STEPS = 5
pack = msgspec.msgpack.encode


def expect_seq(error: Map, seq: int) -> None:
    """Check that an error names the `seq` of its request."""
    what = f"the error's seq is {error.get('seq')}, not {seq}"
    expect(error.get("seq") == seq, "R-error-seq", what)


def _expect_not_fatal(error: Map, rule_id: str = "R-not-fatal") -> None:
    expect(not error.get("fatal"), rule_id, f"its error is fatal: {error['message']}")


# Hello


def ping(server: ServerUnderTest) -> None:
    """A hello without versions is answered, and opens nothing."""
    _expect_not_fatal(server.refuses(PING, "unsupported_version", "R-ping"), "R-ping")


def versions_refused(server: ServerUnderTest) -> None:
    """A hello of other versions only is refused, and both sides' versions are named."""
    hello = {"type": "hello", "versions": [OTHER_VERSION]}
    said = server.refuses(hello, "unsupported_version", "R-versions")["message"]
    both = str(OTHER_VERSION) in said and "1" in said.replace(str(OTHER_VERSION), "")
    expect(both, "R-versions", f"its message does not name both sides' versions: {said}")


def version_before_all(server: ServerUnderTest) -> None:
    """A hello of a later version is refused for its version, whatever its other fields are."""
    hello = {"type": "hello", "versions": [OTHER_VERSION], "client": 7, "nonce": [], "seed": "x"}
    server.refuses(hello, "unsupported_version", "R-version-first")


def version_chosen(server: ServerUnderTest) -> None:
    """Of several versions the server picks the one it speaks."""
    version = server.open(versions=[OTHER_VERSION, 1, 3]).welcome["version"]
    expect(version == 1, "R-versions", f"it chose version {version}")


def welcome(server: ServerUnderTest) -> None:
    """The welcome of a new session has all options, a name, and nothing to resume."""
    session = server.open()
    lacking = {*Options.__struct_fields__} - LATER_OPTIONS - {*session.options}
    expect(not lacking, "R-options", f"its options lack {', '.join(sorted(lacking))}")
    expect(bool(session.name), "R-session-name", "the session has no name")
    fresh = not session.welcome.get("seq") and not session.welcome.get("snapshot")
    expect(fresh, "R-seq", "a new session has a seq, or a snapshot")


def unknown_scenario(server: ServerUnderTest) -> None:
    """A hello for a scenario that is not there is refused with that code."""
    hello = server.hello(scenario="no such scenario")
    server.refuses(hello, "unknown_scenario", "R-unknown-scenario")


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


# Frames


def frames_come_back(server: ServerUnderTest) -> None:
    """The frames before the body of a request come back before that of its answer."""
    envelope = [b"request", b"\x00\x07", DELIMITER]
    before = _pinged(server, envelope)
    expect(before == envelope, "R-envelope", f"{envelope} came back as {before}")


def no_delimiter(server: ServerUnderTest) -> None:
    """To a client without a delimiter the answer comes without one."""
    before = _pinged(server, [])
    expect(not before, "R-no-delimiter", f"{before} came before the body")


def _pinged(server: ServerUnderTest, envelope: list[bytes]) -> list[bytes]:
    """Send a ping, and return the frames before the body of the answer."""
    server.send([*envelope, pack(PING)])
    *before, body = server.receive()
    server.read(body)
    return before


def too_many_frames(server: ServerUnderTest) -> None:
    """A message of more than six frames is dropped, and the next is answered."""
    server.send([DELIMITER] * 6 + [pack(PING)])
    server.send([b"the next", DELIMITER, pack(PING)])
    frames = server.receive()
    what = f"it answered a message of 7 frames: {frames}"
    expect(frames[0] == b"the next", "R-long-message", what)


# Bad messages


def bad_messages(server: ServerUnderTest) -> None:
    """Bytes that are no message are refused, and the session is as it was."""
    session = server.open()
    good = session.request()
    bad: dict[str, bytes] = {
        "nothing": b"",
        "a byte of no meaning": b"\xc1",
        "JSON": msgspec.json.encode(good),
        "a byte after the message": pack(good) + b"\x00",
        "half a message": pack(good)[:-4],
        "a list": pack(["hello", [1]]),
        "a map without a type": pack({"versions": [1]}),
        "a type of no version": pack({"type": "please"}),
        "a server's message": pack({"type": "goodbye"}),
        "bytes for text": pack(good | {"session": b"x"}),
        "no session": pack({"type": "decisions", "seq": 1}),
        "no seq": pack({"type": "decisions", "session": session.name}),
        "seq 0": pack(good | {"seq": 0}),
        "a boolean for seq": pack(good | {"seq": True}),
        "text for seq": pack(good | {"seq": "1"}),
        "a fraction for seq": pack(good | {"seq": 1.5}),
        "null for decisions": pack(good | {"decisions": None}),
        "a decision that is none": pack(good | {"decisions": [7]}),
        "a decision without its job": pack(good | {"decisions": [{"type": "kill_job"}]}),
        "time running backwards": pack(good | {"elapsed_s": -1.0}),
        "more time than there is": pack(good | {"elapsed_s": 2e15}),
    }
    for name, body in bad.items():
        answer = server.ask(body)
        code = answer.get("code", answer["type"])
        what = f"it answered {name} with {code}"
        expect(code == "invalid_message", "R-invalid-message", what)
        _expect_not_fatal(answer)
    session.step()


def unknown_decisions(server: ServerUnderTest) -> None:
    """A decision, or a kind in `wake_on`, that is not known refuses the whole message."""
    session = server.open()
    session.step()
    alarm = {"type": "set_alarm", "at_s": session.now_s + 1e9, "alarm_id": 3}
    for request in (
        session.request(alarm, {"type": "format_disk", "node": 0}),
        session.request(alarm, wake_on=["boredom"]),
    ):
        server.refuses(request, "invalid_message", "R-unknown-decisions")
    codes = rejection_codes(session.decide({"type": "cancel_alarm", "alarm_id": 3}))
    what = "the other decision of a message that it refused was carried out"
    expect(len(codes) == 1, "R-whole-message", what)


def unknown_fields(server: ServerUnderTest) -> None:
    """Unknown fields change nothing, in any map."""
    one, two = server.open(seed=1, **UNKNOWN_FIELDS), server.open(seed=1)
    one.decide(**UNKNOWN_FIELDS)
    two.decide()
    allocation = two.until_a_job_can_start()
    while one.seq < two.seq:
        one.step()
    answers = [
        server.ask(one.request(allocation | UNKNOWN_FIELDS, **UNKNOWN_FIELDS)),
        server.ask(two.request(allocation)),
    ]
    expect(answers[0] == answers[1], "R-unknown-fields", "they changed the answer")


def too_large(server: ServerUnderTest) -> None:
    """A body that is one byte too long is refused with that code."""
    session = server.open()
    most = session.options.get("max_message_bytes", 0)
    if not 0 < most <= MOST_BYTES:
        raise NotTriedError(f"max_message_bytes is {most}")
    _expect_not_fatal(server.refuses(bytes(most + 1), "message_too_large", "R-too-large"))
    session.step()


def too_many_decisions(server: ServerUnderTest) -> None:
    """A message of too many decisions is refused with that code, and none is carried out."""
    session = server.open()
    session.step()
    most = session.options.get("max_decisions", 0)
    request = session.request(*[{"type": "cancel_alarm"}] * (min(most, MOST_DECISIONS) + 1))
    body = pack(request)
    if not 0 < most <= MOST_DECISIONS or len(body) > session.options.get("max_message_bytes", 0):
        raise NotTriedError(f"max_decisions is {most}")
    error = server.refuses(body, "too_many_decisions", "R-too-many-decisions")
    expect_seq(error, session.seq + 1)
    session.step()


# Sessions


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
        error = server.refuses(request, "out_of_order", "R-out-of-order")
        _expect_not_fatal(error)
        expect_seq(error, seq)
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
