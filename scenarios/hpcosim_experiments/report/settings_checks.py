"""Checks of a report's settings before the first run."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence

from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.report.analysis import repeats
from hpcosim_experiments.report.figures import numeric
from hpcosim_experiments.report.settings import (
    AXIS_KEYS,
    METRIC_KEYS,
    FigureSettings,
    LineFigure,
    ParetoFigure,
    ReportSettings,
)
from hpcosim_experiments.statistics.rows import Label

Axes = Mapping[str, Sequence[Label]]


def check(settings: ReportSettings, axes: Axes, metrics: Collection[str]) -> None:
    """Check the settings of a report against an experiment.

    Raises:
        ExperimentError: an axis, a label or a metric is unknown, the baseline is not among the
            runs, or a figure needs an axis with several labels or with numbers. The message begins
            with the key, such as `report.figures[0].axis`.
    """
    for key, name in _metrics_of(settings):
        _known(key, name, metrics, "metric")
    for key, name in _axes_of(settings):
        _known(key, name, axes, "axis")
    over = repeats(settings, axes)
    _check_roles(settings, over)
    _check_baseline(settings, axes, over)
    for number, figure in enumerate(settings.figures or ()):
        _check_figure(f"report.figures[{number}]", figure, axes, over)


def _metrics_of(settings: ReportSettings) -> Iterator[tuple[str, str]]:
    """Yield the key and the name of each metric of the settings."""
    for number, name in enumerate(settings.metrics):
        yield f"report.metrics[{number}]", name
    for number, figure in enumerate(settings.figures or ()):
        for key in METRIC_KEYS[type(figure)]:
            yield f"report.figures[{number}].{key}", getattr(figure, key)


def _axes_of(settings: ReportSettings) -> Iterator[tuple[str, str]]:
    """Yield the key and the name of each axis of the settings."""
    for section in ("over", "tasks"):
        for number, name in enumerate(getattr(settings, section) or ()):
            yield f"report.{section}[{number}]", name
    for name in settings.baseline or ():
        yield "report.baseline", name
    for number, figure in enumerate(settings.figures or ()):
        for key in AXIS_KEYS[type(figure)]:
            if name := getattr(figure, key):
                yield f"report.figures[{number}].{key}", name


def _known(key: str, name: str, known: Collection[str], kind: str) -> None:
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1)
    advice = f"; did you mean {near[0]!r}?" if near else ""
    raise ExperimentError(
        f"{key}: unknown {kind} {name!r}{advice or f'; expected one of {_listed(known)}'}"
    )


def _check_roles(settings: ReportSettings, over: Sequence[str]) -> None:
    """Check that no axis is both repeats and tasks."""
    for number, axis in enumerate(settings.tasks):
        if axis in over:
            raise ExperimentError(
                f"report.tasks[{number}]: the axis {axis!r} is an axis of repeats; expected it in "
                f"either `over` or `tasks`"
            )


def _check_baseline(settings: ReportSettings, axes: Axes, over: Sequence[str]) -> None:
    """Check that the baseline is among the combinations."""
    for axis, label in (settings.baseline or {}).items():
        key = f"report.baseline.{axis}"
        if axis in (*over, *settings.tasks):
            raise ExperimentError(
                f"{key}: the axis {axis!r} is an axis of repeats or tasks; expected an axis whose "
                f"labels are compared"
            )
        if label not in axes[axis]:
            raise ExperimentError(
                f"{key}: no run has the label {label!r}; expected one of {_listed(axes[axis])}"
            )


def _check_figure(key: str, figure: FigureSettings, axes: Axes, over: Sequence[str]) -> None:
    """Check the axes of a figure, and that it uses each axis once."""
    used: dict[str, str] = {}
    for part in AXIS_KEYS[type(figure)]:
        axis = getattr(figure, part)
        if axis is None:
            continue
        if axis in used:
            raise ExperimentError(
                f"{key}.{part}: the axis {axis!r} is also `{used[axis]}`; expected another axis"
            )
        used[axis] = part
        if len(axes[axis]) < 2:
            raise ExperimentError(
                f"{key}.{part}: the axis {axis!r} has one value; expected an axis with several"
            )
        if axis in over:
            raise ExperimentError(
                f"{key}.{part}: the axis {axis!r} is an axis of repeats; expected an axis whose "
                f"labels are compared, or another `over`"
            )
    if isinstance(figure, LineFigure) and not numeric(axes[figure.axis]):
        raise ExperimentError(
            f"{key}.axis: the labels of {figure.axis!r} are no numbers: "
            f"{_listed(axes[figure.axis])}; expected an axis of numbers, or `kind: box`"
        )
    if isinstance(figure, ParetoFigure):
        for part in ("maximise", "log"):
            for name in getattr(figure, part) or ():
                _known(f"{key}.{part}", name, (figure.x, figure.y), "metric of the figure")


def _listed(values: Collection[Label]) -> str:
    return ", ".join(map(str, values))
