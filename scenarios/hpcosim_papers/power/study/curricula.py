"""Curricula: figure 11 (section 5.2), from the table of trainings."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.report.panels import PALE, panels
from hpcosim_experiments.report.units import Measure
from hpcosim_experiments.statistics.rows import Row, Rows, groups, read_rows, where
from hpcosim_papers.power.study.paper import (
    AGENTS_AWARENESS,
    BEST,
    CURRICULA,
    ENERGY,
    METRICS,
    NO_CL,
    PAPER,
    RULE,
    TEST,
    TIMEOUT,
    UNTRAINED,
    WAIT,
    WASTED,
    percent,
)
from hpcosim_papers.studies.study import StudyError, change
from hpcosim_view.figure import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TABLE = "curricula.csv"
TRAINED_COLUMNS = ("algorithm", "curriculum", "seed", *METRICS)
"""Columns of the table; the metrics are those of the test workload."""

MEASURES = (ENERGY, WASTED, WAIT)
"""Panels (a) to (c) of figure 11."""

SHADES: Mapping[str, str] = {
    "easy to hard": COLOURS[2],
    "hard, easy, hard": COLOURS[0],
    "hard to easy": COLOURS[1],
    "no curriculum": COLOURS[7],
}


def read_trainings(path: Path) -> list[Row]:
    """Return the trainings of a table, in the order of the paper's curricula.

    The curriculum `untrained` is the initial network.

    Raises:
        StudyError: the table cannot be read, lacks columns, or has no trainings.
    """
    lines = read_rows(path, TRAINED_COLUMNS)
    if not lines:
        raise StudyError(f"{path}: expected at least one training, got none")
    rows = [
        {
            **line,
            "scenario": TEST,
            "cluster": "",
            "kind": line["algorithm"],
            "manager": line["curriculum"],
            "awareness": AGENTS_AWARENESS,
        }
        for line in lines
    ]
    return [row for name in (*CURRICULA, UNTRAINED) for row in where(rows, manager=name)]


def _trained(rows: Rows) -> dict[str, list[Row]]:
    """Return the trainings by curriculum."""
    learned = [row for row in rows if row["kind"] != TIMEOUT]
    return {name: runs for (name,), runs in groups(learned, "manager").items()}


def _best(rows: Rows) -> Row:
    """Return the timeout that wastes the least energy."""
    return min(where(rows, kind=TIMEOUT), key=WASTED.of)


def summary(rows: Rows) -> str:
    """Return the tables as Markdown."""
    trained, best = _trained(rows), _best(rows)
    head = ["curriculum", "", "seeds", *(measure.named for measure in MEASURES)]
    head += ["wasted: change", "wait: change"]
    without = trained.get(NO_CL, [])
    lines = []
    for name, runs in (*trained.items(), (best["manager"], [best])):
        cells = [name, CURRICULA.get(name, ""), str(len(runs)) if name in trained else ""]
        cells += [measure.spread(runs) for measure in MEASURES]
        for of in (WASTED, WAIT):
            compared = without and name != NO_CL
            cells.append(percent(change(of.mean(runs), of.mean(without))) if compared else "")
        lines.append(cells)
    parts = [
        ["# Curricula (figure 11)"],
        [
            "Mean over seeds, minimum to maximum. Changes are relative to no curriculum. The paper",
            f"reports {PAPER.wasted_to_no_cl} % wasted energy for `{BEST}`, and",
            f"{PAPER.wait_to_no_cl[0]} % to {PAPER.wait_to_no_cl[1]} % mean wait for easy to hard,",
            "apparently of one training each.",
        ],
        [f"## {rows[0]['kind'].upper()}"],
        table(head, lines, RULE),
    ]
    if UNTRAINED not in trained:
        parts.append(["The table has no untrained network."])
    return document(*parts)


def draw(path: Path, rows: Rows) -> None:
    """Draw one panel for each measure: bars are means of curricula, dots are seeds."""
    with panels(path, 1, len(MEASURES), (11.5, 4.4), sharey=True) as all_axes:
        for number, (axes, measure) in enumerate(zip(all_axes, MEASURES, strict=True)):
            _draw(axes, rows, measure)
            title = f"({chr(ord('a') + number)}) {measure.named}"
            axes.set_title(title, loc="left", fontsize=10)
        figure = all_axes[0].figure
        figure.suptitle(f"{rows[0]['kind'].upper()}; dots: seeds, bars: their mean", fontsize=10)
        figure.legend(
            *all_axes[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=6,
            frameon=False,
        )


def _draw(axes: Axes, rows: Rows, measure: Measure) -> None:
    trained, best = _trained(rows), _best(rows)
    untrained = trained.pop(UNTRAINED, None)
    seen: set[str] = set()
    for place, (name, runs) in enumerate(trained.items()):
        called, values = CURRICULA[name], measure.values(runs)
        label = called if called not in seen else None
        seen.add(called)
        axes.barh(place, statistics.fmean(values), color=SHADES[called], alpha=0.75, label=label)
        axes.plot(values, [place] * len(values), "o", color="black", markersize=3.5)
    timeout, colour = measure.of(best), COLOURS[5]
    axes.axvline(timeout, color=colour, linestyle="--", linewidth=1.4, label=best["manager"])
    if untrained:
        value = measure.mean(untrained)
        axes.axvline(value, color=COLOURS[3], linestyle=":", linewidth=1.8, label="untrained")
    axes.set_yticks(range(len(trained)), list(trained))
    axes.set_ylim(len(trained) - 0.5, -0.5)
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
