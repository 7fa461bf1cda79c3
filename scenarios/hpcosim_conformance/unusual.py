"""The same values in forms that msgpack has and few writers choose; a reader must take them."""

from __future__ import annotations

import struct
from typing import Any

LARGEST_SINGLE = 1e38  # what a float of 32 bits holds


def unusual(value: Any) -> bytes:
    """Return a value of a message in msgpack: all in 64 bits but floats that 32 bits hold.

    Args:
        value: of maps, lists, text, numbers, booleans and None; integers fit into 64 bits.
    """
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            kind, layout = (b"\xd3", ">q") if value < 0 else (b"\xcf", ">Q")
            return kind + struct.pack(layout, value)
        case float():
            if (
                abs(value) < LARGEST_SINGLE
                and struct.unpack(">f", struct.pack(">f", value))[0] == value
            ):
                return b"\xca" + struct.pack(">f", value)
            return b"\xcb" + struct.pack(">d", value)
        case str():
            text = value.encode()
            return b"\xdb" + struct.pack(">I", len(text)) + text
        case list():
            return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(unusual, value))
        case dict():
            pairs = b"".join(unusual(key) + unusual(each) for key, each in value.items())
            return b"\xdf" + struct.pack(">I", len(value)) + pairs
    raise TypeError(f"no message has a {type(value).__name__}")


def narrowest(value: Any) -> Any:
    """Return a value with every float that is a whole number as an integer."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [narrowest(each) for each in value]
        case dict():
            return {key: narrowest(each) for key, each in value.items()}
    return value
