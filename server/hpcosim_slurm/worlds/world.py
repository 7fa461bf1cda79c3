"""The protocol of a world: what a scheduler sees, and what its decisions do."""

from __future__ import annotations

from typing import Protocol

from hpcosim_protocol import Decision
from hpcosim_slurm.worlds.difference import Change
from hpcosim_slurm.worlds.live_engine import LiveEngine


class World(Protocol):
    """What a scheduler sees of a live cluster, and what its decisions do.

    Attributes:
        engine: the state of the cluster as the scheduler sees it. Its outbox has the events that
            the scheduler has not got.
    """

    engine: LiveEngine

    def pass_to(self, now_s: float) -> None:
        """Let time pass up to now, a Unix time, s."""

    def note(self, change: Change) -> None:
        """Note what changed in reality."""

    def carry_out(self, decision: Decision, seq: int, index: int) -> None:
        """Carry out a decision now, or add the event that rejects it.

        Args:
            decision: the decision.
            seq: number of its request.
            index: its position in the request.
        """
