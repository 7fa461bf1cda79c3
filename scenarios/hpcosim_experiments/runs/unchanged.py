"""The check that the files of a run are those of its key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.executors import InputFiles
from hpcosim_scenarios.model.source import sha256_of


def check_unchanged(checksums: Mapping[Path, str], files: InputFiles) -> None:
    """Check that no file has changed since the experiment was planned.

    A file is read again only if its size or its time of modification has changed.

    Args:
        checksums: SHA-256 of the files of a run, by path on the driver.
        files: where they are on this machine.

    Raises:
        ExperimentError: a file has changed.
        WorkloadError: a file cannot be read.
    """
    for path, checksum in checksums.items():
        here = files.local(path)
        state = here.stat() if here.exists() else None
        stamp = (state.st_size, state.st_mtime_ns, state.st_ino) if state else (0, 0, 0)
        if _sha256(here, stamp) != checksum:
            raise ExperimentError(
                f"{path} has changed since the experiment was started; start it again"
            )


@lru_cache(maxsize=1000)
def _sha256(path: Path, _: tuple[int, int, int]) -> str:
    return sha256_of(path)
