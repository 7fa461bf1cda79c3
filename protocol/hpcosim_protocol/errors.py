"""Errors of the protocol package."""

from __future__ import annotations


class ProtocolError(Exception):
    """Base of every error this package raises."""


class DecodeError(ProtocolError):
    """The peer sent bytes that are no message of this protocol.

    Args:
        what: what was wrong and what would be right.
        where: the field at fault, such as `$.decisions[0].job_id`; empty: the whole.
    """

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(what, where)
        self.what = what
        self.where = where

    def __str__(self) -> str:
        return f"{self.what} (at {self.where})" if self.where else self.what


class UnsupportedVersionError(ProtocolError):
    """The peers speak no version in common.

    Args:
        offered: the versions the peer speaks.
        spoken: the version spoken here.
    """

    def __init__(self, offered: list[int], spoken: int) -> None:
        super().__init__(offered, spoken)
        self.offered = offered
        self.spoken = spoken

    def __str__(self) -> str:
        offered = ", ".join(map(str, self.offered)) or "none"
        return f"the client speaks protocol versions {offered}; this server speaks {self.spoken}"
