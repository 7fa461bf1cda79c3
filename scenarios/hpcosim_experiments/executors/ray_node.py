"""Execution of a task on a node of a Ray cluster."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hpcosim_experiments.executors.calls import packed_outcome, set_environment
from hpcosim_experiments.executors.shipped_files import ShippedFiles, unpacked


def installed_version() -> str:
    """Return the version of hpcosim on this machine."""
    try:
        return version("hpcosim")
    except PackageNotFoundError:  # a checkout that is only on the path
        return "without version"


def run_on_node(
    function: bytes, task: bytes, files: tuple[str, str, list[Any]], folders: dict[str, str]
) -> bytes:
    """Run a task and return its packed outcome, see `run_task`."""
    digest, folder, references = files
    here = _files_here(digest, folder, references[0])
    set_environment({name: Path(path) for name, path in folders.items()}, here)
    return packed_outcome(function, task, here)


@lru_cache(maxsize=4)
def _files_here(digest: str, folder: str, reference: Any) -> ShippedFiles:
    import ray

    return unpacked(digest, folder, lambda: ray.get(reference))
