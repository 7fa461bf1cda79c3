"""What is on a disk after a power failure: changes of real files, recorded, and what may be left.

The model is that of POSIX: only `fsync` of a file makes its content safe, and only `fsync` of a
folder the names in it. Without it, any of the changes may be on the disk: each alone, as on a file
system that reorders, or the first of them, as on one with a journal. A rename is one change, and so
happens as a whole or not at all. See Pillai et al., "All file systems are not created equal"
(OSDI 2014).
"""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch


@dataclass(slots=True, eq=False)
class Inode:
    """A file or a folder.

    Attributes:
        names: its entries, for a folder; None: it is a file.
        safe: content that is safe.
        content: content at the time of the last recorded change.
    """

    names: dict[str, Inode] | None = None
    safe: bytes = b""
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of names that happens as a whole: folder, name, and what it names from then on."""

    entries: tuple[tuple[Inode, str, Inode | None], ...]


@dataclass(slots=True)
class State:
    """A disk at an instant.

    Attributes:
        root: the folder that is recorded; its entries are safe.
        pending: changes of names that are not safe, the oldest first.
    """

    root: Inode = field(default_factory=lambda: Inode({}))
    pending: list[Change] = field(default_factory=list)


Step = Callable[[State], None]


class PowerRecorder:
    """Records what happens below a folder.

    Args:
        root: the folder; it is empty, or as it is at the begin.

    Attributes:
        steps: what happened.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.steps: list[Step] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what this process does in the `with` block."""
        names = ("mkdir", "rename", "replace", "unlink", "rmdir", "fsync", "fdatasync", "write")
        hooks = [patch.object(os, name, self._hook(name)) for name in (*names, "open", "ftruncate")]
        with patch.object(io, "open", self._open_hook()):
            for hook in hooks:
                hook.start()
            try:
                yield
            finally:
                for hook in hooks:
                    hook.stop()

    def after(self, steps: int, chance: random.Random, target: Path) -> None:
        """Write what a power failure after a number of steps may leave to a new folder.

        Args:
            steps: number of steps.
            chance: draws what is left.
            target: the folder.
        """
        state = State()
        for step in self.steps[:steps]:
            step(state)
        keeps_order, count = chance.random() < 0.5, len(state.pending)
        first = chance.randint(0, count)
        for number, change in enumerate(state.pending):
            if number < first if keeps_order else chance.random() < 0.5:
                _apply(change)
        _write(state.root, target, chance)

    def _hook(self, name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def hooked(*args: Any, **kwargs: Any) -> Any:
            before = self._existing(args[0]) if name == "open" else True
            result = real(*args, **kwargs)
            self._note(name, args, is_new=not before and "dir_fd" not in kwargs)
            return result

        return hooked

    def _open_hook(self) -> Callable[..., Any]:
        real = io.open

        def hooked(file: Any, *args: Any, **kwargs: Any) -> Any:
            before = isinstance(file, int) or self._existing(file)
            result = real(file, *args, **kwargs)
            self._note("open", (file,), is_new=not before)
            return result

        return hooked

    def _existing(self, path: Any) -> bool:
        return os.path.lexists(path)

    def _note(self, name: str, args: tuple[Any, ...], *, is_new: bool) -> None:
        places = [self._place(arg) for arg in args[: 2 if name in ("rename", "replace") else 1]]
        if None in places:
            return
        place = places[0]
        assert place is not None
        if name == "mkdir" or (name == "open" and is_new):
            self.steps.append(lambda state: _make(state, place, is_folder=name == "mkdir"))
        elif name in ("rename", "replace"):
            target = places[1]
            assert target is not None
            self.steps.append(lambda state: _move(state, place, target))
        elif name in ("unlink", "rmdir"):
            self.steps.append(lambda state: _remove(state, place))
        elif name in ("fsync", "fdatasync", "write", "ftruncate"):
            path = self.root.joinpath(*place)
            if not path.exists():  # it is removed, and this process still has it open
                return
            content = path.read_bytes() if path.is_file() else b""
            is_safe = name in ("fsync", "fdatasync")
            self.steps.append(lambda state: _settle(state, place, content, is_safe=is_safe))

    def _place(self, what: Any) -> tuple[str, ...] | None:
        """Return the path of a file or a descriptor below the root; None: it is elsewhere."""
        if isinstance(what, int):
            what = os.readlink(f"/proc/self/fd/{what}")
        path = Path(os.path.abspath(os.fsdecode(what)))
        return path.relative_to(self.root).parts if path.is_relative_to(self.root) else None


def _now(state: State) -> dict[int, dict[str, Inode]]:
    """Return the names in each folder that has changed, as the running system sees them."""
    seen: dict[int, dict[str, Inode]] = {}
    for change in state.pending:
        for folder, name, inode in change.entries:
            assert folder.names is not None
            names = seen.setdefault(id(folder), dict(folder.names))
            names.pop(name, None)
            if inode is not None:
                names[name] = inode
    return seen


def _at(state: State, place: tuple[str, ...]) -> Inode:
    seen, inode = _now(state), state.root
    for name in place:
        assert inode.names is not None
        inode = seen.get(id(inode), inode.names)[name]
    return inode


def _make(state: State, place: tuple[str, ...], *, is_folder: bool) -> None:
    made = Inode({} if is_folder else None)
    state.pending.append(Change(((_at(state, place[:-1]), place[-1], made),)))


def _move(state: State, place: tuple[str, ...], target: tuple[str, ...]) -> None:
    moved = _at(state, place)
    here, there = _at(state, place[:-1]), _at(state, target[:-1])
    state.pending.append(Change(((here, place[-1], None), (there, target[-1], moved))))


def _remove(state: State, place: tuple[str, ...]) -> None:
    state.pending.append(Change(((_at(state, place[:-1]), place[-1], None),)))


def _settle(state: State, place: tuple[str, ...], content: bytes, *, is_safe: bool) -> None:
    inode = _at(state, place)
    inode.content = content
    if not is_safe:
        return
    inode.safe = content
    for change in list(state.pending):
        if any(folder is inode for folder, _, _ in change.entries):
            _apply(change)
            state.pending.remove(change)


def _apply(change: Change) -> None:
    for folder, name, inode in change.entries:
        assert folder.names is not None
        folder.names.pop(name, None)
        if inode is not None:
            folder.names[name] = inode


def _write(inode: Inode, path: Path, chance: random.Random) -> None:
    if inode.names is None:
        path.write_bytes(_left(inode, chance))
        return
    path.mkdir()
    for name, inner in inode.names.items():
        _write(inner, path / name, chance)


def _left(inode: Inode, chance: random.Random) -> bytes:
    """Return what is left of a file: what is safe, and some of what was written after it."""
    safe, content = inode.safe, inode.content
    if not content.startswith(safe):  # it was cut
        return chance.choice((safe, content))
    return content[: chance.randint(len(safe), len(content))]
