"""What can go wrong in the simulator, named by who is at fault."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_protocol import ErrorCode

MOST_NAMED = 5  # jobs in a message


class ServerError(Exception):
    """Base of every error this package raises."""


class SimulationStuck(ServerError):  # noqa: N818 - it is a state of affairs, named as users say it
    """The scheduler is at fault: jobs wait, and nothing can happen any more.

    Args:
        now_s: the simulated instant at which time came to a halt.
        waiting: the numbers of the jobs that wait.
        since_s: when the first of them was submitted.
        why: what brought time to a halt.
    """

    def __init__(self, now_s: float, waiting: Sequence[int], since_s: float, why: str) -> None:
        super().__init__(now_s, waiting, since_s, why)
        self.now_s = now_s
        self.waiting = waiting
        self.since_s = since_s
        self.why = why

    def __str__(self) -> str:
        count = len(self.waiting)
        named = ", ".join(map(str, self.waiting[:MOST_NAMED])) + ", ..." * (count > MOST_NAMED)
        jobs = f"1 job waits ({named})" if count == 1 else f"{count} jobs wait ({named})"
        return (
            f"the simulation is stuck at {self.now_s} s: {jobs}, "
            f"the first since {self.since_s} s, and {self.why}"
        )


class ResultsError(ServerError):
    """The disk is at fault: the results could not be written."""


class SessionRefused(ServerError):  # noqa: N818 - an answer, not an error
    """The client is at fault: it asks for a session there can't be.

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
    """The address can't be listened at."""
