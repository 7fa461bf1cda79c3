"""Bounds of connections."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of connections, so that no peer harms the others.

    Attributes:
        message_bytes: largest body that is kept, bytes.
        peers: largest number of connections.
        handshake_s: timeout of the handshake, s.
        idle_s: silence after which a connection that waits for no reply is closed, s.
        waiting_s: silence after which one that waits for a reply is closed, s.
        settled_s: silence after which a connection that waits for no reply gives way to a new one
            when no more are possible, s.
        queued_messages: messages that wait for a peer that does not read; further ones are lost.
        queued_bytes: their size; one message may be larger.
        total_bytes: bytes that wait in all connections together, in both directions. Beyond it, the
            connection with the most is closed.
    """

    message_bytes: int = 16 * 2**20
    peers: int = 4096
    handshake_s: float = 10.0
    idle_s: float = 600.0
    waiting_s: float = 86_400.0
    settled_s: float = 5.0
    queued_messages: int = 16
    queued_bytes: int = 64 * 2**20
    total_bytes: int = 512 * 2**20
