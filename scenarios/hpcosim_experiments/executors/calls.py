"""The call of a function for a task in a worker."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.executors.interface import InputFiles

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
        return Path(os.path.abspath(self.folder / path))

    def original(self, text: str) -> str:
        """Return the text, see `InputFiles.original`."""
        return text


def outcome_of(function: Callable[[Any, InputFiles], Any], task: Any, files: InputFiles) -> Outcome:
    """Call a function for a task; an exception becomes one line."""
    try:
        return Outcome(function(task, files), "")
    except Exception as error:
        return Outcome(None, files.original(in_one_line(error)))


def packed_outcome(function: bytes, task: bytes, files: InputFiles) -> bytes:
    """Call a pickled function for a pickled task, and return the pickled outcome.

    The bytes come from the user's own driver.
    """
    try:
        outcome = outcome_of(pickle.loads(function), pickle.loads(task), files)  # noqa: S301
    except Exception as error:
        outcome = Outcome(None, f"the task cannot be unpickled: {in_one_line(error)}")
    try:
        return packed(outcome)
    except Exception as error:
        return packed(Outcome(None, f"the result cannot be pickled: {in_one_line(error)}"))


def packed(value: Any) -> bytes:
    """Return a value pickled."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def unpacked_outcome(outcome: bytes) -> Outcome:
    """Return an outcome that a worker of this driver has pickled."""
    try:
        found: Outcome = pickle.loads(outcome)  # noqa: S301
    except Exception as error:
        return Outcome(None, f"the result cannot be unpickled: {in_one_line(error)}")
    return found


def in_one_line(error: BaseException) -> str:
    """Return an exception and where it was raised, in one line."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
    if frames := traceback.extract_tb(error.__traceback__):
        text += f" (in {frames[-1].name}, {Path(frames[-1].filename).name}:{frames[-1].lineno})"
    return text


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of the processes that start in the context."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def set_environment(folders: Mapping[str, Path], files: InputFiles) -> None:
    """Set environment variables that name folders of input files.

    Args:
        folders: folders on the driver by name of the variable.
        files: the input files on this machine.
    """
    os.environ.update({name: str(files.local(folder)) for name, folder in folders.items()})
