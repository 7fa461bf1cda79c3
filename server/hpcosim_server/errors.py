"""Errors of the server package.

Every class derives from `ServerError`. A docstring names the cause: the scheduler, the client, the
simulator itself, or the operating system.
"""

from __future__ import annotations

from hpcosim_protocol import ErrorCode
from hpcosim_protocol.errors import HpcosimError


class ServerError(HpcosimError):
    """Base class of the errors that this package raises."""


class SessionRefused(ServerError):  # noqa: N818 - a reply to a client; the server has no fault
    """The client's request for a session is invalid or exceeds a limit of the server."""

    def __init__(self, code: ErrorCode, what: str) -> None:
        super().__init__(code, what)
        self.code = code
        self.what = what

    def __str__(self) -> str:
        return self.what


class JournalError(ServerError):
    """A journal cannot be read, or the folder of journals cannot be used."""


class BindError(ServerError):
    """The server cannot listen at the address: it is malformed, in use or not permitted."""

    exit_status = 1
