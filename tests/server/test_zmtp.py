"""ZeroMQ's wire protocol: messages from bytes, and bytes from messages."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_server.errors import WireError
from hpcosim_server.wire.zmtp import GREETING, Decoder, Message, encoded, ready
from support.examples import examples
from support.raw_zmtp import COMMAND, MORE, frame
from support.raw_zmtp import ready as ready_of

MOST_BYTES = 1000


def greeted(most_bytes: int = MOST_BYTES) -> Decoder:
    """Return a decoder after the handshake."""
    decoder = Decoder(most_bytes)
    decoder.feed(ready(b"DEALER"))
    assert decoder.next() is None
    assert decoder.is_ready
    return decoder


def messages(decoder: Decoder) -> list[Message]:
    """Return all messages of a decoder."""
    return list(iter(decoder.next, None))


@given(
    sent=st.lists(st.lists(st.binary(max_size=300), min_size=1, max_size=6), max_size=5),
    cuts=st.lists(st.integers(1, 400), min_size=1),
)
@examples(100)
def test_messages_are_the_same_however_their_bytes_are_cut(
    sent: list[list[bytes]], cuts: list[int]
) -> None:
    """A message may arrive in any pieces."""
    data = ready(b"DEALER") + b"".join(b"".join(encoded(frames)) for frames in sent)
    decoder, found, turn = Decoder(MOST_BYTES), [], 0
    while data:
        cut = cuts[turn % len(cuts)]
        turn += 1
        decoder.feed(data[:cut])
        data = data[cut:]
        found += messages(decoder)
    assert [message.frames for message in found] == sent
    assert decoder.held_bytes == 0


def test_a_large_frame_is_not_copied() -> None:
    """The body is a piece of its own."""
    body = bytes(2**17)
    pieces = encoded([b"", body])
    assert pieces[1] is body
    assert len(pieces) == 2


def test_a_body_above_the_limit_is_dropped_as_it_arrives() -> None:
    """Its size is known, its bytes are not kept, and the next message is read."""
    decoder = greeted()
    decoder.feed(frame(b"before", MORE) + struct.pack(">BQ", 2, MOST_BYTES + 1))
    assert decoder.next() == Message([b"before", b""], MOST_BYTES + 1)
    decoder.feed(bytes(MOST_BYTES))
    assert decoder.next() is None
    assert decoder.held_bytes == 0
    decoder.feed(b"\0" + frame(b"next"))
    assert decoder.next() == Message([b"next"], 4)


def test_a_message_of_too_many_frames_is_dropped() -> None:
    """The next message is read."""
    decoder = greeted()
    decoder.feed(frame(b"x", MORE) * 20 + frame(b"x") + frame(b"next"))
    assert decoder.next() == Message([b"next"], 4)


@pytest.mark.parametrize(
    "data",
    [
        frame(b"", MORE) * 65,
        frame(bytes(2**16 + 1), MORE),
        struct.pack(">BQ", 2, 4 * MOST_BYTES + 1),
        struct.pack(">BQ", 2, 2**64 - 1),
        frame(bytes(5000), COMMAND),
        b"\x08\x00",
    ],
    ids=["frames", "envelope", "body", "huge body", "command", "flags"],
)
def test_bytes_that_break_the_bounds_end_the_connection(data: bytes) -> None:
    """The decoder raises before it has kept much."""
    decoder = greeted()
    decoder.feed(data)
    with pytest.raises(WireError):
        decoder.next()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1",
        b"\xff" + bytes(20),
        GREETING[:10] + b"\x01\x00",
        GREETING[:12] + b"CURVE".ljust(20, b"\0") + bytes(32),
        GREETING + frame(b"no command"),
        GREETING + ready_of(kind=b"PUB"),
        GREETING + ready_of()[:-3] + b"\xff\xff\xff",
        GREETING + frame(b"\5READY\xff", COMMAND),
        GREETING + frame(b"\5ERROR", COMMAND),
    ],
)
def test_a_handshake_that_is_wrong_ends_the_connection(data: bytes) -> None:
    """The decoder raises, whatever the peer is."""
    decoder = Decoder(MOST_BYTES)
    decoder.feed(data)
    with pytest.raises(WireError):
        decoder.next()


def test_a_ping_is_answered() -> None:
    """The reply repeats the context of the ping; other commands are ignored."""
    decoder = greeted()
    decoder.feed(frame(b"\4PING\0\x0acontext", COMMAND) + frame(b"\7UNKNOWN", COMMAND))
    assert decoder.next() is None
    assert decoder.control == frame(b"\4PONGcontext", COMMAND)


def test_pings_without_end_fill_no_memory() -> None:
    """Replies to pings are bounded while the peer does not read them."""
    decoder = greeted()
    decoder.feed(frame(b"\4PING\0\x0a0123456789abcdef", COMMAND) * 10_000)
    assert decoder.next() is None
    assert len(decoder.control) < 2**13
