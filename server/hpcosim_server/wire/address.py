"""Addresses of clients' connections.

An address is unique and the server's own; a client cannot choose it.
"""

from __future__ import annotations

from collections.abc import Sequence

KEY_LENGTH = 40
"""Length of a public key in Z85."""


def address_of(envelope: Sequence[bytes]) -> bytes:
    """Return the address of the sender of a message: its first frame; empty: unknown."""
    return envelope[0] if envelope else b""


def key_of(address: bytes) -> bytes:
    """Return the public key in the address of a client; empty: the client has no key.

    Addresses of `CurvePeers` begin with the key; those of `Peers` are shorter than a key.
    """
    return address[:KEY_LENGTH] if len(address) > KEY_LENGTH else b""


def address_with(key: bytes) -> bytes:
    """Return an address at which no connection is, of a client with a public key or without."""
    return key + b"-" if key else b""
