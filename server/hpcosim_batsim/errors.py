"""Errors of the Batsim compatibility layer."""

from __future__ import annotations

from hpcosim_protocol.errors import HpcosimError


class BatsimError(HpcosimError):
    """Base of every error this package raises."""


class InputError(BatsimError):
    """An input file cannot be read, or describes something that is not supported.

    Args:
        path: the file as the user named it; "": data from the scheduler.
        where: the line (`line 3`) or the path of a field (`jobs[3].walltime`); "": the whole file.
        what: what is wrong and what was expected.
    """

    def __init__(self, path: str, where: str, what: str) -> None:
        super().__init__(path, where, what)
        self.path = path
        self.where = where
        self.what = what

    def __str__(self) -> str:
        return ": ".join(part for part in (self.path, self.where, self.what) if part)


class UnsupportedProfileError(InputError):
    """A profile has a type that is not supported."""


class RunFailedError(BatsimError):
    """The run failed, see `SchedulerError`. Results are written if the scheduler replied."""

    exit_status = 1


class SchedulerError(BatsimError):
    """The run cannot continue, in most cases because of the scheduler.

    The scheduler violated Batsim's protocol, made no progress or is unreachable, or energy is read
    that is unknown.
    """


class BadReplyError(SchedulerError):
    """The scheduler's reply is malformed or contains an invalid decision.

    Args:
        where: the field of the reply, such as `$.events[0].data.alloc`; "": the whole reply.
        now_s: simulated time, s; None: unknown.
    """

    def __init__(self, what: str, where: str = "", now_s: float | None = None) -> None:
        super().__init__(what, where, now_s)
        self.what = what
        self.where = where
        self.now_s = now_s

    def __str__(self) -> str:
        at = "" if self.now_s is None else f" at {self.now_s} s"
        where = f" ({self.where})" if self.where else ""
        return f"invalid reply of the scheduler{at}{where}: {self.what}"


class StuckError(SchedulerError):
    """No event is left, but jobs wait or the scheduler has not ended the registration of jobs.

    Args:
        why: what the simulation waits for.
    """

    def __init__(self, now_s: float, why: str) -> None:
        super().__init__(now_s, why)
        self.now_s = now_s
        self.why = why

    def __str__(self) -> str:
        return f"the simulation is stuck at {self.now_s} s: {self.why}"


class UnknownEnergyError(SchedulerError):
    """The energy of hosts is read whose power the platform does not state.

    Args:
        hosts: the hosts, for messages.
    """

    def __init__(self, now_s: float, hosts: str) -> None:
        super().__init__(now_s, hosts)
        self.now_s = now_s
        self.hosts = hosts

    def __str__(self) -> str:
        return (
            f"energy is read at {self.now_s} s, but {self.hosts}; add this property to the "
            "platform, or run without energy"
        )


class UnreachableError(SchedulerError):
    """The scheduler did not connect, closed the connection or did not reply in time."""


class ComponentError(SchedulerError):
    """A component in a library cannot be loaded, crashed, or reported a failure."""
