"""Tasks for the tests of executors; workers import them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from hpcosim_executors import InputFiles


def square(number: int, _: InputFiles) -> int:
    """Return the square of a number."""
    return number * number


def inverse(number: float, _: InputFiles) -> float:
    """Return 1 divided by a number."""
    return 1 / number


def environment(name: str, _: InputFiles) -> str | None:
    """Return an environment variable of the worker."""
    return os.environ.get(name)


def process(_: int, __: InputFiles) -> int:
    """Return the number of the worker process."""
    return os.getpid()


def size(path: Path, files: InputFiles) -> int:
    """Return the number of bytes of an input file."""
    return files.local(path).stat().st_size


def die_once(mark: Path, _: InputFiles) -> str:
    """Kill the worker the first time that it gets this task."""
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return mark.name


def die_if_odd(number: int, _: InputFiles) -> int:
    """Kill the worker if a number is odd."""
    if number % 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def unpicklable(_: int, __: InputFiles) -> object:
    """Return an object that cannot be pickled."""
    return lambda: None


def wait_for_ever(folder: Path, _: InputFiles) -> None:
    """Write the number of the worker process as the name of a file; then wait."""
    (folder / str(os.getpid())).touch()
    while True:
        time.sleep(60)
