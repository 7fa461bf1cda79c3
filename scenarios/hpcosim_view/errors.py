"""Errors of this package."""

from __future__ import annotations


class ViewError(Exception):
    """Base class of the errors of this package."""


class ReportError(ViewError):
    """The runs cannot be shown in one report, or a file is in the place of the report."""


class BundleError(ViewError):
    """The modules of the web page cannot be joined: a bug of this package."""


class FigureError(ViewError):
    """The results cannot be drawn, or matplotlib is missing."""
