"""Errors of the simulator.

Every class derives from `SimulationError`. A docstring names the cause: the scheduler, the
simulator itself, or the operating system.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from hpcosim_protocol import RejectionCode
from hpcosim_protocol.errors import HpcosimError

MAX_NAMED = 5
"""Maximum number of job names that a message lists."""


class SimulationError(HpcosimError):
    """Base class of the errors that this package raises."""


class Rejection(SimulationError):  # noqa: N818 - a reply to a decision; the server has no fault
    """A decision of the scheduler is invalid and is not carried out.

    The client receives it as a `decision_rejected` event.

    Args:
        reason: human-readable reason: the decision's field, its value and the expected value.
    """

    def __init__(self, code: RejectionCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class IllegalTransition(SimulationError):  # noqa: N818 - the term of state machines
    """A bug of the simulator: a job or a node would enter a state that may not follow its own.

    Args:
        what: the job or node, such as `node 3`.
        why: additional reason; empty if the table of transitions is the only one.
    """

    def __init__(self, what: str, before: str, after: str, why: str = "") -> None:
        super().__init__(what, before, after, why)
        self.what = what
        self.before = before
        self.after = after
        self.why = why

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"illegal transition of {self.what} from {self.before} to {self.after}{why}"


class InvariantError(SimulationError):
    """A bug of the simulator: its state violates an invariant of `engine.validation`."""


class SimulationStuck(SimulationError):  # noqa: N818 - the protocol's error `simulation_stuck`
    """The scheduler makes no progress: jobs wait and no further event can occur.

    Args:
        waiting: job ids of the waiting jobs, in order of submission.
        since_s: earliest submission time of a waiting job, s.
        why: the reason why simulated time cannot advance.
        reasons: why jobs wait, by job id; empty texts: unknown.
    """

    def __init__(
        self,
        now_s: float,
        waiting: Sequence[int],
        since_s: float,
        why: str,
        suspended: Sequence[int] = (),
        reasons: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(now_s, waiting, since_s, why, suspended, reasons)
        self.now_s = now_s
        self.waiting = waiting
        self.since_s = since_s
        self.why = why
        self.suspended = suspended
        self.reasons = reasons

    def __str__(self) -> str:
        jobs = []
        if self.waiting:
            jobs.append(f"{waiting_jobs(self.waiting)}, the first since {self.since_s} s")
        if self.suspended:
            jobs.append(f"{suspended_jobs(self.suspended)} and not resumed")
        reasons = [f"job {job}: {why}" for job, why in self.reasons.items() if why]
        what = "; ".join([*jobs, *reasons, self.why])
        return f"the simulation is stuck at {self.now_s} s: {what}"


class ResultsError(SimulationError):
    """The results cannot be written: the folder is not writable, or the disk is full.

    Attributes:
        metrics: metrics of the run by name; None if the run has not started.
        disk_full: whether the disk or the user's quota is full: a later attempt may succeed.
    """

    exit_status = 1

    metrics: Mapping[str, int | float] | None = None
    disk_full: bool = False


class ResultsFolderError(ResultsError):
    """The folder for results cannot be used; raised before the simulation starts."""

    exit_status = 2


def waiting_jobs(names: Sequence[int] | Sequence[str]) -> str:
    """Return the number of waiting jobs and their first names: `3 jobs wait (1, 2, 3)`.

    Args:
        names: names of the waiting jobs; the text lists at most `MAX_NAMED` of them.
    """
    count, named = len(names), _first(names)
    return f"1 job waits ({named})" if count == 1 else f"{count} jobs wait ({named})"


def suspended_jobs(names: Sequence[int]) -> str:
    """Return the number of suspended jobs and their first names; see `waiting_jobs`."""
    count, named = len(names), _first(names)
    return (
        f"1 job is suspended ({named})" if count == 1 else f"{count} jobs are suspended ({named})"
    )


def _first(names: Sequence[int] | Sequence[str]) -> str:
    first: Iterable[int | str] = names[:MAX_NAMED]
    return ", ".join(map(str, first)) + ", ..." * (len(names) > MAX_NAMED)
