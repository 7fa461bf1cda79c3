"""The clients whose public keys a server admits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from hpcosim_protocol.keys import PUBLIC, KeysError, read_public
from hpcosim_server import log
from hpcosim_server.wire.log_rate import LogRate

MAX_CLIENTS = 10_000
"""Maximum number of files in the folder of the clients' keys."""


class Admitted:
    """The public keys in a folder, read again when the folder or a file in it has changed.

    A key that is removed admits no new connection; connections that exist stay.

    Args:
        folder: folder with one certificate file `NAME.key` for each client.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: list[tuple[str, int, int]] = []
        self._keys: set[bytes] = set()
        self._log_rate = LogRate(per_s=1.0, burst=10)
        self._read()

    def __len__(self) -> int:
        return len(self._keys)

    def callback(self, _domain: str, key: bytes) -> bool:
        """Return whether the client with a key is admitted; pyzmq calls it for each connection."""
        self._read()
        is_admitted = key in self._keys
        if not is_admitted and self._log_rate.admits():
            text = key.decode("ascii", "replace")
            log.warning("client_not_admitted", key=text, more=self._log_rate.take_left_out())
        return is_admitted

    def _read(self) -> None:
        try:
            found = self._scan()
        except OSError as error:
            if self._log_rate.admits():
                log.warning("keys_not_read", folder=str(self._folder), error=str(error))
            self._seen, self._keys = [], set()
            return
        if found != self._seen:
            self._seen = found
            self._keys = set(self._read_all(name for name, _, _ in found))

    def _scan(self) -> list[tuple[str, int, int]]:
        with os.scandir(self._folder) as entries:
            files = [entry for entry in entries if entry.name.endswith(PUBLIC)]
            return sorted((file.name, *_state(file)) for file in files[:MAX_CLIENTS])

    def _read_all(self, names: Iterable[str]) -> Iterator[bytes]:
        for name in names:
            try:
                yield read_public(self._folder / name)
            except KeysError as error:  # one bad file must not lock the others out
                log.warning("key_not_read", error=str(error))


def _state(file: os.DirEntry[str]) -> tuple[int, int]:
    """Return what changes with the content of a file: its time and size."""
    try:
        state = file.stat()
    except OSError:  # a link to nothing, or a file just removed: reading it says so
        return -1, -1
    return state.st_mtime_ns, state.st_size
