"""What holds in a simulation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds in a simulation.

    Attributes:
        reference_ghz: the clock at which run times hold, GHz; None: they hold on every node.
        kill_at_walltime: whether a job past its requested time is killed.
        dynamic_jobs: whether the scheduler may submit jobs.
        wake_on_allocation: whether a job may be given nodes that are not on; they are then
            switched on for it.
        initial_time_s: when the clock starts, s, not after the first submission; None: at the
            first submission.
        max_jobs: the most jobs that may be submitted.
        validate: whether the simulation checks its invariants after each batch. It is slow: each
            check replays the whole recording.
    """

    reference_ghz: float | None = None
    kill_at_walltime: bool = False
    dynamic_jobs: bool = False
    wake_on_allocation: bool = True
    initial_time_s: float | None = None
    max_jobs: int = 2_000_000
    validate: bool = False
