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


def size_in(task: tuple[str, str], _: InputFiles) -> int:
    """Return the number of bytes of a file in the folder that an environment variable names."""
    variable, name = task
    return (Path(os.environ[variable]) / name).stat().st_size


def read_beside(path: Path, files: InputFiles) -> str:
    """Return the text of the file whose relative path is the text of another file."""
    start = files.local(path)
    return (start.parent / start.read_text()).read_text()


def missing(path: Path, files: InputFiles) -> str:
    """Return a message with the path of a file."""
    return files.original(f"{files.local(path)}: no such log")


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


def meet(task: tuple[Path, int], _: InputFiles) -> int:
    """Write a file, wait until the file `go` exists in its folder, and return a number."""
    folder, number = task
    (folder / f"{number}-{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)
    return number


def wait_for_ever(folder: Path, _: InputFiles) -> None:
    """Write the number of the worker process as the name of a file; then wait."""
    (folder / str(os.getpid())).touch()
    while True:
        time.sleep(60)
