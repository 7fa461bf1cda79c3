"""Statistics of the combinations of an experiment, and comparisons with a baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from hpcosim_experiments.statistics.bootstrap import (
    Bootstrap,
    Estimate,
    Floats,
    Statistic,
    estimate,
    interquartile_difference,
    interquartile_mean,
    interquartile_ratio,
    mean,
    paired_difference,
    paired_ratio,
)
from hpcosim_experiments.statistics.rows import (
    Label,
    Labels,
    Row,
    Rows,
    distinct,
    groups,
    metrics_in,
)

StatisticName = Literal["mean", "interquartile_mean"]
OF_VALUES: Mapping[StatisticName, Statistic] = {
    "mean": mean,
    "interquartile_mean": interquartile_mean,
}
OF_DIFFERENCES: Mapping[StatisticName, Statistic] = {
    "mean": paired_difference,
    "interquartile_mean": interquartile_difference,
}
OF_RATIOS: Mapping[StatisticName, Statistic] = {
    "mean": paired_ratio,
    "interquartile_mean": interquartile_ratio,
}


class Plan(NamedTuple):
    """How the runs of an experiment are summarised.

    Attributes:
        over: axes of repeats.
        tasks: axes whose labels are tasks: strata with equal weights.
        statistic: `mean` or `interquartile_mean`.
        bootstrap: settings of the intervals.
    """

    over: tuple[str, ...]
    tasks: tuple[str, ...] = ()
    statistic: StatisticName = "mean"
    bootstrap: Bootstrap = Bootstrap()


class Summary(NamedTuple):
    """The runs of a combination.

    Attributes:
        labels: labels of the combination.
        runs: number of runs, failed ones included.
        estimates: statistic of each metric, by its name; runs without the metric are left out.
    """

    labels: Labels
    runs: int
    estimates: Mapping[str, Estimate]


class Comparison(NamedTuple):
    """A combination compared with the baseline.

    Attributes:
        labels: labels of the combination.
        pairs: number of pairs of successful runs; identical repeats of a pair count once.
        missing: labels of the pairs that lack a successful run, and why: `no result`,
            `no result of the baseline`, or both.
        differences: statistic of value - baseline, by metric.
        ratios: statistic of value / baseline, by metric.
    """

    labels: Labels
    pairs: int
    missing: Sequence[tuple[Labels, str]]
    differences: Mapping[str, Estimate]
    ratios: Mapping[str, Estimate]


def succeeded(row: Row) -> bool:
    """Return whether a run has results."""
    return bool(row.get("status", "ok") == "ok")


def summaries(rows: Rows, kept: Sequence[str], metrics: Sequence[str], plan: Plan) -> list[Summary]:
    """Return the statistics of each combination, in order of first occurrence."""
    statistic = OF_VALUES[plan.statistic]
    return [
        Summary(
            dict(zip(kept, labels, strict=True)),
            len(group),
            {name: _estimate(group, _value_of(name), statistic, plan) for name in metrics},
        )
        for labels, group in groups(rows, *kept).items()
    ]


def comparisons(
    rows: Rows, kept: Sequence[str], baseline: Labels, metrics: Sequence[str], plan: Plan
) -> list[Comparison]:
    """Return the comparison of each combination with the baseline, that of the baseline excluded.

    A run is paired with the run that has the labels of the baseline and the same labels on all
    other axes, and thus the same workload.

    Args:
        rows: the runs.
        kept: axes whose labels are a combination; those of the baseline among them.
        baseline: labels of the baseline, by axis; no axis of repeats or tasks.
        metrics: names of the metrics.
        plan: the repeats, the tasks and the statistic.
    """
    others = [axis for axis in kept if axis not in baseline] + [*plan.tasks, *plan.over]
    of_baseline = {}
    for row in rows:
        if _has(row, baseline):
            of_baseline[tuple(row[axis] for axis in others)] = row
    found = []
    for labels, group in groups(rows, *kept).items():
        combination = dict(zip(kept, labels, strict=True))
        if not _has(combination, baseline):
            partners = [of_baseline.get(tuple(row[axis] for axis in others)) for row in group]
            found.append(_compared(combination, group, partners, metrics, plan))
    return found


def _has(row: Row, labels: Labels) -> bool:
    """Return whether a run or a combination has these labels."""
    return all(row[axis] == label for axis, label in labels.items())


def _compared(
    labels: Labels,
    group: Rows,
    partners: Sequence[Row | None],
    metrics: Sequence[str],
    plan: Plan,
) -> Comparison:
    """Return the comparison of the runs of a combination with their partners."""
    pairs: list[Row] = []
    missing: list[tuple[Labels, str]] = []
    for row, base in zip(group, partners, strict=True):
        lacks = [] if succeeded(row) else ["no result"]
        lacks += [] if base is not None and succeeded(base) else ["no result of the baseline"]
        if lacks or base is None:
            repeat = {axis: row[axis] for axis in (*plan.tasks, *plan.over)}
            missing.append((repeat, " and ".join(lacks)))
        else:
            pairs.append({**row, _BASE: base})

    strata = groups(pairs, *plan.tasks).values()
    pairs = [pair for of in strata for pair in distinct(of, plan.over, _pair_metrics(plan.over))]

    def estimates(statistic: Statistic) -> dict[str, Estimate]:
        return {name: _estimate(pairs, _pair_of(name), statistic, plan) for name in metrics}

    return Comparison(
        labels,
        len(pairs),
        missing,
        estimates(OF_DIFFERENCES[plan.statistic]),
        estimates(OF_RATIOS[plan.statistic]),
    )


_BASE = ""  # column of a pair that holds the row of the baseline; no axis has this name


def _pair_metrics(over: Sequence[str]) -> Callable[[Row], dict[str, Any]]:
    """Return a function that returns the metrics of both runs of a pair."""

    def values(pair: Row) -> dict[str, Any]:
        of_base = metrics_in(pair[_BASE])
        base = {name: value for name, value in of_base.items() if name not in over}
        return {**metrics_in(pair), _BASE: base}

    return values


def _estimate(
    rows: Rows, value_of: Callable[[Row], Any], statistic: Statistic, plan: Plan
) -> Estimate:
    """Return the statistic of rows, stratified by task; rows without a value are left out."""
    strata: dict[tuple[Label, ...], list[Any]] = {}
    for row in rows:
        if (value := value_of(row)) is not None:
            strata.setdefault(tuple(row[axis] for axis in plan.tasks), []).append(value)
    samples: list[Floats] = [np.array(values, dtype=np.float64) for values in strata.values()]
    return estimate(samples, statistic, plan.bootstrap)


def _value_of(metric: str) -> Callable[[Row], float | None]:
    return lambda row: row.get(metric)


def _pair_of(metric: str) -> Callable[[Row], tuple[float, float] | None]:
    def pair(row: Row) -> tuple[float, float] | None:
        value, base = row.get(metric), row[_BASE].get(metric)
        return None if value is None or base is None else (value, base)

    return pair
