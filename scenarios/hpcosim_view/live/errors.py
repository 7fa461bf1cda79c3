"""Errors of this package."""

from __future__ import annotations


class LiveError(Exception):
    """Base class of the errors of this package: one line for the user."""


class HttpAddressError(LiveError):
    """The address or the token of the live view is malformed."""


class HttpBindError(LiveError):
    """The live view cannot listen at its address."""


class LiveExtraError(LiveError):
    """A package of the extra `live` is missing."""


class PaceError(LiveError):
    """A request to change the pace of a session is invalid."""


class NoLiveViewError(LiveError):
    """A live view does not answer, or not as one does."""


class LiveRequestError(LiveError):
    """A live view refuses a request: the token is missing, or there is no such session."""
