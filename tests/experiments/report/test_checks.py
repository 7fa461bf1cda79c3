"""Settings of a report that do not suit the experiment."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.report import ReportSettings, check
from hpcosim_experiments.report.figures import default_figures
from hpcosim_experiments.report.settings import BoxFigure, HeatFigure, LineFigure, ParetoFigure
from hpcosim_experiments.statistics.rows import Label

AXES: dict[str, tuple[Label, ...]] = {
    "scheduler": ("easy", "fcfs"),
    "load": (0.5, 0.9),
    "seed": (1, 2),
    "nodes": (64,),
}
METRICS = ("mean_wait_s", "energy_j")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"metrics": ["mean_wait"]},
            "report.metrics[0]: unknown metric 'mean_wait'; did you mean 'mean_wait_s'?",
        ),
        (
            {"metrics": ["xyz"]},
            "report.metrics[0]: unknown metric 'xyz'; expected one of mean_wait_s, energy_j",
        ),
        ({"over": ["sead"]}, "report.over[0]: unknown axis 'sead'; did you mean 'seed'?"),
        ({"tasks": ["l"]}, "report.tasks[0]: unknown axis 'l'; expected one of scheduler, load"),
        ({"tasks": ["seed"], "over": ["seed"]}, "report.tasks[0]: the axis 'seed' is an axis of"),
        ({"baseline": {"sched": "easy"}}, "report.baseline: unknown axis 'sched'"),
        (
            {"baseline": {"scheduler": "sjf"}},
            "report.baseline.scheduler: no run has the label 'sjf'; expected one of easy, fcfs",
        ),
        ({"baseline": {"seed": 1}}, "report.baseline.seed: the axis 'seed' is an axis of repeats"),
        (
            {"figures": [{"kind": "line", "metric": "mean_wait_s", "axis": "scheduler"}]},
            "report.figures[0].axis: the labels of 'scheduler' are no numbers: easy, fcfs",
        ),
        (
            {"figures": [{"kind": "line", "metric": "mean_wait_s", "axis": "nodes"}]},
            "report.figures[0].axis: the axis 'nodes' has one value; expected an axis with several",
        ),
        (
            {"figures": [{"kind": "box", "metric": "mean_wait_s", "by": "seed"}]},
            "report.figures[0].by: the axis 'seed' is an axis of repeats",
        ),
        (
            {"figures": [{"kind": "heat_map", "metric": "mean_wait_s", "x": "load", "y": "load"}]},
            "report.figures[0].y: the axis 'load' is also `x`; expected another axis",
        ),
        (
            {"figures": [{"kind": "pareto", "x": "mean_wait_s", "y": "energi_j"}]},
            "report.figures[0].y: unknown metric 'energi_j'; did you mean 'energy_j'?",
        ),
        (
            {
                "figures": [
                    {"kind": "pareto", "x": "mean_wait_s", "y": "energy_j", "maximise": ["jobs"]}
                ]
            },
            "report.figures[0].maximise: unknown metric of the figure 'jobs'; expected one of",
        ),
    ],
)
def test_unsuitable_settings_are_errors(settings: dict[str, Any], message: str) -> None:
    """The message has the key, the fault, and what was expected."""
    given = {"metrics": list(METRICS), **settings}
    with pytest.raises(ExperimentError) as raised:
        check(msgspec.convert(given, ReportSettings), AXES, METRICS)
    assert str(raised.value).startswith(message)


def test_suitable_settings_are_accepted() -> None:
    """A baseline may have the label of an axis with one value."""
    settings = ReportSettings(metrics=METRICS, baseline={"scheduler": "easy", "nodes": 64})
    check(settings, AXES, METRICS)


def test_default_figures_suit_the_axes() -> None:
    """Numbers become a horizontal axis; without axes to compare there is no figure."""
    settings = ReportSettings(metrics=METRICS)
    assert default_figures(settings, AXES, ("scheduler", "load")) == (
        LineFigure("mean_wait_s", "load", "scheduler"),
        LineFigure("energy_j", "load", "scheduler"),
        ParetoFigure("mean_wait_s", "energy_j", "scheduler", "load"),
        BoxFigure("mean_wait_s", "scheduler", "load"),
        HeatFigure("mean_wait_s", "load", "scheduler"),
    )
    assert default_figures(settings, AXES, ("load",))[:1] == (LineFigure("mean_wait_s", "load"),)
    assert default_figures(settings, AXES, ()) == ()
