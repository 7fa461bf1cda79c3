"""ZMTP 3.1, the wire protocol of ZeroMQ, with the mechanism NULL: bytes to messages and back.

The server does not use libzmq for this, for four reasons. libzmq 4.3.5 aborts the process if a peer
claims a routing identity that libzmq later wants to give out; it keeps the frames of an unfinished
message without a bound; it hands out all frames of a message before those of other peers; and a
program cannot close the connection of one peer. A client without libzmq has no second thread, which
saves half of the client's CPU for each message.

Source: RFC 37/ZMTP 3.1, https://rfc.zeromq.org/spec/37/.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import NamedTuple

from hpcosim_protocol.errors import WireError

MORE, LONG, COMMAND = 1, 2, 4  # flags of a frame
SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
MECHANISM = b"NULL".ljust(20, b"\0")
GREETING = SIGNATURE + b"\x03\x01" + MECHANISM + bytes(32)
MAJOR_AT, MECHANISM_AT = 10, slice(12, 32)

CLIENTS = (b"DEALER", b"REQ", b"ROUTER")
"""Types of the sockets that may connect to a ROUTER and get replies."""
MOST_FRAMES = 6
"""Most frames of a message of a client; a longer one is dropped."""
MOST_DROPPED_FRAMES = 64
"""Most frames of a dropped message; a longer one breaks the protocol."""
MOST_ENVELOPE_BYTES = 2**16
"""Largest frame before the body."""
MOST_COMMAND_BYTES = 2**12
TOO_LARGE = 4
"""A body larger than this many times the limit breaks the protocol."""
SMALL_BYTES = 2**16  # frames up to this size are sent in one piece


class Message(NamedTuple):
    """A message.

    Attributes:
        size: size of the body, bytes.
    """

    frames: list[bytes]
    size: int


class Rest(NamedTuple):
    """What a decoder has not read of its bytes.

    Attributes:
        unread: the bytes, from the begin of a message.
        skip: number of bytes to drop before the next message, of which none have arrived.
    """

    unread: bytes = b""
    skip: int = 0


class Decoder:
    """Reads the messages in the bytes of one connection.

    Args:
        peers: types of sockets that may be at the other end.

    Attributes:
        is_ready: whether the handshake is over.
        control: bytes to send to the peer: replies to its pings.
    """

    def __init__(self, most_bytes: int, peers: Collection[bytes] = CLIENTS) -> None:
        self.is_ready = False
        self.control = b""
        self._most_bytes = most_bytes
        self._peers = peers
        self._is_greeted = False
        self._data = bytearray()
        self._at = 0
        self._skip = 0
        self._frames: list[bytes] = []
        self._count = 0

    @property
    def held_bytes(self) -> int:
        """Number of bytes that wait for the rest of their message."""
        return len(self._data) - self._at

    def feed(self, data: bytes | memoryview) -> None:
        """Add bytes that the peer has sent."""
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        if self._at:
            del self._data[: self._at]
            self._at = 0
        self._data += data

    def take_rest(self) -> Rest:
        """Return what `next` has not returned, so that another decoder can go on with it."""
        frames = self._frames if self._count <= MOST_FRAMES else [b""] * self._count
        begun = b"".join(encoded([*frames, b""]))[:-2]  # without the last frame, which is empty
        return Rest(begun + bytes(self._data[self._at :]), self._skip)

    def go_on(self, rest: Rest) -> None:
        """Go on after the handshake, with the rest of another decoder."""
        self.is_ready = self._is_greeted = True
        self._data += rest.unread
        self._skip = rest.skip

    def next(self) -> Message | None:
        """Return the next message; None: more bytes are needed.

        Raises:
            WireError: the bytes break the protocol. The connection is of no further use.
        """
        if not self.is_ready and not self._shake_hands():
            return None
        while not self._skip:
            frame = self._frame()
            if frame is None:
                return None
            flags, body, size = frame
            if not self._count and flags & ~LONG == 0:  # the usual case, a message of one frame
                return Message([body], size)
            if flags & COMMAND:
                self._obey(body)
                continue
            message = self._joined(flags, body, size)
            if message is not None:
                return message
        return None

    def _shake_hands(self) -> bool:
        """Read the greeting and the command READY; return whether both have arrived."""
        if not self._is_greeted:
            known = bytes(self._data[: len(SIGNATURE)])
            if known[:1] != SIGNATURE[: len(known[:1])] or (len(known) > 9 and not known[9] & 1):
                raise WireError("the peer does not speak ZMTP")
            if len(self._data) > MAJOR_AT and self._data[MAJOR_AT] < 3:
                raise WireError(f"the peer speaks ZMTP {self._data[MAJOR_AT]}; expected 3")
            if len(self._data) < len(GREETING):
                return False
            if self._data[MECHANISM_AT] != MECHANISM:
                raise WireError("the peer wants another security mechanism; expected NULL")
            self._at, self._is_greeted = len(GREETING), True
        frame = self._frame()
        if frame is None:
            return False
        self._check_ready(*frame[:2])
        self.is_ready = True
        return True

    def _check_ready(self, flags: int, body: bytes) -> None:
        if not flags & COMMAND or not body.startswith(b"\5READY"):
            raise WireError("expected the command READY")
        kind = properties(body[6:]).get(b"socket-type", b"")
        if kind not in self._peers:
            raise WireError(f"the peer is a socket of type {kind[:10]!r}; expected {self._peers}")

    def _frame(self) -> tuple[int, bytes, int] | None:
        """Return flags, content and size of the next frame; None: more bytes are needed."""
        data, at = self._data, self._at
        have = len(data) - at
        if have < 2:
            return None
        flags = data[at]
        if flags & LONG:
            if have < 9:
                return None
            (size,) = struct.unpack_from(">Q", data, at + 1)
            begin = at + 9
        else:
            size, begin = data[at + 1], at + 2
        end = begin + size
        if flags & ~LONG == 0 and size <= self._most_bytes:  # the usual case
            if end > len(data):
                return None
            self._at = end
            return flags, bytes(data[begin:end]), size
        if flags & ~(MORE | LONG | COMMAND):
            raise WireError(f"unknown flags {flags} of a frame")
        self._check_size(flags, size)
        if size > self._most_bytes and not flags & (MORE | COMMAND):
            self._skip = max(0, end - len(data))
            self._at = min(end, len(data))
            return flags, b"", size
        if end > len(data):
            return None
        self._at = end
        return flags, bytes(data[begin:end]), size

    def _check_size(self, flags: int, size: int) -> None:
        if flags & COMMAND:
            most = MOST_COMMAND_BYTES
        elif flags & MORE:
            most = MOST_ENVELOPE_BYTES
        else:
            most = TOO_LARGE * self._most_bytes
        if size > most:
            raise WireError(f"a frame has {size} bytes; expected at most {most}")

    def _joined(self, flags: int, body: bytes, size: int) -> Message | None:
        """Add a frame; return the message if it is the last one, and not one too many."""
        self._count += 1
        if self._count <= MOST_FRAMES:
            self._frames.append(body)
        elif self._count > MOST_DROPPED_FRAMES:
            raise WireError(f"a message has more than {MOST_DROPPED_FRAMES} frames")
        if flags & MORE:
            return None
        frames, count = self._frames, self._count
        self._frames, self._count = [], 0
        return Message(frames, size) if count <= MOST_FRAMES else None

    def _obey(self, command: bytes) -> None:
        """Reply to a ping; ignore other commands."""
        if command.startswith(b"\4PING"):
            context = command[7:23]  # after the time to live; at most 16 bytes
            if len(self.control) < MOST_COMMAND_BYTES:
                self.control += bytes((COMMAND, 5 + len(context))) + b"\4PONG" + context


def ready(socket_type: bytes) -> bytes:
    """Return the greeting and the command READY of a socket of a type."""
    body = b"\5READY"
    for name, value in ((b"Socket-Type", socket_type), (b"Identity", b"")):
        body += bytes((len(name),)) + name + struct.pack(">I", len(value)) + value
    return GREETING + bytes((COMMAND, len(body))) + body


def properties(data: bytes) -> dict[bytes, bytes]:
    """Return the properties of a READY command, their names in lower case.

    Raises:
        WireError: the data is malformed.
    """
    found = {}
    while data:
        end = 1 + data[0]
        if len(data) < end + 4:
            raise WireError("the command READY is cut")
        (size,) = struct.unpack_from(">I", data, end)
        if len(data) < end + 4 + size:
            raise WireError("the command READY is cut")
        found[data[1:end].lower()] = data[end + 4 : end + 4 + size]
        data = data[end + 4 + size :]
    return found


def encoded(frames: Sequence[bytes]) -> list[bytes]:
    """Return the bytes of a message, in one piece or, around large frames, in several."""
    pieces, piece = [], b""
    last = len(frames) - 1
    for number, frame in enumerate(frames):
        flags, size = MORE if number < last else 0, len(frame)
        if size < 256:
            piece += bytes((flags, size)) + frame
            continue
        piece += struct.pack(">BQ", flags | LONG, size)
        if size <= SMALL_BYTES:
            piece += frame
        else:
            pieces += [piece, frame]
            piece = b""
    return [*pieces, piece] if piece else pieces
