"""Limits for the clients of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for clients of a server.

    Attributes:
        message_bytes: maximum size of a message, bytes.
        decisions: maximum number of decisions in a message.
        sessions: maximum number of open sessions.
        jobs: maximum number of jobs in a session.
        idle_s: timeout between messages of a client, wall-clock s; the service then closes the
            session.
        results_retry_s: time for which the service repeats the attempt to write results that did
            not fit on the disk, wall-clock s. At most `sessions` sessions wait for it.
    """

    message_bytes: int = 16 * 2**20
    decisions: int = 100_000
    sessions: int = 64
    jobs: int = 2_000_000
    idle_s: float = 600.0
    results_retry_s: float = 600.0
