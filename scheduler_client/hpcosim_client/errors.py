"""Exceptions of the client."""

from __future__ import annotations

import re

from hpcosim_protocol import Error
from hpcosim_protocol.errors import HpcosimError


class ClientError(HpcosimError):
    """Base class of all exceptions of this package."""

    exit_status = 1


class AddressError(ClientError):
    """The address of the server is invalid.

    Args:
        address: the address.
        reason: the reason, as ZeroMQ states it.
    """

    exit_status = 2

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        bare = re.fullmatch(r"(?://)?([^/]+:\d+)", self.address)
        hint = f"; did you mean tcp://{bare[1]}?" if bare else ""
        return (
            f"{self.address!r} is not an address ({self.reason}): "
            f"expected tcp://HOST:PORT or ipc://PATH{hint}"
        )


class ServerGoneError(ClientError):
    """The server does not answer."""


class ServerRefusedError(ClientError):
    """The server rejected a request.

    Args:
        error: the server's reply: a code, a message and the place in the request.
    """

    def __init__(self, error: Error) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        where = f" (at {self.error.where})" if self.error.where else ""
        return f"the server rejects the request, {self.error.code}: {self.error.message}{where}"


class ResultsNotWrittenError(ClientError):
    """The simulation is over, but the server has not written its results.

    Args:
        why: the reason, as the server states it.
        metrics: metrics of the simulation, by name.
    """

    def __init__(self, why: str, metrics: dict[str, int | float]) -> None:
        super().__init__(why)
        self.metrics = metrics


class ServerFaultError(ClientError):
    """A reply of the server violates the protocol."""


class PolicyError(ClientError):
    """A policy makes an impossible decision, or its name or its settings are invalid."""

    exit_status = 2


class PolicyDiffersError(ClientError):
    """A policy that comes back to its session decides differently from what was recorded.

    Args:
        seq: number of the request.
        now_s: simulated time of the decisions, s.
        expected: the recorded decisions.
        got: the decisions of the policy.
    """

    def __init__(self, seq: int, now_s: float, expected: str, got: str) -> None:
        super().__init__(seq, now_s, expected, got)
        self.seq = seq
        self.now_s = now_s
        self.expected = expected
        self.got = got

    def __str__(self) -> str:
        return (
            f"the policy differs from the recorded session at request {self.seq}, simulated time "
            f"{self.now_s} s: expected {self.expected}, got {self.got}. It is not deterministic, "
            "or it or its settings have changed; --from-snapshot (from_snapshot=True) goes on "
            "without its earlier state"
        )
