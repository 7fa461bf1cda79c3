"""The error of this package."""

from __future__ import annotations


class StudyError(Exception):
    """A study cannot run: its name is unknown, a file is missing, or results cannot be written."""
