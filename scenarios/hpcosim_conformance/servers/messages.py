"""Checks of a server: messages, frames and the hello."""

from __future__ import annotations

import msgspec

from hpcosim_conformance.encodings import UNKNOWN_FIELDS
from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server import DELIMITER, ServerUnderTest
from hpcosim_conformance.servers.session import Map, rejection_codes

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
