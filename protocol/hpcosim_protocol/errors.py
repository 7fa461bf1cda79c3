"""Exceptions of the protocol package."""

from __future__ import annotations


class HpcosimError(Exception):
    """Base class of the exceptions that hpcosim raises on purpose; others are bugs.

    Attributes:
        exit_status: exit status of the `hpcosim` command: 2 for bad input, 1 for a run that failed,
            a server that does not answer, or results that cannot be written.
    """

    exit_status = 2


class ProtocolError(HpcosimError):
    """Base class of the exceptions of this package."""

    exit_status = 1


class DecodeError(ProtocolError):
    """The peer sent bytes that are not a message of this protocol.

    Args:
        what: the fault and the expected value.
        where: path of the wrong field, such as `$.decisions[0].job_id`; empty: the whole message.
    """

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(what, where)
        self.what = what
        self.where = where

    def __str__(self) -> str:
        return f"{self.what} (at {self.where})" if self.where else self.what


class UnsupportedVersionError(ProtocolError):
    """The peers have no protocol version in common."""

    def __init__(self, offered: list[int], spoken: int) -> None:
        super().__init__(offered, spoken)
        self.offered = offered
        self.spoken = spoken

    def __str__(self) -> str:
        offered = ", ".join(map(str, self.offered)) or "none"
        return (
            f"no protocol version in common: the client supports {offered}; "
            f"this server supports {self.spoken}"
        )


class HostListError(ProtocolError):
    """A text is no host list, or names unknown nodes. See `hpcosim_protocol.hosts`."""


class FeatureError(ProtocolError):
    """A text is no expression of node features. See `hpcosim_protocol.features`."""


class ResourceError(ProtocolError):
    """Resources are not sufficient, or a request for them has no meaning.

    See `hpcosim_protocol.resources`.
    """


class WireError(ProtocolError):
    """The fault of a peer: its bytes break ZeroMQ's wire protocol or its bounds."""
