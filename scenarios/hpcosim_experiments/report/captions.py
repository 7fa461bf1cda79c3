"""Titles, captions and notes of tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from hpcosim_experiments.statistics.bootstrap import Bootstrap
from hpcosim_experiments.statistics.rows import groups
from hpcosim_experiments.statistics.summary import Plan

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
