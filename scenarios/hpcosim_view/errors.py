"""Errors of this package."""

from __future__ import annotations

from hpcosim_protocol.errors import HpcosimError


class ViewError(HpcosimError):
    """Base class of the errors of this package."""


class LiveError(ViewError):
    """Base class of the errors of live views."""


class HttpAddressError(LiveError):
    """The address or the token of the live view is malformed."""


class HttpBindError(LiveError):
    """The live view cannot listen at its address."""

    exit_status = 1


class LiveExtraError(LiveError):
    """A package of the extra `live` is missing."""


class PaceError(LiveError):
    """A request to change the pace of a session is invalid."""


class NoLiveViewError(LiveError):
    """A live view does not answer, or not as one does."""

    exit_status = 1


class LiveRequestError(LiveError):
    """A live view refuses a request: the token is missing, or there is no such session."""


class ReadResultsError(ViewError):
    """Results cannot be read: the message names the folder or the frame."""


class FrameError(ReadResultsError):
    """The bytes are no frame, or a frame of another format."""


class ExportError(ViewError):
    """A run cannot be exported: a package is missing, a file exists, or a value does not fit."""


class NotWrittenError(ViewError):
    """A file cannot be written, for example because the disk is full."""

    exit_status = 1


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
