"""Errors of the Batsim compatibility layer."""

from __future__ import annotations


class BatsimError(Exception):
    """Base of every error this package raises."""


class InputError(BatsimError):
    """A file of Batsim's is at fault: it can't be read, or asks for what can't be had.

    Args:
        path: the file as it was named; empty: what came over the wire.
        where: the line (`line 3`), or the path of a field (`jobs[3].walltime`); empty: the file.
        what: what was wrong and what would be right.
    """

    def __init__(self, path: str, where: str, what: str) -> None:
        super().__init__(path, where, what)
        self.path = path
        self.where = where
        self.what = what

    def __str__(self) -> str:
        return ": ".join(part for part in (self.path, self.where, self.what) if part)


class RunFailedError(BatsimError):
    """The run failed because of the scheduler; what was recorded is written."""


class SchedulerError(BatsimError):
    """The scheduler is at fault: it broke Batsim's protocol, or nothing more can come of it."""


class BadReplyError(SchedulerError):
    """It said what it may not.

    Args:
        what: what was wrong and what would be right.
        where: the field of its message at fault, such as `$.events[0].data.alloc`; empty: the
            whole.
        now_s: the simulated second; None: not known where this is found.
    """

    def __init__(self, what: str, where: str = "", now_s: float | None = None) -> None:
        super().__init__(what, where, now_s)
        self.what = what
        self.where = where
        self.now_s = now_s

    def __str__(self) -> str:
        at = "" if self.now_s is None else f" at {self.now_s} s"
        where = f" ({self.where})" if self.where else ""
        return f"the scheduler's reply{at} can't be followed{where}: {self.what}"


class StuckError(SchedulerError):
    """It lets nothing more happen, though jobs wait or it may still register some.

    Args:
        now_s: the simulated second at which time came to a halt.
        why: what is waited for.
    """

    def __init__(self, now_s: float, why: str) -> None:
        super().__init__(now_s, why)
        self.now_s = now_s
        self.why = why

    def __str__(self) -> str:
        return f"the simulation is stuck at {self.now_s} s: {self.why}"


class SilentError(SchedulerError):
    """It never came, or is gone."""
