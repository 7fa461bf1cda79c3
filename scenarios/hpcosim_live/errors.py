"""Errors of this package."""

from __future__ import annotations


class LiveError(Exception):
    """Base class of the errors of this package: one line for the user."""


class HttpAddressError(LiveError):
    """The address of the live view is malformed, in use, or needs a token."""


class LiveExtraError(LiveError):
    """A package of the extra `live` is missing."""


class PaceError(LiveError):
    """A request to change the pace of a session is invalid."""
