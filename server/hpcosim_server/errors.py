"""Errors of the server package, named by who is at fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hpcosim_protocol import ErrorCode, RejectionCode

MAX_NAMED = 5  # names listed in a message


class ServerError(Exception):
    """Base of every error this package raises."""


class Rejection(ServerError):  # noqa: N818 - an answer to a decision, not a fault of ours
    """A decision is rejected: the simulation does not carry it out.

    Args:
        code: the reason, for programs.
        reason: the reason, for people.
    """

    def __init__(self, code: RejectionCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class IllegalTransition(ServerError):  # noqa: N818 - named as users say it
    """The simulator is at fault: it moved a job or a node to a state that may not follow.

    Args:
        what: the job or node, such as `node 3`.
        before: its state.
        after: the state it was to enter.
        why: what else forbids it; empty: the table of transitions does.
    """

    def __init__(self, what: str, before: str, after: str, why: str = "") -> None:
        super().__init__(what, before, after, why)
        self.what = what
        self.before = before
        self.after = after
        self.why = why

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"{self.what} can't go from {self.before} to {self.after}{why}"


class InvariantError(ServerError):
    """The simulator is at fault: its state contradicts itself."""


class SimulationStuck(ServerError):  # noqa: N818 - a state of affairs, named as users say it
    """The scheduler is at fault: jobs wait, and nothing can happen any more.

    Args:
        now_s: the simulated instant at which time stopped.
        waiting: the numbers of the jobs that wait.
        since_s: when the first of them was submitted.
        why: what stopped time.
    """

    def __init__(self, now_s: float, waiting: Sequence[int], since_s: float, why: str) -> None:
        super().__init__(now_s, waiting, since_s, why)
        self.now_s = now_s
        self.waiting = waiting
        self.since_s = since_s
        self.why = why

    def __str__(self) -> str:
        return (
            f"the simulation is stuck at {self.now_s} s: {waiting_jobs(self.waiting)}, "
            f"the first since {self.since_s} s, and {self.why}"
        )


class ResultsError(ServerError):
    """The results could not be written.

    Attributes:
        metrics: metrics of the run by name; None: the run has not started.
    """

    metrics: Mapping[str, int | float] | None = None


class ResultsFolderError(ResultsError):
    """The folder for results cannot be used; raised before the simulation starts."""


class SessionRefused(ServerError):  # noqa: N818 - an answer to a client, not a fault of ours
    """The client is at fault: it asks for a session that the server does not open.

    Args:
        code: the protocol's error code.
        what: what was wrong and what would be right.
    """

    def __init__(self, code: ErrorCode, what: str) -> None:
        super().__init__(code, what)
        self.code = code
        self.what = what

    def __str__(self) -> str:
        return self.what


class BindError(ServerError):
    """The server can't listen at the address."""


def waiting_jobs(names: Sequence[int] | Sequence[str]) -> str:
    """Return how many jobs wait, and the names of the first: `3 jobs wait (1, 2, 3)`."""
    count = len(names)
    first: Iterable[int | str] = names[:MAX_NAMED]
    named = ", ".join(map(str, first)) + ", ..." * (count > MAX_NAMED)
    return f"1 job waits ({named})" if count == 1 else f"{count} jobs wait ({named})"
