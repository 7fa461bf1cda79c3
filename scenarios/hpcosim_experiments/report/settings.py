"""The section `report` of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hpcosim_experiments.statistics.rows import Label

REPEATS = ("seed", "window", "window_s", "repeat")
"""Names of the axes that are repeats if `over` does not name any."""

METRICS = (
    "mean_wait_s",
    "p95_wait_s",
    "mean_bounded_slowdown",
    "utilization",
    "makespan_s",
    "energy_j",
)
"""Metrics of a report that names none."""

Confidence = Annotated[float, Meta(gt=0, lt=1)]
Resamples = Annotated[int, Meta(ge=100, le=1_000_000)]
Seed = Annotated[int, Meta(ge=0, lt=2**31)]
Axis = Annotated[str, Meta(min_length=1)]
Metric = Annotated[str, Meta(min_length=1)]


class LineFigure(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="line"):
    """A metric against an axis of numbers, with a line per label of another axis.

    A band shows the confidence interval.

    Attributes:
        metric: the metric.
        axis: the horizontal axis; its labels are numbers.
        by: the axis with a line per label. Null: a single line.
        panels: the axis with a panel per label. Null: a single panel.
        log: logarithmic scale of the metric. Null: if the largest mean exceeds 20 times the
            smallest.
        title: title of the figure. Null: made from the metric and the axes.
    """

    metric: Metric
    axis: Axis
    by: Axis | None = None
    panels: Axis | None = None
    log: bool | None = None
    title: str | None = None


class ParetoFigure(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="pareto"):
    """Two metrics of each combination, with the combinations that no other one dominates.

    Attributes:
        x: the metric of the horizontal axis; less is better unless `maximise` names it.
        y: the metric of the vertical axis; less is better unless `maximise` names it.
        by: the axis with a colour per label. Null: one colour.
        panels: the axis with a panel and a front per label. Null: a single panel.
        maximise: those of `x` and `y` of which more is better.
        log: those of `x` and `y` with a logarithmic scale. Null: those whose largest mean exceeds
            20 times the smallest.
        title: title of the figure. Null: made from the metrics.
    """

    x: Metric
    y: Metric
    by: Axis | None = None
    panels: Axis | None = None
    maximise: tuple[Metric, ...] = ()
    log: tuple[Metric, ...] | None = None
    title: str | None = None


class BoxFigure(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="box"):
    """Box plots of the runs for each label of an axis: quartiles, median, minimum and maximum.

    Attributes:
        metric: the metric.
        by: the axis with a box per label.
        panels: the axis with a panel per label. Null: a single panel.
        title: title of the figure. Null: made from the metric and the axis.
    """

    metric: Metric
    by: Axis
    panels: Axis | None = None
    title: str | None = None


class HeatFigure(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="heat_map"):
    """A heat map of the mean of a metric over two axes.

    Attributes:
        metric: the metric.
        x: the axis of the columns.
        y: the axis of the rows.
        panels: the axis with a panel per label. Null: a single panel.
        title: title of the figure. Null: made from the metric and the axes.
    """

    metric: Metric
    x: Axis
    y: Axis
    panels: Axis | None = None
    title: str | None = None


FigureSettings = LineFigure | ParetoFigure | BoxFigure | HeatFigure

METRIC_KEYS: Mapping[type[FigureSettings], Sequence[str]] = {
    LineFigure: ("metric",),
    ParetoFigure: ("x", "y"),
    BoxFigure: ("metric",),
    HeatFigure: ("metric",),
}
"""Keys of a figure that name metrics."""

AXIS_KEYS: Mapping[type[FigureSettings], Sequence[str]] = {
    LineFigure: ("axis", "by", "panels"),
    ParetoFigure: ("by", "panels"),
    BoxFigure: ("by", "panels"),
    HeatFigure: ("x", "y", "panels"),
}
"""Keys of a figure that name axes."""


class ReportSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The section `report` of an experiment: its statistics, tables and figures.

    Attributes:
        metrics: metrics of the tables.
        over: the axes of repeats, such as `[seed]`: statistics are over their labels. Null: those
            of `seed`, `window`, `window_s` and `repeat` that the experiment has.
        tasks: axes whose labels are tasks of one benchmark, such as `[load]`. Statistics are also
            over the tasks, with equal weights, and repeats are resampled within each task.
        statistic: `mean`, or `interquartile_mean`: the mean of the middle half of all runs, as for
            learned policies over training seeds.
        baseline: labels of the combination that all others are compared to, such as
            `{scheduler: easy}`. Runs are paired with the baseline's run with the same labels on
            all other axes. Null: no comparison.
        confidence: level of the confidence intervals.
        interval: method of the bootstrap, `percentile` or `bca` (bias-corrected and accelerated).
        resamples: number of bootstrap samples.
        seed: seed of the bootstrap.
        figures: the figures. Null: figures that suit the axes. Empty: none.
    """

    metrics: Annotated[tuple[Metric, ...], Meta(min_length=1)] = METRICS
    over: tuple[Axis, ...] | None = None
    tasks: tuple[Axis, ...] = ()
    statistic: Literal["mean", "interquartile_mean"] = "mean"
    baseline: Annotated[dict[Axis, Label], Meta(min_length=1)] | None = None
    confidence: Confidence = 0.95
    interval: Literal["percentile", "bca"] = "percentile"
    resamples: Resamples = 10_000
    seed: Seed = 0
    figures: tuple[FigureSettings, ...] | None = None
