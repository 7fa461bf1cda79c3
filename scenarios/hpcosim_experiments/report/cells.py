"""Tables of a report as data: their cells, columns and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hpcosim_experiments.report.analysis import Analysis
from hpcosim_experiments.report.settings import (
    AXIS_KEYS,
    METRIC_KEYS,
    BoxFigure,
    FigureSettings,
    HeatFigure,
    LineFigure,
    ParetoFigure,
)
from hpcosim_experiments.report.units import Measure, with_digits
from hpcosim_experiments.statistics.bootstrap import Bootstrap, Estimate
from hpcosim_experiments.statistics.rows import Labels, groups
from hpcosim_experiments.statistics.summary import Plan

UNDEFINED = "n/a"

MOST_DIGITS = 12
"""Largest number of digits after the decimal point that a bold cell has."""

MINUS = "\N{MINUS SIGN}"


MARKS: Mapping[type[FigureSettings], str] = {
    LineFigure: "Line: {statistic}.",
    ParetoFigure: "Point: {statistic}.",
    BoxFigure: "Box: quartiles and median of the runs. Whiskers: minimum and maximum.",
    HeatFigure: "Colour and number: {statistic}.",
}
UNIT_OF: Mapping[type[FigureSettings], str] = {
    LineFigure: "point",
    ParetoFigure: "point",
    BoxFigure: "box",
    HeatFigure: "cell",
}
METHODS = {
    "percentile": "percentile bootstrap",
    "bca": "bias-corrected and accelerated bootstrap",
}


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        interval: the confidence interval; empty: none.
        strong: whether the interval excludes the value of no difference.
    """

    text: str
    interval: str = ""
    strong: bool = False


class Table(NamedTuple):
    """A table of a report.

    Attributes:
        name: name of its LaTeX file, without suffix.
        head: titles of the columns.
        rows: the cells of each row.
        labels: number of first columns that are left-aligned labels.
    """

    name: str
    title: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    labels: int


def labels_text(labels: Labels) -> str:
    """Return labels in a sentence: `scheduler easy, load 0.7`; text labels without their axis."""
    return ", ".join(
        label if isinstance(label, str) else f"{axis} {label}" for axis, label in labels.items()
    )


def column_of(
    measure: Measure, estimates: Sequence[Estimate], none: float | None = None
) -> tuple[str, list[Cell]]:
    """Return the title of a column of estimates, and its cells.

    Args:
        estimates: the estimates, in the unit of the metric.
        none: value that means no difference; None: the column has no differences.
    """
    fine = with_digits(measure, [one.value for one in estimates])
    return sentence(fine.named), [_cell(one, fine, none) for one in estimates]


def _cell(one: Estimate, measure: Measure, none: float | None) -> Cell:
    """Return the cell of an estimate."""
    if one.value != one.value:  # NaN
        return Cell(UNDEFINED)
    if not one.has_interval:
        return Cell(_text(one.value, measure))
    strong = none is not None and not one.low <= none <= one.high
    if strong and none is not None:
        measure = _apart(measure, (one.low, one.high), none)
    value, low, high = (_text(each, measure) for each in (one.value, one.low, one.high))
    return Cell(value, f"[{low}, {high}]", strong)


def _text(value: float, measure: Measure) -> str:
    """Return a value, in the unit of the metric, in that of the measure."""
    return measure.text(value / measure.scale).replace("-", MINUS)


def _apart(measure: Measure, bounds: Sequence[float], none: float) -> Measure:
    """Return a measure with the digits that show bounds as different from `none`."""
    while measure.digits < MOST_DIGITS:
        if _text(none, measure) not in {_text(bound, measure).strip(MINUS) for bound in bounds}:
            break
        measure = measure._replace(digits=measure.digits + 1)
    return measure


def rows_of(
    labels: Sequence[Labels], counts: Sequence[str], columns: Sequence[Sequence[Cell]]
) -> list[list[Cell]]:
    """Return the rows of a table: labels, number of runs, and a cell of each column."""
    return [
        [*label_cells(of), Cell(count), *cells]
        for of, count, *cells in zip(labels, counts, *columns, strict=True)
    ]


def label_cells(labels: Labels) -> list[Cell]:
    """Return the cells of labels."""
    return [Cell(str(label)) for label in labels.values()]


def part_of(part: int, whole: int) -> str:
    """Return a number as a part of another one: `3 of 5`, or `5` if it is all."""
    return str(whole) if part == whole else f"{part} of {whole}"


def title_of(analysis: Analysis, figure: FigureSettings) -> str:
    """Return the title of a figure: its own, or one made from its metrics and axes."""
    if figure.title is not None:
        return figure.title
    of = [analysis.measures[name].title for name in _named(figure, METRIC_KEYS)]
    by = _named(figure, AXIS_KEYS)
    match figure:
        case LineFigure(axis=axis):
            by.remove(axis)
            title = f"{of[0]} against {axis}"
        case ParetoFigure():
            title = f"{of[1]} against {of[0]}"
        case BoxFigure():
            title = f"distribution of the {of[0]}"
        case HeatFigure(x=x, y=y):
            by.remove(x)
            by.remove(y)
            title = f"{of[0]} over {x} and {y}"
    return sentence(f"{title} by {listed(by)}" if by else title)


def caption_of(analysis: Analysis, figure: FigureSettings) -> str:
    """Return what the marks of a figure are, the averaged axes, the interval, and n."""
    kept = _named(figure, AXIS_KEYS)
    if isinstance(figure, ParetoFigure):
        kept = list(analysis.kept)
    parts = [MARKS[type(figure)].format(statistic=statistic_text(analysis.plan))]
    if isinstance(figure, ParetoFigure):
        more = [analysis.measures[name].title for name in figure.maximise]
        better = f"less is better, of {listed(more)} more" if more else "less is better"
        parts.append(f"Grey line: the combinations that no other one dominates; {better}.")
    if not isinstance(figure, BoxFigure):
        parts.append(averaged_text(analysis.averaged(kept)))
    counts = [
        len(analysis.with_metric(metric, runs))
        for metric in _named(figure, METRIC_KEYS)
        for runs in groups(analysis.rows, *kept).values()
    ]
    if isinstance(figure, (LineFigure, ParetoFigure)) and max(counts, default=0) > 1:
        mark = "Band" if isinstance(figure, LineFigure) else "Bars"
        parts.append(f"{mark}: {interval_text(analysis.plan.bootstrap)}.")
    parts.append(f"{count_text(counts)} per {UNIT_OF[type(figure)]}.")
    return " ".join(filter(None, parts))


def statistic_text(plan: Plan) -> str:
    """Return the statistic and the axes of repeats: `mean over seed`."""
    name = plan.statistic.replace("_", " ")
    return f"{name} over {listed(plan.over)}" if plan.over else f"{name} of the runs"


def averaged_text(tasks: Sequence[str]) -> str:
    """Return that axes are averaged; empty: none is."""
    if not tasks:
        return ""
    return f"The labels of {listed(tasks)} have equal weights, and repeats are resampled in each."


def interval_text(bootstrap: Bootstrap) -> str:
    """Return the meaning of an interval."""
    return (
        f"{100 * bootstrap.confidence:g} % confidence interval ({METHODS[bootstrap.method]}, "
        f"{bootstrap.resamples:,} resamples)"
    )


def count_text(counts: Sequence[int]) -> str:
    """Return a range of numbers of runs: `n = 3 to 5 runs`."""
    least, most = min(counts, default=0), max(counts, default=0)
    number = f"{most}" if least == most else f"{least} to {most}"
    return f"n = {number} {'run' if most == 1 else 'runs'}"


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence: `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def sentence(text: str) -> str:
    """Return text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def _named(figure: FigureSettings, keys: Mapping[type[FigureSettings], Sequence[str]]) -> list[str]:
    """Return the metrics or the axes that a figure names."""
    return [name for key in keys[type(figure)] if (name := getattr(figure, key))]
