"""What a service tells the program around it while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Cause = Literal[
    "bad_input",
    "client_left",
    "client_silent",
    "internal_error",
    "no_address",
    "results_not_written",
    "simulation_stuck",
    "stopped",
]
"""Why a server or a session failed, for programs."""


class Progress(Struct, frozen=True, tag_field="status", tag="progress"):
    """How far the simulation of a session has got.

    Attributes:
        session: the part of the session's name that is no secret.
        scenario: what is simulated.
        scheduler: who decides.
        now_s: simulated time, s.
        jobs_over: how many jobs have ended or were rejected.
        jobs: how many jobs the workload has.
    """

    session: str
    scenario: str
    scheduler: str
    now_s: float
    jobs_over: int
    jobs: int


class Failure(Struct, frozen=True, omit_defaults=True, tag_field="status", tag="failure"):
    """A server that can't start, or a session that ended early or lost its results.

    Attributes:
        cause: for programs.
        why: the same for people, in a sentence.
        metrics: metrics of a run whose results were not written; None: another failure.
    """

    cause: Cause
    why: str
    metrics: Mapping[str, int | float] | None = None


Status = Progress | Failure
