"""Values and encodings that are rare. Both sides must accept them all."""

from __future__ import annotations

import struct
from typing import Any

import msgspec

LARGEST_SINGLE = 1e38  # less than the largest float of 32 bits
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
"""A field that no edition of the protocol has."""


def widest(value: Any) -> bytes:
    """Return a value in msgpack, with every number and length in 32 or 64 bits.

    Integers take 64 bits; floats that 32 bits hold exactly take 32, others 64.

    Args:
        value: of maps, lists, text, numbers, booleans and None; integers fit into 64 bits.
    """
    match value:
        case bool() | None:
            return msgspec.msgpack.encode(value)
        case int():
            return struct.pack(">Bq", 0xD3, value) if value < 0 else struct.pack(">BQ", 0xCF, value)
        case float():
            single = struct.pack(">Bf", 0xCA, value) if abs(value) < LARGEST_SINGLE else b""
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
    raise TypeError(f"no message has a {type(value).__name__}")


def integers_for_floats(value: Any) -> Any:
    """Return a value with every float that is a whole number as an integer."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [integers_for_floats(each) for each in value]
        case dict():
            return {key: integers_for_floats(each) for key, each in value.items()}
    return value
