"""Only one bridge acts on a partition.

An open file holds the lock, so it ends with the process, however that ends: there are no stale
locks. Bridges of one machine that share the folder exclude each other.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from platformdirs import site_runtime_path, user_state_path

from hpcosim_slurm.errors import SlurmError


def lock_folder() -> Path:
    """Return the folder of locks: of the machine for root, otherwise of the user."""
    if os.geteuid() == 0:
        return site_runtime_path("hpcosim") / "slurm"
    return user_state_path("hpcosim") / "slurm"


@contextmanager
def exclusive(cluster: str, partitions: Iterable[str], folder: Path) -> Iterator[None]:
    """Hold the locks of partitions.

    Args:
        cluster: name of the cluster.
        partitions: names of the partitions.
        folder: folder of the locks; it is created.

    Raises:
        SlurmError: another bridge has one of the locks, or the folder cannot be used.
    """
    with ExitStack() as stack:
        for partition in sorted(set(partitions)):
            stack.enter_context(_locked(cluster, partition, folder))
        yield


@contextmanager
def _locked(cluster: str, partition: str, folder: Path) -> Iterator[None]:
    path = folder / f"{_file_name(cluster)}+{_file_name(partition)}.lock"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SlurmError(f"{path}: cannot lock partition {partition}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            raise SlurmError(
                f"another bridge acts on partition {partition} of cluster {cluster} (process "
                f"{owner}, {path}): end it, or name other partitions"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _file_name(name: str) -> str:
    """Return a file name; different names give different ones."""
    return re.sub(r"[^A-Za-z0-9_.-]", lambda found: f"%{ord(found[0]):x}_", name)
