"""The call of a function for a task in a worker."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_executors.interface import InputFiles

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables for the number of threads of linear algebra and PyTorch."""

ONE_THREAD = dict.fromkeys(THREADS, "1")


class Outcome(NamedTuple):
    """Outcome of a call.

    Attributes:
        result: value that the function returned; None if there is an error.
        error: the exception in one line; empty: there is a result.
    """

    result: Any
    error: str


class FilesInPlace(NamedTuple):
    """Input files that a worker reads where the driver does.

    Attributes:
        folder: the folder that relative paths start from.
    """

    folder: Path

    def local(self, path: Path) -> Path:
        """Return the path of a file, see `InputFiles.local`."""
        return self.folder / path


def outcome_of(function: Callable[[Any, InputFiles], Any], task: Any, files: InputFiles) -> Outcome:
    """Call a function for a task; an exception becomes one line."""
    try:
        return Outcome(function(task, files), "")
    except Exception as error:
        return Outcome(None, in_one_line(error))


def in_one_line(error: BaseException) -> str:
    """Return an exception and where it was raised, in one line."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
    if frames := traceback.extract_tb(error.__traceback__):
        text += f" (in {frames[-1].name}, {Path(frames[-1].filename).name}:{frames[-1].lineno})"
    return text


def set_environment(folders: Mapping[str, Path], files: InputFiles) -> None:
    """Set environment variables that name folders of input files.

    Args:
        folders: folders on the driver by name of the variable.
        files: the input files on this machine.
    """
    os.environ.update({name: str(files.local(folder)) for name, folder in folders.items()})
