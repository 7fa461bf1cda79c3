"""How jobs end, in Batsim's words."""

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
"""How Batsim calls each way in which a job of the simulator ends, see `JobState`."""
