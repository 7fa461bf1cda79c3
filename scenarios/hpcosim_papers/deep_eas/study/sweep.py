"""Comparison of heuristics, agents and published values by scenario, and learning curves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcosim_experiments.definition import AxisValue, Combination, Combinations
from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.report.panels import panels, titled
from hpcosim_experiments.statistics.rows import Row, Rows, read_rows, where
from hpcosim_papers.deep_eas.study import cases
from hpcosim_papers.studies.study import Study, change, experiment_file
from hpcosim_view.figure import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ESJF = "esjf"
BEST = "shortest-low-power"
"""The best heuristic on the busiest scenario; it makes no reservations."""

HEURISTICS = (ESJF, "esjf-now", BEST, "minmin", "minmin-immediate", "fcfs")
TRANSFERRED = "elsewhere"
"""Label of our agent of the busiest scenario, which runs on every scenario."""

FORMS = {
    "pairs": "Deep-EAS, pairs (ours)",
    "picture": "Deep-EAS, the paper's picture, PPO",
    "paper": "Deep-EAS as in the paper",
}


COLOUR = dict(zip(FORMS, COLOURS, strict=False))
PUBLISHED_CHANGE = -42.88
"""Change of the paper's agent from ESJF, %."""

AXIS_END = 2.0
"""Upper limit of the axis, relative to ESJF."""

Points = Sequence[tuple[float, float]]
"""Elapsed training time, min, and validation score relative to ESJF."""


class CaseComparison(NamedTuple):
    """A scenario of a sweep, with the mean normalised energy-delay products on it."""

    case: cases.Case
    values: dict[str, float]
    agents: Rows

    def best(self, form: str) -> list[float]:
        """Return the values of the agents of a form, one for each seed."""
        return [row["best"] for row in where(self.agents, form=form)]

    def change(self, value: float) -> float:
        """Return the change of a value from ESJF's, %."""
        return change(value, self.values[ESJF])


def study_of(name: str, sweep: cases.Sweep, agents: Rows, busiest: Path) -> Study:
    """Return the study of a sweep."""

    def found(rows: Rows) -> list[CaseComparison]:
        return [compared(case, where(rows, case=case.label), agents) for case in sweep.cases]

    return Study(
        experiment_file("deep_eas", name),
        (),
        {"summary.md": lambda rows: summary(sweep, found(rows))},
        {f"{name}.png": lambda path, rows: draw(path, sweep, found(rows))},
        changed=partial(_with_agent, model=busiest.absolute()),
    )


def _with_agent(found: Combinations, model: Path) -> Combinations:
    """Let the scheduler `TRANSFERRED` read another model than the shipped one."""
    settings = {"scheduler.name": f"deep-eas:{model}"}

    def moved(value: AxisValue) -> AxisValue:
        return value._replace(settings=settings) if value.label == TRANSFERRED else value

    runs = [Combination(tuple(map(moved, run.values))) for run in found.runs]
    return found._replace(runs=runs)


def compared(case: cases.Case, rows: Rows, agents: Rows) -> CaseComparison:
    """Return the comparison of the runs and agents of a scenario."""
    values = {row["scheduler"]: float(row[cases.MEASURE]) for row in rows}
    return CaseComparison(case, values, where(agents, scenario=case.scenario))


def summary(sweep: cases.Sweep, found: Sequence[CaseComparison]) -> str:
    """Return the comparison as Markdown."""
    lines = [[name, *(_heuristic(one, name) for one in found)] for name in HEURISTICS]
    for form, title in FORMS.items():
        if any(one.best(form) for one in found):
            lines.append([title, *(_agents(one, form) for one in found)])
            lines.append(["before training", *(_before(one, form) for one in found)])
    here = [f"{value:.2f} ({one.change(value):+.1f} %)" for one, value in _transferred(found)]
    lines.append([f"ours, trained on {cases.BUSIEST} alone", *here])
    published = [
        "" if one.case.published is None else f"({one.case.published:+.2f} %)" for one in found
    ]
    lines.append(["Deep-EAS, published", *published])
    return document(
        [f"# {sweep.title}"],
        [
            "Mean normalised energy-delay product of all jobs of 150 test sequences; in brackets "
            "the change from ESJF. Agents: greedy actions, mean, and minimum to maximum over the "
            "seeds; before training: sampled actions."
        ],
        table([sweep.differs, *(one.case.label for one in found)], lines),
    )


def _transferred(found: Sequence[CaseComparison]) -> list[tuple[CaseComparison, float]]:
    return [(one, one.values[TRANSFERRED]) for one in found]


def _heuristic(one: CaseComparison, name: str) -> str:
    value = one.values[name]
    return f"{value:.2f}" + ("" if name == ESJF else f" ({one.change(value):+.1f} %)")


def _agents(one: CaseComparison, form: str) -> str:
    values = one.best(form)
    if not values:
        return ""
    mean = statistics.fmean(values)
    text = f"**{mean:.2f}** ({one.change(mean):+.1f} %)"
    if len(values) == 1:
        return text
    return f"{text}, {min(values):.2f} to {max(values):.2f}, {len(values)} seeds"


def _before(one: CaseComparison, form: str) -> str:
    values: list[Row] = where(one.agents, form=form)
    return f"{statistics.fmean(row['untrained_drawn'] for row in values):.2f}" if values else ""


def draw(path: Path, sweep: cases.Sweep, found: Sequence[CaseComparison]) -> None:
    """Draw all values, and their changes from ESJF's."""
    with panels(path, 1, 2, (10.0, 3.8)) as (values, percents):
        titled(values, "mean normalised energy-delay product")
        titled(percents, "against ESJF (%)")
        for label, style, colour, series in _lines(found):
            values.plot(series, style, color=colour, markersize=4, label=label)
            changes = [one.change(value) for one, value in zip(found, series, strict=True)]
            percents.plot(changes, style, color=colour, markersize=4)
        values.set_ylim(bottom=0.0)
        values.legend(frameon=False, fontsize=7)
        for axes in (values, percents):
            axes.set_xticks(range(len(found)), [one.case.label for one in found])
            axes.set_xlabel(sweep.differs)


def _lines(found: Sequence[CaseComparison]) -> Iterator[tuple[str | None, str, str, list[float]]]:
    """Yield label, style, colour and values of each line; NaN for missing values."""
    grey, blue = COLOURS[7], COLOURS[0]
    yield "ESJF", "-o", grey, [one.values[ESJF] for one in found]
    yield BEST, "--", grey, [one.values[BEST] for one in found]
    yield FORMS["pairs"], "-o", blue, [statistics.fmean(one.best("pairs")) for one in found]
    alone = [value for _, value in _transferred(found)]
    yield f"the same, trained on {cases.BUSIEST} alone", ":", blue, alone
    for form, colour in (("picture", COLOURS[1]), ("paper", COLOURS[2])):
        for seed in range(max(len(one.best(form)) for one in found)):
            label = f"{FORMS[form]}, a seed each" if seed == 0 else None
            some = [one.best(form)[seed : seed + 1] for one in found]
            yield label, "o", colour, [values[0] if values else math.nan for values in some]
    percents = [math.nan if one.case.published is None else one.case.published for one in found]
    published = [
        one.values[ESJF] * (1.0 + percent / 100.0)
        for one, percent in zip(found, percents, strict=True)
    ]
    yield "published, by its percentage", "x", "black", published


def curve_of(task: cases.DeepEasTask, source: Path) -> Rows:
    """Return the learning curve of a training, from the folder of a study."""
    return read_rows(
        source / cases.CURVES_FOLDER / f"{task.name}.csv", ("iteration", "validation", "seconds")
    )


def curve_summary(tasks: Sequence[cases.DeepEasTask], source: Path) -> str:
    """Return the learning speed of each agent as Markdown."""
    lines = []
    for task in tasks:
        curve = curve_of(task, source)
        points = validations(curve)
        minutes, last = points[-1]
        cells = [task.scenario, FORMS[task.form], f"{task.seed}", f"{curve[-1]['iteration']}"]
        cells += [f"{minutes:.1f}", _first(points, 1.0), _first(points, 0.6)]
        lines.append([*cells, f"{min(value for _, value in points):.3f}", f"{last:.3f}"])
    head = ["trained on", "form", "seed", "iterations", "minutes", "below ESJF after (min)"]
    return document(
        ["# Figure 4: learning"],
        [
            "Normalised energy-delay product of greedy actions on 100 validation sequences, "
            "divided by ESJF's. Minutes are wall-clock time on one processor, with another "
            "training in parallel."
        ],
        table([*head, "40 % below after (min)", "best", "final"], lines),
    )


def _first(points: Iterable[tuple[float, float]], below: float) -> str:
    return next((f"{minutes:.1f}" for minutes, value in points if value < below), "never")


def draw_curves(path: Path, tasks: Sequence[cases.DeepEasTask], source: Path) -> None:
    """Draw the learning curves over training time, at the paper's rate and at the busiest."""
    with panels(path, 1, 2, (10.0, 4.0), sharey=True) as grid:
        for axes, scenario in zip(grid, (cases.PAPERS_CURVE, cases.BUSIEST), strict=True):
            _draw(axes, [task for task in tasks if task.scenario == scenario], source)
            titled(axes, f"{scenario}: validation score of greedy actions")
            axes.set_xlabel("minutes of training, one processor")
        grid[0].set_ylim(0.4, AXIS_END)
        grid[1].axhline(1.0 + PUBLISHED_CHANGE / 100.0, color="black", linestyle=":", linewidth=1.0)
        grid[1].annotate(
            "the paper's agent",
            (0.98, 1.0 + PUBLISHED_CHANGE / 100.0),
            fontsize=8,
            ha="right",
            va="bottom",
            xycoords=("axes fraction", "data"),
        )


def _draw(axes: Axes, tasks: Sequence[cases.DeepEasTask], source: Path) -> None:
    axes.axhline(1.0, color=COLOURS[7], linewidth=1.5, label=ESJF.upper())
    for task in sorted(tasks, key=lambda task: list(FORMS).index(task.form)):
        minutes, values = zip(*validations(curve_of(task, source)), strict=True)
        title = FORMS[task.form] if task.seed == 0 else None
        axes.plot(minutes, values, color=COLOUR[task.form], linewidth=1.0, label=title)
    axes.legend(frameon=False, fontsize=8)


def validations(curve: Rows) -> Points:
    """Return the points of a curve with a validation."""
    points, seconds = [], 0.0
    for row in curve:
        seconds += row["seconds"]
        if not math.isnan(row["validation"]):
            points.append((seconds / 60.0, row["validation"]))
    return points
