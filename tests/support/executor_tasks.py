"""Tasks for the tests of executors; workers import them."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import time
from pathlib import Path

from hpcosim_experiments.executors import InputFiles
from hpcosim_experiments.executors.slurm_executor import Element, run_element


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


def cancel_own_job(number: int, _: InputFiles) -> int:
    """Cancel the Slurm job that runs this task and wait, if the number is not 0."""
    if number:
        array = os.environ.get("SLURM_ARRAY_JOB_ID")
        element = f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else ""
        subprocess.run(["scancel", element or os.environ["SLURM_JOB_ID"]], check=True)
        time.sleep(60)
    return number


def write_records(path: Path, count: int) -> None:
    """Write the file of an array element that squares numbers."""
    tasks = [(number, pickle.dumps(number)) for number in range(count)]
    element = Element(pickle.dumps(square), tasks, path, Path.cwd(), {}, ())
    before = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGUSR2)]
    try:
        run_element(element)
    finally:
        for number, handler in before:
            signal.signal(number, handler)


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
