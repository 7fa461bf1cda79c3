"""The report of an import, and the check that hpcosim's reader accepts what is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from hpcosim_protocol.errors import ProtocolError
from hpcosim_protocol.features import check
from hpcosim_protocol.hosts import expand
from hpcosim_protocol.platform import NodeRanges
from hpcosim_workloads.accounting.record import Place
from hpcosim_workloads.errors import LineError
from hpcosim_workloads.logs.job_lines import JobLine, JobLines
from hpcosim_workloads.table import JobSpec

Kind = Literal["dropped", "guessed", "not modelled", "no effect"]

MOST_PLACES = 5

MEANING: dict[Kind, str] = {
    "dropped": "dropped",
    "guessed": "guessed or changed",
    "not modelled": "settings that are not modelled",
    "no effect": "settings without effect on a simulation",
}

Line = dict[str, Any]

ESSENTIAL = frozenset(("job_id", "submit_s", "cores", "run_s", "requested_s"))


@dataclass
class Entry:
    """Something that an import did."""

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

    def add(self, kind: Kind, what: str, place: Place = "", count: int = 1) -> None:
        """Count something.

        Args:
            place: line, or file and line; empty: none.
        """
        if not what.isprintable():
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
        entries = self.entries.get(kind, {}).items()
        return {what: {"count": entry.count, "first": entry.places} for what, entry in entries}


def _places(entry: Entry) -> str:
    if not entry.places:
        return ""
    more = ", ..." if entry.count > len(entry.places) else ""
    lines = all(place.isdecimal() for place in entry.places)
    word = ("line " if len(entry.places) == 1 and not more else "lines ") if lines else ""
    return f" ({word}{', '.join(entry.places)}{more})"


def readable(lines: Iterable[Line], places: Sequence[Place], report: ImportReport) -> list[Line]:
    """Return the jobs that the reader accepts, without the values that it rejects.

    Args:
        places: line of each job in the file that is imported.
    """
    jobs = JobLines(nodes_of=_checked_hosts)
    kept: dict[int, Line] = {}
    for row, line in enumerate(lines):
        accepted = _accepted(line, jobs, row, places[row], report)
        if accepted is not None:
            kept[accepted["job_id"]] = accepted

    def drop(error: LineError, job: JobSpec) -> None:
        place = "" if error.place is None else places[error.place]
        report.add("dropped", "dependencies that the reader rejects", place)
        kept[job.job_id].pop("dependency", None)

    jobs.check_links(drop)
    return list(kept.values())


def _accepted(
    line: Line, jobs: JobLines, row: int, place: Place, report: ImportReport
) -> Line | None:
    """Return a job without the values that the reader rejects; None: it rejects the job."""
    while True:
        try:
            if "features" in line:
                _check_features(line["features"])
            jobs.add(msgspec.convert(line, JobLine), row)
        except ValueError as error:
            field = str(error).rpartition("`$.")[2].partition("`")[0].partition("[")[0]
            if field not in line or field in ESSENTIAL:
                report.add("dropped", f"jobs with an invalid {field or 'value'}", place)
                return None
            report.add("dropped", f"values of {field} that hpcosim cannot express", place)
            line = {key: value for key, value in line.items() if key != field}
        else:
            return line


def _check_features(text: str) -> None:
    try:
        check(text)
    except ProtocolError as error:
        raise LineError(str(error), "features") from None


def _checked_hosts(text: str) -> NodeRanges:
    """Check a host list; which nodes there are is not known yet."""
    try:
        expand(text)
    except ProtocolError as error:
        raise ValueError(str(error)) from None
    return ()
