"""Recordings of simulations, read for tests."""

from __future__ import annotations

from hpcosim_sim.record.recording import Recording


def runs_of(recording: Recording, row: int) -> int:
    """Return the number of runs of a job so far."""
    period = recording.last_period[row]
    return recording.periods.run[period] if period >= 0 else 0
