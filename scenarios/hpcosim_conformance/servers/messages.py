"""Checks of what a server makes of messages and frames, the hello included."""

from __future__ import annotations

import msgspec

from hpcosim_conformance.encodings import UNKNOWN_FIELDS
from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server import DELIMITER, ServerUnderTest
from hpcosim_conformance.servers.session import Map, rejection_codes
from hpcosim_protocol import Options

OTHER_VERSION = 999
PING: Map = {"type": "hello", "versions": []}
MOST_BYTES = 64 * 2**20  # of a message that the server must refuse
MOST_DECISIONS = 1_000_000
POLICY_STEPS = 3
POLICY: Map = {
    "name": "fcfs",
    "settings": {"queue": {"order": ["submission", {"weight": 0.5}]}, "limit": None},
    "model_sha256": "0" * 64,
    "packages": {"numpy": "2.0.0"},
}
LATER_OPTIONS = {"wake_on_allocation"}  # not of edition 1.0
pack = msgspec.msgpack.encode


# Hello


def ping(server: ServerUnderTest) -> None:
    """A hello without versions is answered, and opens nothing."""
    server.refuses(PING, "unsupported_version", "R-ping")


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


def policy(server: ServerUnderTest) -> None:
    """A `policy` in the hello is accepted and changes no answer."""
    one, two = server.open(seed=1, policy=POLICY), server.open(seed=1)
    for _ in range(POLICY_STEPS):
        one.step()
        body = server.body
        two.step()
        what = f"with a policy in the hello, its answer to seq {one.seq} differs"
        expect(server.body == body, "R-policy", what)
        if one.metrics is not None:
            return


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
        server.refuses(body, "invalid_message", "R-invalid-message", request=name)
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
    server.refuses(bytes(most + 1), "message_too_large", "R-too-large")
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
    server.refuses(body, "too_many_decisions", "R-too-many-decisions", seq=session.seq + 1)
    session.step()
