"""The executor that settings describe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import assert_never

from hpcosim_experiments.executors.interface import Executor, ExecutorError
from hpcosim_experiments.executors.local import local_executor
from hpcosim_experiments.executors.ray_executor import ray_executor
from hpcosim_experiments.executors.settings import ExecutorSettings, Local, Ray, Slurm
from hpcosim_experiments.executors.slurm_executor import slurm_executor


@contextmanager
def open_executor(
    settings: ExecutorSettings,
    files: Sequence[Path] = (),
    folders: Mapping[str, Path] | None = None,
) -> Iterator[Executor]:
    """Open an executor; its workers stop when the context ends.

    Args:
        settings: settings of the executor.
        files: all files that the tasks read. Ray ships them once to each node; local processes and
            Slurm read them in place.
        folders: environment variables of the workers that name a folder of input files, such as
            `HPCOSIM_TRACES`, with the folder on the driver.

    Raises:
        ExecutorError: an input file is missing, the package or programs of the executor are not
            installed, or the cluster does not answer.
    """
    for path in files:
        if not path.is_file():
            raise ExecutorError(f"{path}: no such input file")
    match settings:
        case Local():
            with local_executor(settings, folders or {}) as executor:
                yield executor
        case Ray():
            with ray_executor(settings, files, folders or {}) as executor:
                yield executor
        case Slurm():
            with slurm_executor(settings, folders or {}) as executor:
                yield executor
        case _:
            assert_never(settings)
