"""Names that say nothing, in place of those of users, accounts, groups and jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hpcosim_protocol.files import read_regular
from hpcosim_slurm.files.errors import InputError

KINDS = ("user", "group", "account", "name")
KEPT = frozenset(("", "root"))  # `root` is the topmost account of every site
LISTS = {"allow_accounts": "account", "deny_accounts": "account", "allow_groups": "group"}
"""Attributes of a partition that are lists of names, with the kind of the names."""


class Pseudonyms:
    """Replaces names: the first user is `user1`, and so on.

    Args:
        path: file that keeps the replaced names, so that the jobs and the accounts of a cluster get
            the same ones. It must stay private. None: the names are not kept.

    Raises:
        InputError: the file has another content.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
        if path is not None and path.exists():
            self._known |= _read(path)

    def of(self, kind: str, name: str) -> str:
        """Return the replacement of a name.

        Args:
            kind: one of `KINDS`.
            name: the name; an empty one and `root` stay as they are.
        """
        if name in KEPT:
            return name
        known = self._known[kind]
        return known.setdefault(name, f"{'job' if kind == 'name' else kind}{len(known) + 1}")

    def partition(self, partition: Mapping[str, Any]) -> dict[str, Any]:
        """Return a partition of a scenario with replaced names of accounts and groups."""
        return {
            key: [self.of(LISTS[key], name) for name in value] if key in LISTS else value
            for key, value in partition.items()
        }

    def line(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Return a job line with replaced names."""
        return {key: self.of(key, each) if key in KINDS else each for key, each in line.items()}

    def content(self) -> dict[Path, bytes]:
        """Return the file to write, by path; empty: the names are not kept."""
        if self._path is None:
            return {}
        return {self._path: msgspec.json.format(msgspec.json.encode(self._known)) + b"\n"}


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        found = msgspec.json.decode(read_regular(path), type=dict[str, dict[str, str]])
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from None
    except msgspec.DecodeError as error:
        raise InputError(f"expected the names of an earlier import: {error}", path) from None
    if unknown := sorted(set(found) - set(KINDS)):
        raise InputError(f"expected names of {', '.join(KINDS)}, got {unknown[0]!r:.60}", path)
    return found
