"""The report of an import: what was written, dropped, guessed and not modelled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["dropped", "guessed", "not modelled", "no effect"]

MOST_PLACES = 5
"""Places that the report names of each entry."""

MEANING: dict[Kind, str] = {
    "dropped": "dropped",
    "guessed": "guessed or changed",
    "not modelled": "settings that are not modelled",
    "no effect": "settings without effect on a simulation",
}


@dataclass
class Entry:
    """Something that an import did.

    Attributes:
        count: how often.
        places: the first places, such as `17` (a line) or `slurm.conf:17`.
    """

    count: int = 0
    places: list[str] = field(default_factory=list)


@dataclass
class ImportReport:
    """What an import wrote, dropped and guessed.

    Attributes:
        written: what was written, in the order of writing: texts such as `500 jobs`.
        facts: values by name, such as the time that is second 0 of the simulation.
        entries: by kind and description, what was dropped or guessed.
    """

    written: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    entries: dict[Kind, dict[str, Entry]] = field(default_factory=dict)

    def add(self, kind: Kind, what: str, place: str | int = "", count: int = 1) -> None:
        """Count something.

        Args:
            kind: what happened to it.
            what: description.
            place: line, or file and line; empty: none.
            count: how often it occurred here.
        """
        what = "".join(letter if letter.isprintable() else "?" for letter in what)
        entry = self.entries.setdefault(kind, {}).setdefault(what, Entry())
        entry.count += count
        if place != "" and len(entry.places) < MOST_PLACES and str(place) not in entry.places:
            entry.places.append(str(place))

    def count(self, kind: Kind, what: str = "") -> int:
        """Return how often something occurred; without `what`, of all entries of the kind."""
        entries = self.entries.get(kind, {})
        if what:
            return entries[what].count if what in entries else 0
        return sum(entry.count for entry in entries.values())

    def summary(self, kind: Kind) -> str:
        """Return the entries of a kind as one text; empty: there are none."""
        entries = self.entries.get(kind, {})
        parts = (f"{entry.count:,} {what}{_places(entry)}" for what, entry in entries.items())
        return f"{MEANING[kind]}: {'; '.join(parts)}" if entries else ""

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield from self.written
        for name, value in self.facts.items():
            yield f"{name}: {value}"
        for kind, meaning in MEANING.items():
            if kind not in self.entries:
                continue
            yield f"{meaning}:"
            for what, entry in self.entries[kind].items():
                yield f"{entry.count:>8,}  {what}{_places(entry)}"

    def as_dict(self) -> dict[str, object]:
        """Return the report as plain data for JSON."""
        return {
            "written": self.written,
            "facts": self.facts,
            **{kind.replace(" ", "_"): self._of_kind(kind) for kind in MEANING},
        }

    def _of_kind(self, kind: Kind) -> dict[str, Any]:
        """Return count and first places of each entry of a kind, for JSON."""
        entries = self.entries.get(kind, {}).items()
        return {what: {"count": entry.count, "first": entry.places} for what, entry in entries}


def _places(entry: Entry) -> str:
    if not entry.places:
        return ""
    more = ", ..." if entry.count > len(entry.places) else ""
    lines = all(place.isdecimal() for place in entry.places)
    word = ("line " if len(entry.places) == 1 and not more else "lines ") if lines else ""
    return f" ({word}{', '.join(entry.places)}{more})"
