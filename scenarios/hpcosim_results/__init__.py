"""Results of a run as columns, read from its folder or from a running simulation.

Read a results folder, and look at its queue at a time:

    from pathlib import Path

    from hpcosim_results import read_folder
    from hpcosim_results.moment import moment

    run = read_folder(Path("results/demo"))
    waiting = moment(run, at_s=86400.0).waiting.job  # rows of the jobs
    print(run.columns["job.id"][waiting])

`hpcosim_results.frame.COLUMNS` defines the columns.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcosim_results.errors import ReadResultsError
    from hpcosim_results.folder import read_folder
    from hpcosim_results.frame import Frame, append, decode_frame, encode_frame
    from hpcosim_results.moment import Moment
    from hpcosim_results.recording import RecordingReader

__all__ = [
    "Frame",
    "Moment",
    "ReadResultsError",
    "RecordingReader",
    "append",
    "decode_frame",
    "encode_frame",
    "read_folder",
]

_MODULES = (
    ("errors", ("ReadResultsError",)),
    ("folder", ("read_folder",)),
    ("frame", ("Frame", "append", "decode_frame", "encode_frame")),
    ("moment", ("Moment",)),
    ("recording", ("RecordingReader",)),
)


def __getattr__(name: str) -> object:
    for module, names in _MODULES:  # imported on first use
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
