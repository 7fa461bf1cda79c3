"""The encoded frames of a session, for viewers that join late or come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_view.run.frame import Frame, append, decode_frame, encode_frame

LIVE_LEVEL = 1
"""zlib level of live frames: fast."""
MAX_ENTRIES = 512
"""Number of encoded frames above which the older half is merged."""


class Entry(NamedTuple):
    """One encoded frame, or several merged ones.

    Attributes:
        first, last: numbers of the frames in it.
        data: the encoded frame.
    """

    first: int
    last: int
    data: bytes


class History:
    """The frames of a session since its begin, as entries without a gap.

    Args:
        before: number of the frame before the first one.
    """

    def __init__(self, before: int = 0) -> None:
        self.entries: list[Entry] = []
        self._before = before

    @property
    def last(self) -> int:
        """Number of the last frame, or of the one before the first."""
        return self.entries[-1].last if self.entries else self._before

    @property
    def size_bytes(self) -> int:
        """Size of all entries."""
        return sum(len(entry.data) for entry in self.entries)

    def add(self, data: bytes) -> None:
        """Add an encoded frame."""
        number = self.last + 1
        self.entries.append(Entry(number, number, data))

    def after(self, number: int) -> Entry | None:
        """Return the entry that follows a frame.

        Args:
            number: number of the last frame that a viewer has; 0: none.

        Returns:
            The entry, None if there is no newer frame, or the first entry if the viewer must start
            again: its frame is unknown, or has been merged with later ones.
        """
        if number == self.last or not self.entries:
            return None
        for entry in reversed(self.entries):
            if entry.first == number + 1:
                return entry
            if entry.first <= number:
                break
        return self.entries[0]

    def older_half(self) -> Sequence[Entry]:
        """Return the entries to merge; empty: there are few."""
        return self.entries[: MAX_ENTRIES // 2] if len(self.entries) > MAX_ENTRIES else ()

    def replace(self, entries: Sequence[Entry], merged: bytes) -> None:
        """Replace the first entries by their merged frame."""
        self.entries[: len(entries)] = [Entry(entries[0].first, entries[-1].last, merged)]


def merged(entries: Sequence[Entry]) -> bytes:
    """Return the encoded frame of several entries, which follow each other."""
    if len(entries) == 1:
        return entries[0].data
    frames: list[Frame] = [decode_frame(entry.data) for entry in entries]
    return encode_frame(append(frames), LIVE_LEVEL)
