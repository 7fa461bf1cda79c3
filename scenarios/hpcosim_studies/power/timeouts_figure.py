"""The picture of timeouts: figures 12 to 15 in one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcosim_studies.canvas import GREY, PALE, panels, titled
from hpcosim_studies.power.batch import Row
from hpcosim_studies.power.canvas import MARKS, OF_AWARENESS
from hpcosim_studies.power.claims import of_kind
from hpcosim_studies.power.managers import ALWAYS_ON, TIMEOUT
from hpcosim_studies.power.readings import AWARENESSES, BEST, CALLED
from hpcosim_studies.power.tables import FILLING, MEASURES, Measure, mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

APART = 5.0
"""Minutes of the axis between managers that have no place on it."""


def draw_timeouts(path: Path, rows: Sequence[Row]) -> None:
    """Draw the four measures: lines over timeouts, to the right of them other managers.

    Raises:
        FigureError: matplotlib is missing, or the file can't be written.
    """
    with panels(path, 2, 2, (11.5, 8.6), sharex=True) as four:
        for number, (axes, measure) in enumerate(zip(four, MEASURES, strict=True)):
            _draw_lines(axes, rows, measure, named=number == 0)
            _draw_others(axes, rows, measure)
            titled(axes, f"{measure.title} (figure {12 + number})")
            axes.set_ylabel(measure.named)
            axes.set_ylim(bottom=0)
        for axes in four[2:]:
            axes.text(0.35, -0.09, "timeout (min)", transform=axes.transAxes, ha="center", va="top")
        all_on = of_kind(rows, ALWAYS_ON)
        _note(four[0], f"always on: {mean(all_on, MEASURES[0]):.1f} GJ, no shutdown")
        four[2].axhline(mean(all_on, FILLING), color=GREY, linestyle="--", linewidth=1)
        _note(four[2], f"dashed: always on, {mean(all_on, FILLING):.1f} %")
        _note(four[1], f"always on: {mean(all_on, MEASURES[1]):.0f} s")


def _draw_lines(axes: Axes, rows: Sequence[Row], measure: Measure, *, named: bool) -> None:
    for awareness in AWARENESSES:
        of = [row for row in of_kind(rows, TIMEOUT) if row.spec.awareness == awareness]
        minutes = [row.spec.value or 0.0 for row in of]
        values = [measure.of(row) for row in of]
        colour = OF_AWARENESS[awareness]
        axes.plot(minutes, values, "-o", color=colour, markersize=4, linewidth=1.6, label=awareness)
    if named:
        axes.legend(title="job scheduler", loc="lower left", frameon=False, ncols=3)


def _draw_others(axes: Axes, rows: Sequence[Row], measure: Measure) -> None:
    others = [row for row in rows if row.spec.kind not in (TIMEOUT, ALWAYS_ON)]
    labels = list(dict.fromkeys(row.spec.label for row in others))
    ticks = sorted({row.spec.value or 0.0 for row in of_kind(rows, TIMEOUT)})
    first = max(ticks) + 2 * APART
    places = {label: first + APART * number for number, label in enumerate(labels)}
    for row in others:
        axes.plot(
            [places[row.spec.label]],
            [measure.of(row)],
            MARKS[row.spec.kind],
            color=OF_AWARENESS[row.spec.awareness],
            markersize=7,
            markeredgecolor="white",
        )
    axes.axvline(max(ticks) + APART, color=PALE, linewidth=1)
    shown = [tick for tick in ticks if tick % (2 * APART) == 0] or ticks
    axes.set_xticks(
        [*shown, *places.values()], [*(f"{tick:g}" for tick in shown), *map(_short, labels)]
    )
    for label in axes.get_xticklabels()[len(shown) :]:
        label.set(rotation=60, ha="right", rotation_mode="anchor")


def _short(label: str) -> str:
    """Return a label with the kind of the curriculum instead of its workloads."""
    return label.replace(BEST, CALLED[BEST])


def _note(axes: Axes, text: str) -> None:
    axes.text(0.99, 1.015, text, transform=axes.transAxes, ha="right", fontsize=8, color=GREY)
