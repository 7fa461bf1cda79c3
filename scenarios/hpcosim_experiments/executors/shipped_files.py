"""Input files that travel to the nodes of a Ray cluster, and the execution of a task there."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hpcosim_experiments.executors.calls import packed_outcome, set_environment
from hpcosim_experiments.executors.interface import ExecutorError

OWN_FOLDER = stat.S_IRWXU  # mode of folders of input files: other users have no access


class Archive(NamedTuple):
    """Input files, packed.

    Attributes:
        content: the packed files.
        digest: SHA-256 of the content, hexadecimal.
        folder: the driver's current folder; relative paths start from it.
    """

    content: bytes
    digest: str
    folder: str


def packed(paths: Iterable[Path]) -> Archive:
    """Return files as an archive. The same files give the same archive.

    Raises:
        ExecutorError: a file cannot be read.
    """
    files = {}
    for path in sorted({Path(os.path.abspath(path)) for path in paths}):
        try:
            files[path.relative_to(path.anchor).as_posix()] = path.read_bytes()
        except OSError as error:
            raise ExecutorError(f"{path}: cannot read the input file: {error.strerror}") from None
    content = msgspec.msgpack.encode(files)
    return Archive(content, hashlib.sha256(content).hexdigest(), str(Path.cwd()))


class ShippedFiles(NamedTuple):
    """Input files on this machine that come from the driver's.

    Attributes:
        root: folder that contains them under their absolute paths on the driver.
        folder: the driver's current folder.
    """

    root: Path
    folder: str

    def local(self, path: Path) -> Path:
        """Return the path on this machine, see `InputFiles.local`."""
        return self.root / os.path.abspath(os.path.join(self.folder, path)).lstrip("/")

    def original(self, text: str) -> str:
        """Return a text with the paths of the driver, see `InputFiles.original`."""
        return text.replace(str(self.root), "")


def unpacked(digest: str, folder: str, content: Callable[[], bytes]) -> ShippedFiles:
    """Return the files of an archive on this machine; unpack them if they are not there yet.

    Several processes may do this at once: each unpacks into a folder of its own, and the first one
    to rename it wins.

    Args:
        digest: SHA-256 of the archive.
        folder: the driver's current folder.
        content: returns the packed files; is called only if they are not there.

    Raises:
        ExecutorError: the folder belongs to another user, or a path leaves it.
        OSError: the files cannot be written.
    """
    parent = _own_folder(Path(tempfile.gettempdir()) / f"hpcosim-{os.getuid()}")
    root = parent / digest
    if not root.is_dir():
        new = Path(tempfile.mkdtemp(dir=parent, prefix=f"{digest[:16]}-"))
        try:
            _unpack(content(), new)
            new.rename(root)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            if not root.is_dir():  # or another process was faster
                raise
    return ShippedFiles(root, folder)


def _unpack(content: bytes, folder: Path) -> None:
    files = msgspec.msgpack.decode(content, type=dict[str, bytes])
    for name, data in files.items():
        path = folder / name
        if ".." in path.parts or not path.is_relative_to(folder):
            raise ExecutorError(f"{name}: this path of an input file leaves its folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _own_folder(path: Path) -> Path:
    """Create a folder that only this user can access, and return it."""
    path.mkdir(mode=OWN_FOLDER, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ExecutorError(
            f"{path}: expected a folder of this user for input files; remove it or set TMPDIR"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(OWN_FOLDER)
    return path


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
