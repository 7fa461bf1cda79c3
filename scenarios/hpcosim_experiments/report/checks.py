"""Checks of a report's settings before the first run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hpcosim_experiments.report.settings import ReportSettings
from hpcosim_experiments.statistics.rows import Label


def check(
    settings: ReportSettings, axes: Mapping[str, Sequence[Label]], metrics: Collection[str]
) -> None:
    """Check the settings of a report against an experiment.

    Args:
        settings: the section `report` of the experiment file.
        axes: labels of each axis, by its name.
        metrics: names of all metrics of the runs.

    Raises:
        ExperimentError: an axis, a label or a metric is unknown, the baseline is not among the
            runs, or a figure needs an axis with several labels or with numbers. The message begins
            with the key, such as `report.figures[0].axis`.
    """
