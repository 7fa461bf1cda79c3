"""Figures of the pairing agent: bars, learning curves and schedules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcosim_experiments.report.panels import panels
from hpcosim_gym.learning.curve import Iteration, read_curve
from hpcosim_papers.ineps.agent.settings import Objective
from hpcosim_papers.ineps.study.experiments import (
    OBJECTIVES,
    OURS,
    PAPERS,
    UNTRAINED,
    model_name,
    trainings_of,
)
from hpcosim_papers.ineps.study.heuristics import SHOWN, WORST, best_of, contenders
from hpcosim_papers.ineps.study.pairing_tables import MEASURES, Results, Spread, sampled_spread
from hpcosim_papers.studies.figures import band, gantt, horizontal_bars
from hpcosim_papers.studies.measures import deviation
from hpcosim_papers.studies.papers import scenario_path
from hpcosim_papers.studies.runs import Simulated, simulate
from hpcosim_sim.record.energy_metrics import energies
from hpcosim_view.figures.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEYOND = 1.05
"""End of the axis of bars, relative to the longest bar of a trained agent or heuristic."""

STYLES = ("-", "--", ":")
"""Line styles of the optima, one per class of schedules."""

QUANTITIES = {
    "mean_return": "return of an episode",
    "objective": "objective / the teacher's",
    "policy_loss": "actor's loss",
    "value_loss": "critic's loss",
}
"""Columns of a learning curve to draw, with their titles."""


class Bar(NamedTuple):
    """A bar, in the unit of the measure.

    Attributes:
        label: name of the scheduler.
        value: length; of an agent: the mean of its greedy runs over seeds.
        colour: colour of the bar.
        spread: spread of the random runs; None: the scheduler is deterministic.
    """

    label: str
    value: float
    colour: str
    spread: Spread | None = None


def draw_bars(path: Path, results: Results, experiments: Sequence[str]) -> None:
    """Draw a panel per experiment and objective, with the optima as lines."""
    size = (13, 0.6 + 4.6 * len(experiments))
    with panels(path, len(experiments), 2, size, style={}, dpi=110) as all_axes:
        kinds = [(name, objective) for name in experiments for objective in OBJECTIVES]
        for axes, (experiment, objective) in zip(all_axes, kinds, strict=True):
            _draw_panel(axes, _bars(results, experiment, objective))
            measure = MEASURES[objective]
            axes.set_title(f"{experiment}, {measure.title}, {measure.unit}", loc="left", fontsize=9)
            optima = results.optima_of(experiment, objective)
            for style, (of, value) in zip(STYLES, optima, strict=False):
                line = {"color": "black", "linestyle": style, "linewidth": 0.8}
                axes.axvline(value, label=f"optimum: {of}", **line)
        figure = all_axes[0].figure
        handles, labels = all_axes[0].get_legend_handles_labels()
        if handles:
            place = {"loc": "outside lower center", "ncols": len(labels)}
            figure.legend(handles, labels, fontsize=8, **place)
        figure.suptitle(
            "bars: best choices, mean over seeds; by chance: dot the mean, thick line the standard "
            "deviation, thin line from least to most",
            fontsize=9,
        )


def _bars(results: Results, experiment: str, objective: Objective) -> list[Bar]:
    measure = MEASURES[objective]
    bars = []
    for name in (WORST, *SHOWN[:3]):
        values = measure.values(results.runs[experiment, name])
        mean = measure.mean(results.runs[experiment, name])
        spread = Spread(mean, deviation(values), min(values), max(values))
        bars.append(Bar(name, mean, COLOURS[7], spread if len(values) > 1 else None))
    for title, names in contenders().items():
        if "chance" not in title:
            name, mean, _ = best_of(results.runs, measure, experiment, names)
            bars.append(Bar(f"{title}: {name}", mean, COLOURS[0]))
    for label in results.labels(experiment, objective):
        found = results.shown(experiment, label, objective)
        colour = COLOURS[6 if UNTRAINED in label else 2 if OURS in label else 1]
        bars.append(Bar(label, measure.mean(found), colour, sampled_spread(found, measure)))
    return bars


def _draw_panel(axes: Axes, bars: Sequence[Bar]) -> None:
    """Draw the bars. Longer bars, those of untrained agents, end at the end of the axis."""
    labels, values, colours, _ = zip(*bars, strict=True)
    horizontal_bars(axes, labels, values, colours)
    others = [bar for bar in bars if not bar.label.startswith(UNTRAINED)]
    most = BEYOND * max(max(bar.value, bar.spread.most if bar.spread else 0.0) for bar in others)
    axes.set_xlim(0.0, most)
    for place, bar in enumerate(bars):
        if bar.value > most:
            text: dict[str, Any] = {
                "ha": "right",
                "va": "center",
                "fontsize": 7,
                "backgroundcolor": bar.colour,
            }
            axes.text(most, place, f"{bar.value:,.0f} ", **text)
        if bar.spread is not None:
            mean, width, least, greatest = bar.spread
            axes.hlines(place, least, greatest, color="black", linewidth=0.6)
            axes.hlines(place, mean - width, mean + width, color="black", linewidth=2.0)
            axes.plot(mean, place, "o", color="black", markersize=3)


def draw_curves(path: Path, study: str, trained: Path) -> None:
    """Draw learning curves: mean and range over seeds, a column per agent and objective.

    Args:
        path: the PNG file.
        study: a key of `EXPERIMENTS`.
        trained: the folder that holds a folder per training.
    """
    kinds = [(variant, objective) for variant in (PAPERS, OURS) for objective in OBJECTIVES]
    size = (12, 7)
    with panels(path, len(QUANTITIES), len(kinds), size, style={}, dpi=90, sharex="col") as grid:
        for number, (variant, objective) in enumerate(kinds):
            folders = [trained / one.name for one in trainings_of(study, variant, objective)]
            column = grid[number :: len(kinds)]
            _draw_column(column, folders)
            title = f"{variant}, for {MEASURES[objective].title}: {len(folders)} seeds"
            column[0].set_title(title, fontsize=9)
            column[-1].set_xlabel("iterations", fontsize=8)
        for axes, label in zip(grid[:: len(kinds)], QUANTITIES.values(), strict=True):
            axes.set_ylabel(label, fontsize=8)


def _draw_column(column: Sequence[Axes], folders: Sequence[Path]) -> None:
    curves = [[line for line in read_curve(folder) if line.iteration > 0] for folder in folders]
    for axes, name in zip(column, QUANTITIES, strict=True):
        band(axes, [[_quantity(line, name) for line in curve] for curve in curves])
        axes.tick_params(labelsize=7)
        if name == "value_loss":
            axes.set_yscale("log")


def _quantity(line: Iteration, name: str) -> float:
    return line.measures[name] if name in line.measures else float(getattr(line, name))


def draw_schedules(path: Path, experiment: str, results: Results, models: Path) -> None:
    """Draw Gantt charts of the best heuristic and the best agents, a column per objective.

    Args:
        path: the PNG file.
        experiment: name of the scenario.
        results: the results of heuristics.
        models: the folder of the agents' files.
    """
    columns = [_simulated(experiment, results, models, objective) for objective in OBJECTIVES]
    rows = len(columns[0])
    size = (13, 2.6 * rows)
    with panels(path, rows, 2, size, style={}, dpi=110, sharex="col") as grid:
        for number, column in enumerate(columns):
            for axes, (title, done) in zip(grid[number::2], column.items(), strict=True):
                gantt(axes, done.simulation, done.jobs.profile.tolist())
                found = energies(done.simulation.record())
                came = f"{found['energy_j']:,.0f} J, {found['edp_js'] / 1e3:,.1f} kJ s"
                axes.set_title(f"{title}: {came}", loc="left", fontsize=8)
            ends_s = [max(done.simulation.recording.end_s) for done in column.values()]
            grid[number].set_xlim(0, max(ends_s))
            grid[-2 + number].set_xlabel("simulated time, s", fontsize=8)
        figure = grid[0].figure
        figure.suptitle(f"{experiment}: jobs on cores, a colour a profile", fontsize=9)


def _simulated(
    experiment: str, results: Results, models: Path, objective: Objective
) -> dict[str, Simulated]:
    """Return the runs to draw for an objective, by title."""
    name, _ = results.best_heuristic(experiment, objective)
    schedulers = {name: name}
    for variant in (PAPERS, OURS):
        title = f"{variant}, for {MEASURES[objective].title}"
        schedulers[title] = f"pairing:{models / model_name(variant, objective)}"
    path = scenario_path("ineps", experiment)
    return {title: simulate(path, scheduler) for title, scheduler in schedulers.items()}
