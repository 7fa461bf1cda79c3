"""Errors of this package."""

from __future__ import annotations


class ReadResultsError(Exception):
    """Base class of the errors of this package: the message names the folder or the frame."""


class FrameError(ReadResultsError):
    """The bytes are no frame, or a frame of another format."""
