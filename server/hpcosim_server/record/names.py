"""Columns of names: compact codes for text that many jobs share."""

from __future__ import annotations

from array import array


class Names:
    """A column of names, which stores each distinct name once.

    Attributes:
        codes: index into `known`, by row.
        known: the distinct names in order of their first use; the first is "" for unknown names.
    """

    __slots__ = ("_code_of", "codes", "known")

    def __init__(self) -> None:
        self.codes = array("i")
        self.known = [""]
        self._code_of = {"": 0}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names) and self.codes == other.codes and self.known == other.known

    __hash__ = None  # type: ignore[assignment]  # the column is mutable

    def __getitem__(self, row: int) -> str:
        return self.known[self.codes[row]]

    def append(self, name: str) -> None:
        """Append the name of the next row."""
        code = self._code_of.get(name)
        if code is None:
            code = self._code_of[name] = len(self.known)
            self.known.append(name)
        self.codes.append(code)
