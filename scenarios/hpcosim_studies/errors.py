"""The error of this package."""

from __future__ import annotations


class StudyError(Exception):
    """A study cannot be reproduced: its scenarios or results are missing, or cannot be written."""
