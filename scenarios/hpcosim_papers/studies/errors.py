"""The error class of this package."""

from __future__ import annotations


class StudyError(Exception):
    """A study cannot run: it is unknown, an input is missing, or a file is not writable."""
