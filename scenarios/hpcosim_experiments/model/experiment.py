"""The types of an experiment file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from hpcosim_experiments.report.settings import (
    BoxFigure,
    HeatFigure,
    LineFigure,
    ParetoFigure,
    ReportSettings,
)
from hpcosim_experiments.statistics.measured import MeasureSettings
from hpcosim_scenarios.model.bounds import Name

MOST_RUNS = 1_000_000
Text = Annotated[str, Meta(min_length=1, max_length=200)]


class Axis(Struct, frozen=True, forbid_unknown_fields=True):
    """An axis with a name of its own, or with names for its values.

    Attributes:
        path: the dotted path in the scenario that the axis sets, such as `workload.load`, or a
            short name. Null: the axis' name is the path, if it is a short name or a dotted path;
            otherwise each value of the axis is a mapping of paths to values.
        values: a list of values, or a mapping of labels to values.
    """

    values: list[Any] | dict[str, Any]
    path: str | None = None


class Experiment(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An experiment: a scenario, the values to vary in it, and what to do with the results.

    Attributes:
        name: name of the experiment in results and reports.
        scenario: path of the scenario file, relative to the experiment's folder, or the name of a
            shipped scenario. It may be left out if `scenario` is an axis.
        set: values to change in the scenario in all runs, by dotted path.
        axes: the values to vary, by axis: a list of values of a path or of a short name, or a
            mapping. The order of the axes is the order of the runs; the last one varies first.
        combine: `product`: run all combinations of the axes; `list`: run only the combinations in
            `runs`.
        runs: combinations to run, in addition to the product if there is one. Each maps every axis
            to a label or value, a pattern of labels such as `timeout *`, or a list of these; the
            product of what it names is run.
        exclude: combinations to leave out of the product. Each maps some axes to the same.
        measure: the measured period and classes of jobs.
        report: tables and figures of the report.
        jobs: also keep a row per job of each run.
    """

    name: Name
    scenario: str | None = None
    set: dict[str, Any] = {}
    axes: dict[Text, list[Any] | Axis] = {}
    combine: Literal["product", "list"] = "product"
    runs: list[dict[str, Any]] = []
    exclude: list[dict[str, Any]] = []
    measure: MeasureSettings = MeasureSettings()
    report: ReportSettings = ReportSettings()
    jobs: bool = False


KINDS: tuple[type[Struct], ...] = (
    Experiment,
    Axis,
    MeasureSettings,
    ReportSettings,
    LineFigure,
    ParetoFigure,
    BoxFigure,
    HeatFigure,
)
"""The types of all mappings in an experiment, for messages; the first is that of the whole file."""
