"""Output files that appear together, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from hpcosim_view.errors import ExportError, NoRegularFileError, NotWrittenError


def target_of(file: Path) -> Path:
    """Return the regular or missing file that an output replaces. A link stays: its target is it.

    The file is not opened: a FIFO would block, and a device must never be replaced.

    Raises:
        NoRegularFileError: a folder, a device, a FIFO or a socket has this name.
    """
    if file.exists() and not file.is_file():  # both follow links
        what = "a folder" if file.is_dir() else "not a regular file"
        raise NoRegularFileError(f"{file} is {what}; expected the path of a file")
    return file.resolve() if file.is_symlink() else file


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name a file in an error of the `with` block, as the errors of open files have no name."""
    try:
        yield
    except OSError as error:
        why, name = error.strerror or str(error), error.filename or str(path)
        raise OSError(error.errno, why, name) from None


class Drafts:
    """Drafts beside their files; they replace the files when the `with` block succeeds.

    If the block fails or is interrupted, the drafts are removed, and so are folders that they
    needed.

    Raises:
        NotWrittenError: a file cannot be written; the files are as they were before.
    """

    def __init__(self, *, force: bool = False) -> None:
        self._force = force
        self._draft_of: dict[Path, Path] = {}
        self._folders: list[Path] = []

    def add(self, file: Path) -> Path:
        """Return the path of the draft of a file. A link stays, and its target is replaced.

        Raises:
            ExportError: the file exists and `force` is false, or it is written twice.
            NoRegularFileError: something else has its name.
        """
        file = target_of(file)
        if file.exists() and not self._force:
            raise ExportError(f"{file} exists; replace it with --force, or choose another name")
        if file.absolute() in (other.absolute() for other in self._draft_of):
            raise ExportError(f"{file} is written twice; give each output its own path")
        self._make(file.parent)
        draft = file.with_name(f".{file.name[:100]}-{secrets.token_hex(4)}")
        self._draft_of[file] = draft
        return draft

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._publish()
        except OSError as failed:
            error = failed
        finally:
            self._clean()
        if isinstance(error, OSError):
            files = {str(draft): file for file, draft in self._draft_of.items()}
            name = files.get(str(error.filename), error.filename or "a file")
            what = f"{name}: cannot be written: {error.strerror or error}"
            raise NotWrittenError(what) from None

    def _publish(self) -> None:
        for draft in self._draft_of.values():
            with writing(draft), draft.open("rb+") as content:
                os.fsync(content.fileno())  # a full disk may only show here
        for file, draft in self._draft_of.items():
            draft.replace(file)
        self._folders.clear()

    def _make(self, folder: Path) -> None:
        missing: Sequence[Path] = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            try:
                each.mkdir(exist_ok=True)
            except OSError as error:
                raise NotWrittenError(
                    f"{each}: cannot be created: {error.strerror or error}"
                ) from None
            self._folders.append(each)

    def _clean(self) -> None:
        for draft in self._draft_of.values():
            with suppress(OSError):
                draft.unlink()
        for folder in reversed(self._folders):
            with suppress(OSError):
                folder.rmdir()
