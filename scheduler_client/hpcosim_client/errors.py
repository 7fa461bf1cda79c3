"""Errors of a scheduler process, by who is at fault."""

from __future__ import annotations

from hpcosim_protocol import Error


class ClientError(Exception):
    """Base of every error this package raises."""


class ServerGoneError(ClientError):
    """The server is at fault: it does not answer."""


class ServerRefusedError(ClientError):
    """The server rejected a request and says why.

    Args:
        error: the server's reply, with a code for programs and a message for people.
    """

    def __init__(self, error: Error) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        where = f" (at {self.error.where})" if self.error.where else ""
        return f"the server refuses, {self.error.code}: {self.error.message}{where}"


class ServerFaultError(ClientError):
    """The server is at fault: its answer breaks the protocol."""


class PolicyError(ClientError):
    """The policy is at fault: it decided the impossible, or its name or settings are invalid."""
