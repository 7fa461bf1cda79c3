"""The statistics that tables and figures of a report share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hpcosim_experiments.report.settings import METRIC_KEYS, REPEATS, ReportSettings
from hpcosim_experiments.report.units import Measure, measure_of
from hpcosim_experiments.statistics.bootstrap import Bootstrap
from hpcosim_experiments.statistics.rows import (
    Identical,
    Label,
    Labels,
    Row,
    Rows,
    groups,
    where,
    without_copies,
)
from hpcosim_experiments.statistics.summary import (
    Comparison,
    Plan,
    Summary,
    comparisons,
    succeeded,
    summaries,
)

# The runs of an experiment that count: one for all identical repeats of a combination.


class Counted(NamedTuple):
    """The runs that count in statistics.

    Attributes:
        rows: the runs; of identical repeats, the first.
        identical: the axes of repeats that make no difference somewhere.
    """

    rows: list[Row]
    identical: list[Identical]


def counted(rows: Rows, axes: Sequence[str], over: Sequence[str]) -> Counted:
    """Return the runs that count in the statistics of each combination.

    Args:
        rows: all runs. Failed runs stay, unless the other repeats of their combination are
            identical.
        axes: all axes.
        over: the axes of repeats.
    """
    kept = [axis for axis in axes if axis not in over]
    found: list[Row] = []
    same = dict.fromkeys(over, 0)
    several = dict.fromkeys(over, 0)
    for group in groups(rows, *kept).values():
        left = group
        for axis in over:
            ran = [row for row in left if succeeded(row)]
            several[axis] += len({row[axis] for row in ran}) > 1
            if fewer := without_copies(ran, axis, over):
                same[axis] += 1
                left = fewer
        found += left
    identical = [Identical(axis, same[axis], several[axis]) for axis in over if same[axis]]
    return Counted(found, identical)


# The results of an experiment, the input of its report.


class Results(NamedTuple):
    """The results of an experiment.

    Attributes:
        axes: labels of each axis, by its name, in the order of the experiment file.
        rows: one row per run: labels by axis, `run_key`, `status` (`ok` or `failed`), `error`,
            metrics by name (None: the run failed) and provenance.
        breakdowns: one row per run and class of jobs: labels by axis, `breakdown`, `class`, and
            metrics by name.
        jobs: a `pyarrow.Table` with one row per run and job, or None.
    """

    name: str
    axes: Mapping[str, tuple[Label, ...]]
    rows: Rows
    breakdowns: Rows = ()
    jobs: Any = None


class Analysis(NamedTuple):
    """The results of an experiment and how they are summarised.

    Attributes:
        axes: labels of each axis, by its name.
        runs: all runs, in the order of the axes' labels.
        rows: the runs that count in statistics: one of all identical repeats of a combination.
        identical: the axes of repeats that make no difference somewhere.
        breakdowns: the rows of classes of jobs of the runs that count, in the same order.
        settings: the section `report`.
        kept: axes with several labels that are neither repeats nor tasks.
        plan: the repeats, the tasks and the statistic.
        measures: presentation of each metric, by its name.
    """

    name: str
    axes: Mapping[str, Sequence[Label]]
    runs: Rows
    rows: Rows
    identical: Sequence[Identical]
    breakdowns: Rows
    settings: ReportSettings
    kept: tuple[str, ...]
    plan: Plan
    measures: Mapping[str, Measure]

    def summaries(self, kept: Sequence[str], metrics: Sequence[str]) -> list[Summary]:
        """Return the statistics of the combinations of some axes.

        Args:
            kept: the axes. The labels of all axes that are neither these nor repeats are tasks.
            metrics: names of the metrics.
        """
        return summaries(self.rows, kept, metrics, self.plan_for(kept))

    def plan_for(self, kept: Sequence[str]) -> Plan:
        """Return the plan in which all axes but `kept` and the repeats are tasks."""
        return self.plan._replace(tasks=self.averaged(kept))

    def averaged(self, kept: Sequence[str]) -> tuple[str, ...]:
        """Return the axes with several labels that are neither `kept` nor repeats."""
        return tuple(
            axis
            for axis, labels in self.axes.items()
            if axis not in kept and axis not in self.plan.over and len(labels) > 1
        )

    def compared(self) -> list[Comparison]:
        """Return the comparison of each combination with the baseline."""
        if self.settings.baseline is None:
            return []
        baseline = {a: v for a, v in self.settings.baseline.items() if len(self.axes[a]) > 1}
        return comparisons(self.runs, self.kept, baseline, self.settings.metrics, self.plan)

    def within(self, labels: Labels) -> Analysis:
        """Return the analysis of the runs with some labels, whose axes are then constant."""
        axes = {**self.axes, **{axis: (label,) for axis, label in labels.items()}}
        return self._replace(
            axes=axes,
            runs=where(self.runs, **labels),
            rows=where(self.rows, **labels),
            kept=tuple(axis for axis in self.kept if axis not in labels),
        )

    def with_metric(self, metric: str, rows: Rows | None = None) -> list[Row]:
        """Return the runs that have a metric, of `rows` or of all runs."""
        chosen = self.rows if rows is None else rows
        return [row for row in chosen if succeeded(row) and row.get(metric) is not None]

    @property
    def failed(self) -> list[Row]:
        """The runs without results."""
        return [row for row in self.runs if not succeeded(row)]


def analysis_of(results: Results, settings: ReportSettings) -> Analysis:
    """Return the analysis of an experiment's results."""
    axes = results.axes
    over = repeats(settings, axes)
    kept = tuple(
        axis
        for axis, labels in axes.items()
        if len(labels) > 1 and axis not in over and axis not in settings.tasks
    )
    bootstrap = Bootstrap(settings.confidence, settings.interval, settings.resamples, settings.seed)
    runs = _in_order(results.rows, axes)
    rows, identical = counted(runs, list(axes), over)
    left = {tuple(row[axis] for axis in axes) for row in rows}
    classes = _in_order(results.breakdowns, axes)
    measures = {
        name: measure_of(name, [row.get(name) for row in runs]) for name in metrics_used(settings)
    }
    return Analysis(
        results.name,
        axes,
        runs,
        rows,
        identical,
        [row for row in classes if tuple(row[axis] for axis in axes) in left],
        settings,
        kept,
        Plan(over, settings.tasks, settings.statistic, bootstrap),
        measures,
    )


def repeats(settings: ReportSettings, axes: Mapping[str, Sequence[Label]]) -> tuple[str, ...]:
    """Return the axes of repeats."""
    if settings.over is not None:
        return settings.over
    return tuple(axis for axis in REPEATS if axis in axes and axis not in settings.tasks)


def identical_repeats(results: Results, settings: ReportSettings) -> list[Identical]:
    """Return the axes of repeats that make no difference in some combinations."""
    return counted(results.rows, list(results.axes), repeats(settings, results.axes)).identical


def metrics_used(settings: ReportSettings) -> list[str]:
    """Return the metrics of the tables and the figures, each once."""
    used = list(settings.metrics)
    for figure in settings.figures or ():
        used += [getattr(figure, key) for key in METRIC_KEYS[type(figure)]]
    return list(dict.fromkeys(used))


def _in_order(rows: Rows, axes: Mapping[str, Sequence[Label]]) -> list[Row]:
    """Return rows in the order of the axes' labels, the first axis changing slowest."""
    places = {axis: {label: at for at, label in enumerate(axes[axis])} for axis in axes}
    return sorted(rows, key=lambda row: [places[axis][row[axis]] for axis in axes])
