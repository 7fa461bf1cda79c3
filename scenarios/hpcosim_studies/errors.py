"""The error of this package."""

from __future__ import annotations

from hpcosim_scenarios.errors import ScenariosError


class StudyError(ScenariosError):
    """A study cannot be reproduced: its scenarios or results are missing, or cannot be written."""
