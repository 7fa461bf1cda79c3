"""Errors of this package."""

from __future__ import annotations


class ViewError(Exception):
    """Base class of the errors of this package."""


class ExportError(ViewError):
    """A run cannot be exported: a package is missing, a file exists, or a value does not fit."""


class NotWrittenError(ViewError):
    """A file cannot be written, for example because the disk is full."""


class NoRegularFileError(ViewError):
    """A folder, a device, a FIFO or a socket is in the place of an output file."""


class SelectionError(ViewError):
    """What to show is contradictory: the run, the time, or the states of jobs."""


class ReportError(ViewError):
    """The runs cannot be shown in one report, or a file is in the place of the report."""


class BundleError(ViewError):
    """The modules of the web page cannot be joined: a bug of this package."""


class FigureError(ViewError):
    """The results cannot be drawn, or matplotlib is missing."""
