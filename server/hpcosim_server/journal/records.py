"""The format of a journal: its records, and their framing.

A journal is `HEADER` and then records. A record is framed by the length of its body and the CRC-32
of its body, two little-endian 32-bit numbers; the body is the record in msgpack. A record that was
cut off, or whose bytes have changed, is therefore noticed.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import msgspec

FORMAT = 1
"""Number of the format; another one cannot be read."""
MAGIC = b"hpcosim journal "
HEADER = MAGIC + b"%d\n" % FORMAT
"""The first bytes of a journal."""
FRAME = struct.Struct("<II")
MAX_RECORD_BYTES = 2**30
"""Maximum size of the body of a record, bytes."""


class OpenedRecord(msgspec.Struct, frozen=True, array_like=True, tag="opened"):
    """The session was opened. The first record of each journal.

    Attributes:
        session: secret name of the session.
        hello: the client's message, as it was received.
        welcome: the encoded reply.
        scenario_file: absolute path of the scenario's file; empty: unknown.
        overrides: values that replaced those of the file, of the server and of the client, by
            dotted path.
        checksum: SHA-256 of the scenario, 64 hexadecimal digits; see `service.journaling`.
        max_jobs: limit of the server for the jobs of the session.
    """

    session: str
    hello: bytes
    welcome: bytes
    scenario_file: str
    overrides: dict[str, Any]
    checksum: str
    max_jobs: int


class ExchangeRecord(msgspec.Struct, frozen=True, array_like=True, tag="exchange"):
    """The session carried out decisions.

    Attributes:
        request: the client's message, as it was received.
        reply: the encoded reply.
    """

    request: bytes
    reply: bytes


class ResumedRecord(msgspec.Struct, frozen=True, array_like=True, tag="resumed"):
    """A client resumed the session and got a snapshot.

    Attributes:
        reply: the encoded `welcome` with the snapshot.
    """

    reply: bytes


class EndedRecord(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    """The session is over.

    Attributes:
        why: the reason, as in `run.json`.
        cause: the machine-readable cause of a failure, see `status.Cause`; empty: the simulation
            is complete.
    """

    why: str
    cause: str


class WrittenRecord(msgspec.Struct, frozen=True, array_like=True, tag="written"):
    """The results of the session are written."""


Record = OpenedRecord | ExchangeRecord | ResumedRecord | EndedRecord | WrittenRecord

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def framed(record: Record) -> bytes:
    """Return the bytes of a record in a journal."""
    body = _encoder.encode(record)
    return FRAME.pack(len(body), zlib.crc32(body)) + body


def record_in(body: bytes) -> Record:
    """Return the record that a body encodes.

    Raises:
        msgspec.DecodeError: the bytes are no record.
    """
    return _decoder.decode(body)
