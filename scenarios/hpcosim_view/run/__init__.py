"""Results of a run as columns, read from its folder or from a running simulation.

Read a results folder, and look at its queue at a time:

    from pathlib import Path

    from hpcosim_view.run import read_folder
    from hpcosim_view.run.moment import moment

    run = read_folder(Path("results/demo"))
    waiting = moment(run, at_s=86400.0).waiting.job  # rows of the jobs
    print(run.columns["job.id"][waiting])

`hpcosim_view.run.frame.COLUMNS` defines the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol.lazy_names import lazy_names

if TYPE_CHECKING:
    from hpcosim_view.errors import ReadResultsError as ReadResultsError
    from hpcosim_view.run.folder import read_folder as read_folder
    from hpcosim_view.run.frame import Frame as Frame
    from hpcosim_view.run.frame import append as append
    from hpcosim_view.run.frame import decode_frame as decode_frame
    from hpcosim_view.run.frame import encode_frame as encode_frame
    from hpcosim_view.run.moment import Moment as Moment
    from hpcosim_view.run.recording import RecordingReader as RecordingReader

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "errors": "ReadResultsError",
        "folder": "read_folder",
        "frame": "Frame append decode_frame encode_frame",
        "moment": "Moment",
        "recording": "RecordingReader",
    },
)
