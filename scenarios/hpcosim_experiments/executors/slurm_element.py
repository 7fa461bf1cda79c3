"""Execution of the tasks of an array element, and the file of their outcomes.

The file grows by a record before and after each task, so that outcomes arrive while the element
runs, and so that the driver knows which task a lost element ran.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcosim_experiments.executors.calls import (
    FilesInPlace,
    packed,
    packed_outcome,
    set_environment,
)

LENGTH_BYTES = 8  # of the length of a record, big-endian, before the record


class Element(NamedTuple):
    """The work of an array element.

    Attributes:
        function: the pickled function.
        tasks: positions of tasks with the pickled tasks.
        results: file of the outcomes.
        folder: the driver's current folder.
        folders: environment variables that name folders.
        path: the driver's `sys.path`.
    """

    function: bytes
    tasks: Sequence[tuple[int, bytes]]
    results: Path
    folder: Path
    folders: dict[str, Path]
    path: tuple[str, ...]


class Record(NamedTuple):
    """A line of the protocol of an element.

    Attributes:
        position: position of a task.
        outcome: its packed outcome; None: the task has started.
    """

    position: int
    outcome: bytes | None


def run_element(element: Element) -> None:
    """Run the tasks of an element in their order, and write their outcomes.

    If Slurm has put the job back into its queue, the tasks with an outcome do not run again.
    """
    _leave_signals_to_slurm()
    sys.path += [folder for folder in element.path if folder not in sys.path]
    files = FilesInPlace(element.folder)
    set_environment(element.folders, files)
    completed = _resumed(element.results)
    with element.results.open("ab", buffering=0) as file:
        for position, task in element.tasks:
            if position in completed:
                continue
            file.write(_framed(Record(position, None)))
            outcome = packed_outcome(element.function, task, files)
            file.write(_framed(Record(position, outcome)))
            os.fsync(file.fileno())


def new_records(path: Path, offset: int) -> Iterator[tuple[Record, int]]:
    """Yield the complete records of a file from an offset, each with the offset of its end.

    Args:
        path: file of outcomes; it may not exist yet.
        offset: number of bytes that have been read.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read()
    except FileNotFoundError:
        return
    at = 0
    while len(content) - at >= LENGTH_BYTES:
        start = at + LENGTH_BYTES
        at = start + int.from_bytes(content[at:start])
        if at > len(content):
            return
        yield Record(*pickle.loads(content[start:at])), offset + at  # noqa: S301 (of the user)


def _resumed(path: Path) -> set[int]:
    """Remove an incomplete record from a file; return the positions of completed tasks."""
    records = list(new_records(path, 0))
    if path.exists():
        os.truncate(path, records[-1][1] if records else 0)
    return {record.position for record, _ in records if record.outcome is not None}


def _framed(record: Record) -> bytes:
    content = packed(tuple(record))
    return len(content).to_bytes(LENGTH_BYTES) + content


def _leave_signals_to_slurm() -> None:
    """Undo submitit's handlers: one raises an exception in the task before the time limit."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
