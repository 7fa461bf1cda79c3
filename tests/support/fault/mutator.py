"""Damaged copies of valid messages, without the secrets of their senders."""

from __future__ import annotations

import math
import random
from typing import Any

import msgpack

ODD: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
    *(0.5, math.nan, math.inf, -1e308, "", "x" * 300, "\x00", b"\xff", [], {}, [[]], {"type": 1}),
)
"""Values that replace those of a message."""


def without_secrets(data: bytes, chance: random.Random) -> dict[str, Any]:
    """Return a decoded message with another session and another nonce."""
    message: dict[str, Any] = msgpack.unpackb(data)
    for secret in ("session", "nonce"):
        if message.get(secret):
            message[secret] = f"{chance.getrandbits(64):016x}"
    return message


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return a damaged copy of a valid message of a client, without its secrets."""
    message: Any = without_secrets(data, chance)
    if chance.random() < 0.5:
        for _ in range(chance.randint(1, 3)):
            message = _replaced(message, chance)
        return bytes(msgpack.packb(message))
    return _edited(bytearray(msgpack.packb(message)), chance)


def _replaced(tree: Any, chance: random.Random) -> Any:
    """Return a value with one odd value in it, or in its place."""
    if isinstance(tree, dict | list) and tree and chance.random() < 0.9:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        key = chance.choice(keys)
        inner = _replaced(tree[key], chance)
        if isinstance(tree, dict):
            return {**tree, key: inner}
        return [*tree[:key], inner, *tree[key + 1 :]]
    return chance.choice(ODD)


def _edited(data: bytearray, chance: random.Random) -> bytes:
    """Return changed, added, removed and repeated bytes."""
    for _ in range(chance.randint(1, 5)):
        place, what = chance.randrange(len(data) + 1), chance.randrange(5)
        if what == 0 and place < len(data):
            data[place] ^= 1 << chance.randrange(8)
        elif what == 1:
            del data[place:]
        elif what == 2:
            data.insert(place, chance.choice((0x00, 0x80, 0xC1, 0xDB, 0xDD, 0xDF, 0xFF)))
        elif what == 3:
            del data[place : place + chance.randint(1, 9)]
        else:
            data[place:place] = data[: chance.randrange(64)]
    return bytes(data)
