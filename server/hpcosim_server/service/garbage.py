"""Frees the simulations of closed sessions."""

from __future__ import annotations

import gc

COLLECT_AFTER = 20
"""Closed sessions after which Python looks for cyclic garbage."""

LONGEST_WAIT_S = 1.0
"""Longest time from the end of a session until its memory is free, s."""


class Garbage:
    """Collects the simulations of closed sessions.

    The parts of a simulation refer to each other, so that only the collector of cycles frees them.
    The command line lets it look after 100,000 new containers, and a small session makes 250: its
    arrays would stay until 400 sessions are over.
    """

    def __init__(self) -> None:
        self._sessions = 0
        self._due_s = 0.0

    def note_dropped(self) -> None:
        """Count a session that is over and has its results."""
        self._sessions += 1

    def tidy(self, wall_s: float) -> None:
        """Free the memory of closed sessions if it is time to.

        Args:
            wall_s: the wall-clock time, s.
        """
        if not self._sessions or (self._sessions < COLLECT_AFTER and wall_s < self._due_s):
            return
        self._sessions = 0
        self._due_s = wall_s + LONGEST_WAIT_S
        gc.collect()
