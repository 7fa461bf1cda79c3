"""Status messages from a service to the program that runs it."""

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
"""Machine-readable cause of a failure.

`bad_input`: a scenario or workload is invalid. `no_address`: the server cannot listen at its
address. `client_left`: the client sent `bye` before the end. `client_silent`: no message within
`Limits.idle_s`. `simulation_stuck`: see `SimulationStuck`. `stopped`: the server stopped before
the end of the session. `results_not_written`: see `ResultsError`. `internal_error`: a bug of the
server.
"""


class Progress(Struct, frozen=True, tag_field="status", tag="progress"):
    """Progress of the simulation of a session.

    Attributes:
        session: public label of the session.
        scenario: name of the scenario.
        scheduler: name of the scheduler, as the client gave it.
        now_s: current simulation time, s.
        jobs_over: number of jobs that have ended or were rejected.
        jobs: number of jobs in the workload.
    """

    session: str
    scenario: str
    scheduler: str
    now_s: float
    jobs_over: int
    jobs: int


class Failure(Struct, frozen=True, omit_defaults=True, tag_field="status", tag="failure"):
    """A server that cannot start, or a session that ended early or whose results are lost.

    Attributes:
        cause: machine-readable cause.
        why: human-readable reason.
        metrics: metrics of a run whose results are not written; None for other causes.
    """

    cause: Cause
    why: str
    metrics: Mapping[str, int | float] | None = None


class LivePage(Struct, frozen=True, tag_field="status", tag="page"):
    """The page of the live view (`--http`).

    Attributes:
        url: URL, with the token.
        viewed: false when the server starts; true when the page is first opened.
    """

    url: str
    viewed: bool = False


Status = Progress | Failure | LivePage
