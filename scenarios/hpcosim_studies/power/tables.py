"""Tables of runs, as Markdown, and the arithmetic they share."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from hpcosim_studies.power.batch import Row


class Measure(NamedTuple):
    """What the paper compares managers by.

    Attributes:
        of: takes it from a run.
        title: for people.
        unit: of it.
        digits: after the point.
    """

    of: Callable[[Row], float]
    title: str
    unit: str
    digits: int

    @property
    def named(self) -> str:
        """The title, with the unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def text(self, value: float) -> str:
        """Return a value for a table."""
        return f"{value:,.{self.digits}f}"


WASTED = Measure(lambda row: row.wasted_gj, "wasted energy", "GJ", 2)
WAIT = Measure(lambda row: row.wait_s, "mean wait", "s", 0)
FILLING = Measure(lambda row: row.filling, "job-filling rate", "%", 1)
SHUTDOWNS = Measure(lambda row: row.shutdowns, "node shutdowns", "", 0)
ENERGY = Measure(lambda row: row.metrics["energy_j"] / 1e9, "energy in all", "GJ", 2)
MAX_WAIT = Measure(lambda row: row.metrics["max_wait_s"] / 3600, "longest wait", "h", 1)
MEASURES = (WASTED, WAIT, FILLING, SHUTDOWNS)
"""Those of figures 12 to 15, in their order."""

Groups = dict[tuple[str, str], list[Row]]


def groups(rows: Iterable[Row]) -> Groups:
    """Return runs by label and awareness: those of an agent's seeds together."""
    found: Groups = {}
    for row in rows:
        found.setdefault((row.spec.label, row.spec.awareness), []).append(row)
    return found


def mean(rows: Sequence[Row], measure: Measure) -> float:
    """Return the mean of a measure over runs."""
    return statistics.fmean(measure.of(row) for row in rows)


def change(value: float, base: float) -> float:
    """Return by how many percent a value lies above a base; NaN: the base is 0."""
    return 100 * (value / base - 1) if base else float("nan")


def percent(value: float) -> str:
    """Return a change for a table."""
    return f"{value:+.2f} %"


def spread(rows: Sequence[Row], measure: Measure) -> str:
    """Return the mean over runs, with the least and the most of several."""
    text = measure.text(mean(rows, measure))
    if len(rows) < 2:
        return text
    values = [measure.of(row) for row in rows]
    return f"{text} ({measure.text(min(values))} to {measure.text(max(values))})"


def run_table(rows: Sequence[Row], measures: Sequence[Measure]) -> list[str]:
    """Return a line for each manager and awareness, with the spread over seeds."""
    lines = [
        [label, awareness, *(spread(runs, measure) for measure in measures)]
        for (label, awareness), runs in groups(rows).items()
    ]
    return table(["manager", "scheduler", *(measure.named for measure in measures)], lines)


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """Return a table, a line each."""
    rule = ["---"] * len(head)
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *lines)]


def text_of(*parts: Sequence[str]) -> str:
    """Return a text of several parts, an empty line between two."""
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"
