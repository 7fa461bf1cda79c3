"""What everybody comes to, as bars: heuristics, untrained agents, trained ones."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcosim_client.agents.pairing.settings import Objective
from hpcosim_scenarios.figures.schedule import COLOURS, drawing
from hpcosim_studies.ineps.agents_tables import MEASURES, Agents, chosen, drawn
from hpcosim_studies.ineps.experiments import UNTRAINED
from hpcosim_studies.ineps.heuristics import SHOWN, WORST, Results, contenders
from hpcosim_studies.ineps.optima import CLASSES, Best

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BEYOND = 1.05  # the longest of the other bars
STYLES = ("-", "--", ":")  # a class of schedules each


class Bar(NamedTuple):
    """A bar, in the unit of the measure.

    Attributes:
        label: at its side.
        value: its length; of agents what the best choices come to, the mean over seeds.
        colour: its colour.
        mean, deviation, least, most: of runs by chance; None: there are none.
    """

    label: str
    value: float
    colour: str
    mean: float | None = None
    deviation: float = 0.0
    least: float = 0.0
    most: float = 0.0


def draw_bars(
    agents: Agents,
    results: Results,
    optima: Sequence[Best],
    experiments: Sequence[str],
    path: Path,
) -> None:
    """Draw a panel an experiment and objective.

    Args:
        agents: the trained ones.
        results: of heuristics.
        optima: drawn as lines.
        experiments: scenarios, a row each.
        path: of the picture.
    """
    _, pyplot = drawing()
    size = (13, 0.6 + 4.6 * len(experiments))
    figure, rows = pyplot.subplots(
        len(experiments), 2, figsize=size, squeeze=False, layout="constrained"
    )
    for row, experiment in zip(rows, experiments, strict=True):
        for axes, objective in zip(row, MEASURES, strict=True):
            _draw_panel(axes, _bars(agents, results, experiment, objective))
            measure = MEASURES[objective]
            axes.set_title(f"{experiment}, {measure.title}, {measure.unit}", loc="left", fontsize=9)
            lines = _of(optima, experiment, objective)
            for style, optimum in zip(STYLES, lines, strict=False):
                value = optimum.value / measure.per_unit
                label = f"optimum: {CLASSES[optimum.placements]}"
                axes.axvline(value, color="black", linestyle=style, linewidth=0.8, label=label)
    handles, labels = rows[0, 0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    figure.suptitle(
        "bars: best choices, mean over seeds; by chance: dot the mean, thick line the standard "
        "deviation, thin line from least to most",
        fontsize=9,
    )
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _of(optima: Sequence[Best], experiment: str, objective: str) -> list[Best]:
    return [one for one in optima if (one.experiment, one.objective) == (experiment, objective)]


def _bars(agents: Agents, results: Results, experiment: str, objective: Objective) -> list[Bar]:
    measure = MEASURES[objective]
    bars = []
    for name in (WORST, *SHOWN[:3]):
        values = [measure.of(row) / measure.per_unit for row in results.runs(experiment, name)]
        mean = statistics.fmean(values)
        if len(values) == 1:
            bars.append(Bar(name, mean, COLOURS[7]))
        else:
            spread = (mean, statistics.stdev(values), min(values), max(values))
            bars.append(Bar(name, mean, COLOURS[7], *spread))
    for title, names in contenders().items():
        if "chance" not in title:
            name, mean, _ = results.best(measure, experiment, names)
            bars.append(Bar(f"{title}: {name}", mean / measure.per_unit, COLOURS[0]))
    for label in agents.labels(experiment, objective):
        found = agents.shown(experiment, label, objective)
        value = statistics.fmean(chosen(one, objective) for one in found) / measure.per_unit
        colour = COLOURS[6 if UNTRAINED in label else 2 if "foreseen" in label else 1]
        runs = (number / measure.per_unit for number in drawn(found, objective))
        bars.append(Bar(label, value, colour, *runs))
    return bars


def _draw_panel(axes: Axes, bars: Sequence[Bar]) -> None:
    """Draw the bars; untrained agents' may go beyond the others, and are cut off there."""
    places = range(len(bars))
    axes.barh(places, [bar.value for bar in bars], color=[bar.colour for bar in bars])
    others = [bar for bar in bars if not bar.label.startswith(UNTRAINED)]
    most = BEYOND * max(max(bar.value, bar.most) for bar in others)
    for place, bar in zip(places, bars, strict=True):
        if bar.value > most:
            axes.text(
                most,
                place,
                f"{bar.value:,.0f} ",
                ha="right",
                va="center",
                fontsize=7,
                backgroundcolor=bar.colour,
            )
    axes.set_xlim(0.0, most)
    axes.locator_params(axis="x", nbins=5)
    for place, bar in zip(places, bars, strict=True):
        if bar.mean is not None:
            axes.hlines(place, bar.least, bar.most, color="black", linewidth=0.6)
            ends = bar.mean - bar.deviation, bar.mean + bar.deviation
            axes.hlines(place, *ends, color="black", linewidth=2.0)
            axes.plot(bar.mean, place, "o", color="black", markersize=3)
    axes.set_yticks(places, [bar.label for bar in bars], fontsize=7)
    axes.invert_yaxis()
    axes.ticklabel_format(axis="x", style="plain")
    axes.tick_params(axis="x", labelsize=7)
