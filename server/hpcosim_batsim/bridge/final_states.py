"""Final states of jobs in Batsim's terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

FinalState = Literal[
    "COMPLETED_SUCCESSFULLY",
    "COMPLETED_FAILED",
    "COMPLETED_WALLTIME_REACHED",
    "COMPLETED_KILLED",
    "REJECTED",
]
FINAL: Mapping[str, FinalState] = {
    "completed": "COMPLETED_SUCCESSFULLY",
    "timeout": "COMPLETED_WALLTIME_REACHED",
    "killed": "COMPLETED_KILLED",
    "node_failed": "COMPLETED_FAILED",
    "rejected": "REJECTED",
}
"""Batsim's final state for each final `JobState` of the simulator."""
