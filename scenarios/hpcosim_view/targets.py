"""The place of an output file."""

from __future__ import annotations

from pathlib import Path

from hpcosim_view.errors import NoRegularFileError


def target_of(file: Path) -> Path:
    """Return the regular or missing file that an output replaces. A link stays: its target is it.

    The file is not opened: a FIFO would block, and a device must never be replaced.

    Args:
        file: path that a user gave.

    Raises:
        NoRegularFileError: a folder, a device, a FIFO or a socket has this name.
    """
    if file.exists() and not file.is_file():  # both follow links
        what = "a folder" if file.is_dir() else "not a regular file"
        raise NoRegularFileError(f"{file} is {what}; expected the path of a file")
    return file.resolve() if file.is_symlink() else file
