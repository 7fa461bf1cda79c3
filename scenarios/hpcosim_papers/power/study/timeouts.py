"""Timeouts and other power managers: figures 12 to 15 (section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.report.panels import GREY, PALE, panels, titled
from hpcosim_experiments.report.units import Measure
from hpcosim_experiments.statistics.rows import Row, Rows, where
from hpcosim_papers.power.study import paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEASURES = (paper.WASTED, paper.WAIT, paper.FILLING, paper.SHUTDOWNS)
"""Measures of figures 12 to 15, in their order."""

PARTS = ("test part", "training part", "whole log")
"""Parts of the log whose job-filling rate is measured with all nodes on.

The paper's rate does not match its test workload, so other parts are measured too.
"""

SPACING = 5.0
"""Distance on the axis between managers without a timeout, min."""


def arranged(rows: Rows) -> list[Row]:
    """Return the runs on the test part, then one with all nodes on for each of `PARTS`."""
    return [*where(rows, scenario=paper.TEST), *where(rows, kind=paper.ALWAYS_ON)]


def summary(rows: Rows, left_out: Sequence[str]) -> str:
    """Return the tables as Markdown."""
    managers, all_on = rows[: -len(PARTS)], rows[-len(PARTS) :]
    return document(
        ["# Timeouts and other power managers (figures 12 to 15)"],
        list(left_out),
        paper.timeout_claims(managers, paper.AWARENESSES),
        paper.agent_claims(managers),
        ["## Job-filling rate with all nodes on, by part of the log"],
        table(
            ["part", "job-filling rate", "paper"],
            [
                [part, f"{paper.FILLING.of(row):.2f} %", f"{paper.PAPER.filling_all_on} %"]
                for part, row in zip(PARTS, all_on, strict=True)
            ],
            paper.RULE,
        ),
        ["## All runs", "", "Agents: mean over seeds, minimum to maximum."],
        paper.run_table(managers, (*MEASURES, paper.ENERGY, paper.MAX_WAIT)),
    )


def draw(path: Path, rows: Rows) -> None:
    """Draw the four measures: lines over timeouts, and other managers to their right."""
    rows = rows[: -len(PARTS)]
    with panels(path, 2, 2, (11.5, 8.6), sharex=True) as four:
        for number, (axes, measure) in enumerate(zip(four, MEASURES, strict=True)):
            _draw_lines(axes, rows, measure)
            _draw_others(axes, rows, measure)
            titled(axes, f"{measure.title} (figure {12 + number})")
            axes.set_ylabel(measure.named)
            axes.set_ylim(bottom=0)
        four[0].legend(title="job scheduler", loc="lower left", frameon=False, ncols=3)
        for axes in four[2:]:
            axes.text(0.35, -0.09, "timeout (min)", transform=axes.transAxes, ha="center", va="top")
        wasted, wait, filling = (
            measure.mean(where(rows, kind=paper.ALWAYS_ON))
            for measure in (paper.WASTED, paper.WAIT, paper.FILLING)
        )
        _note(four[0], f"always on: {wasted:.1f} GJ, no shutdown")
        four[2].axhline(filling, color=GREY, linestyle="--", linewidth=1)
        _note(four[2], f"dashed: always on, {filling:.1f} %")
        _note(four[1], f"always on: {wait:.0f} s")


def _draw_lines(axes: Axes, rows: Rows, measure: Measure) -> None:
    style: dict[str, Any] = {"markersize": 4, "linewidth": 1.6}
    for awareness in paper.AWARENESSES:
        line = where(rows, kind=paper.TIMEOUT, awareness=awareness)
        minutes, colour = [row["value"] for row in line], paper.AWARENESS_COLOURS[awareness]
        axes.plot(minutes, measure.values(line), "-o", color=colour, label=awareness, **style)


def _draw_others(axes: Axes, rows: Rows, measure: Measure) -> None:
    others = [row for row in rows if row["kind"] not in (paper.TIMEOUT, paper.ALWAYS_ON)]
    ticks = sorted({row["value"] for row in where(rows, kind=paper.TIMEOUT)})
    places = _places(others, max(ticks) + 2 * SPACING)
    for row in others:
        axes.plot(
            [places[row["manager"]]],
            [measure.of(row)],
            paper.KIND_MARKERS[row["kind"]],
            color=paper.AWARENESS_COLOURS[row["awareness"]],
            markersize=7,
            markeredgecolor="white",
        )
    axes.axvline(max(ticks) + SPACING, color=PALE, linewidth=1)
    shown = [tick for tick in ticks if tick % (2 * SPACING) == 0] or ticks
    labels = [label.replace(paper.BEST, paper.CURRICULA[paper.BEST]) for label in places]
    axes.set_xticks([*shown, *places.values()], [*(f"{tick:g}" for tick in shown), *labels])
    for label in axes.get_xticklabels()[len(shown) :]:
        label.set(rotation=60, ha="right", rotation_mode="anchor")


def _places(others: Sequence[Row], first: float) -> dict[str, float]:
    managers = dict.fromkeys(row["manager"] for row in others)
    return {manager: first + SPACING * number for number, manager in enumerate(managers)}


def _note(axes: Axes, text: str) -> None:
    axes.text(0.99, 1.015, text, transform=axes.transAxes, ha="right", fontsize=8, color=GREY)
