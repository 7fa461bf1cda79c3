"""Names of those that jobs belong to: compact codes for text that many jobs share."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Literal, NamedTuple

OwnerField = Literal["user", "group", "partition", "account", "qos"]


class Owner(NamedTuple):
    """Names that describe whom a job belongs to; empty: unknown.

    Attributes:
        user: name of the user who submitted the job.
        group: name of the user's group.
        partition: names of the job's partitions, separated by commas.
        account: name of the account.
        qos: name of the quality of service.
    """

    user: str
    group: str
    partition: str
    account: str
    qos: str


class Owners:
    """A column of owners, which stores each distinct owner once."""

    __slots__ = ("_code_of", "_codes", "_known")

    def __init__(self) -> None:
        self._codes = array("i")  # index into `_known`, by row
        self._known: list[Owner] = []
        self._code_of: dict[tuple[str, ...], int] = {}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Owners)
            and self._codes == other._codes
            and self._known == other._known
        )

    __hash__ = None  # type: ignore[assignment]  # the column is mutable

    def __getitem__(self, row: int) -> Owner:
        return self._known[self._codes[row]]

    def names(self, field: OwnerField, rows: slice = slice(None)) -> list[str]:
        """Return the names in one field of consecutive rows."""
        known = self._known
        return [getattr(known[code], field) for code in self._codes[rows]]

    @property
    def known(self) -> Sequence[Owner]:
        """The distinct owners, in order of their first rows."""
        return self._known

    def codes(self, rows: slice = slice(None)) -> list[int]:
        """Return the owners of consecutive rows, as indices into `known`."""
        return self._codes[rows].tolist()

    def append(self, owner: tuple[str, str, str, str, str]) -> None:
        """Append the owner of the next row, with the fields of `Owner` in their order."""
        code = self._code_of.get(owner)
        if code is None:
            code = self._code_of[owner] = len(self._known)
            self._known.append(Owner(*owner))
        self._codes.append(code)
