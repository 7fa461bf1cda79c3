"""The error class of this package."""

from __future__ import annotations

from hpcosim_protocol.errors import HpcosimError


class StudyError(HpcosimError):
    """A study cannot run: it is unknown, an input is missing, or a file is not writable."""
