"""Limits for the clients of a server."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for clients of a server. Each is a setting of `hpcosim serve`.

    Those of all sessions together hold for all processes of a server together. Sessions that are
    restored are never refused, so they may exceed a limit that was full.

    Attributes:
        memory_bytes: memory of the processes with sessions, together, with which the server refuses
            new sessions, bytes; 0: no limit. It is measured at each hello and every 10 s. A worker
            process cannot allocate more than twice as much.
    """

    message_bytes: int = 16 * 2**20
    decisions: int = 100_000
    sessions: int = 64
    jobs: int = 2_000_000
    total_jobs: int = 8_000_000
    idle_s: float = 600.0
    results_retry_s: float = 600.0
    first_request_s: float = 60.0
    elapsed_s: float = 1e6
    simulated_s: float = math.inf
    events_per_s: float = math.inf
    memory_bytes: int = 0
    free_bytes: int = 128 * 2**20
    kept_bytes: int = 64 * 2**20
    partial_results: int = 1000
