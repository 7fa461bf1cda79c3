"""Rare values and encodings that both sides must accept."""

from __future__ import annotations

import struct
from typing import Any

import msgspec

MAX_SINGLE = 1e38  # below the largest 32-bit float
UNKNOWN_FIELDS: dict[str, Any] = {
    "a_field_of_tomorrow": {
        "flag": True,
        "nothing": None,
        "small": -(2**63),
        "large": 2**64 - 1,
        "float": 0.1,
        "text": "é ☃ 🜁",
        "bytes": b"\xff\x00",
        "nested": {"type": "job_submitted", "list": [[], [{"job_id": 1, "cores": 10**6}]]},
    }
}
"""A field that does not exist in the protocol."""


def widest(value: Any) -> bytes:
    """Encode a value in msgpack with unusual number widths.

    Integers have 64 bits and lengths 32 bits. Floats have 32 bits if these are exact, otherwise 64.

    Args:
        value: consists of maps, lists, text, numbers, booleans and None; integers have at most
            64 bits.
    """
    match value:
        case bool() | None:
            return msgspec.msgpack.encode(value)
        case int():
            return struct.pack(">Bq", 0xD3, value) if value < 0 else struct.pack(">BQ", 0xCF, value)
        case float():
            single = struct.pack(">Bf", 0xCA, value) if abs(value) < MAX_SINGLE else b""
            exact = single and struct.unpack(">xf", single) == (value,)
            return single if exact else struct.pack(">Bd", 0xCB, value)
        case str():
            text = value.encode()
            return struct.pack(">BI", 0xDB, len(text)) + text
        case list():
            return struct.pack(">BI", 0xDD, len(value)) + b"".join(map(widest, value))
        case dict():
            fields = [widest(each) for pair in value.items() for each in pair]
            return struct.pack(">BI", 0xDF, len(value)) + b"".join(fields)
    raise TypeError(f"expected a value of a message, got {type(value).__name__}")


def integers_for_floats(value: Any) -> Any:
    """Return a value with all whole-number floats converted to integers."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [integers_for_floats(each) for each in value]
        case dict():
            return {key: integers_for_floats(each) for key, each in value.items()}
    return value
