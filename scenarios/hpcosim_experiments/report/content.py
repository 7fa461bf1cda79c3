"""The content of a report, which each format presents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_experiments.report.analysis import Analysis
from hpcosim_experiments.report.captions import listed
from hpcosim_experiments.report.cells import Table
from hpcosim_experiments.report.figures import DrawnFigure, Figures
from hpcosim_experiments.report.tables import overview_of, tables_of

PROVENANCE = ("hpcosim", "python", "git_commit")
"""Columns of the rows that say what made them, without those that differ by combination."""

MAX_VALUES = 3


class Content(NamedTuple):
    """The content of a report.

    Attributes:
        title: its title.
        facts: pairs of a name and a text: the number of runs, what made them, and the
            figures that are left out.
        overview: the tables of what was run.
        figures: the figures.
        tables: the tables of results.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    overview: Sequence[Table]
    figures: Sequence[DrawnFigure]
    tables: Sequence[Table]


def content_of(analysis: Analysis, figures: Figures) -> Content:
    """Return the content of a report.

    Args:
        analysis: the results.
        figures: the figures.
    """
    failed = len(analysis.failed)
    axes = [f"{len(labels)} x {axis}" for axis, labels in analysis.axes.items() if len(labels) > 1]
    facts = [
        ("runs", f"{len(analysis.runs):,}, of which {failed:,} failed"),
        *([("axes", listed(axes))] if axes else []),
        *_provenance(analysis),
        *(("figure left out", text) for text in figures.left_out),
    ]
    title = f"Experiment {analysis.name}"
    return Content(title, facts, overview_of(analysis), figures.drawn, tables_of(analysis))


def _provenance(analysis: Analysis) -> list[tuple[str, str]]:
    """Return the values of each column of provenance."""
    found = []
    for name in PROVENANCE:
        values = list(dict.fromkeys(str(row[name]) for row in analysis.runs if row.get(name)))
        if values:
            more = f" and {len(values) - MAX_VALUES} more" if len(values) > MAX_VALUES else ""
            found.append((name.replace("_", " "), ", ".join(values[:MAX_VALUES]) + more))
    return found
