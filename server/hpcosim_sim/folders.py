"""Folders whose names survive a power failure."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path


def make_folders(folder: Path, mode: int = 0o777) -> None:
    """Create a folder and its missing parents, so that they survive a power failure.

    Args:
        mode: permissions of the folder if it is new, less the umask; its parents have the usual
            ones.
    """
    if folder.is_dir():
        return
    if folder.exists():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    make_folders(folder.parent)
    folder.mkdir(mode=mode, exist_ok=True)
    with suppress(PermissionError):  # a parent that others own, and that this user cannot read
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, so that they survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not every file system can
            raise
    finally:
        os.close(descriptor)
