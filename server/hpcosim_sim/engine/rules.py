"""Options of a simulation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """Options of a simulation.

    Attributes:
        reference_ghz: clock at which run times hold, GHz, at one operation per cycle; run times
            scale with `reference_ghz` / core speed. It applies to jobs without operations. None:
            their run times hold on every node.
        kill_at_walltime: whether a job is killed at its requested time.
        dynamic_jobs: whether the scheduler may submit jobs.
        wake_on_allocation: whether an allocation may contain sleeping nodes or nodes that are
            being switched on. The engine switches on the sleeping ones. The job starts when all
            are on.
        initial_time_s: initial simulation time, s, at most the first submission time; None: the
            first submission time.
        stuck_after_wakeups: number of wake-ups of the scheduler in a row, without a job that is
            submitted, starts or ends, after which the simulation is stuck. While a job runs or is
            due otherwise, it is `WAKEUPS_WHILE_DUE` times this number. Jobs that are requeued
            more often than this between two ends or submissions are stuck as well.
        max_jobs: maximum number of jobs in a session.
        validate: whether the simulation checks its invariants after each batch. Each check replays
            the whole recording and is slow.
    """

    reference_ghz: float | None = None
    kill_at_walltime: bool = False
    dynamic_jobs: bool = False
    wake_on_allocation: bool = True
    initial_time_s: float | None = None
    stuck_after_wakeups: int = 50_000
    max_jobs: int = 2_000_000
    validate: bool = False
