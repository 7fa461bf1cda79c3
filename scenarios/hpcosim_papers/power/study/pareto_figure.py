"""The figure of wait and wasted energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcosim_experiments.report.figures import front as undominated
from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.report.panels import GREY, PALE, panels, text_on_white
from hpcosim_experiments.statistics.rows import Row, Rows, groups, where
from hpcosim_papers.power.study.paper import (
    ALWAYS_ON,
    AWARENESS_COLOURS,
    AWARENESSES,
    FILLING,
    KEEP_IDLE,
    KIND_MARKERS,
    MAX_WAIT,
    ORACLE,
    PEER,
    PRICED,
    RULE,
    SHUTDOWNS,
    SLURM,
    TIMEOUT,
    WAIT,
    WASTED,
    run_table,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Wait and wasted energy of every manager and setting; not in the paper.

MEASURES = (WASTED, WAIT, MAX_WAIT, SHUTDOWNS, FILLING)


def front(rows: Rows) -> list[Row]:
    """Return the Pareto front: runs that no other run dominates.

    The oracle is left out, because it knows the future. The rows are sorted by wasted energy,
    ascending; of equal runs the first is returned.
    """
    compared = [row for row in rows if row["kind"] != ORACLE]
    return [compared[at] for at in undominated([(WASTED.of(r), WAIT.of(r)) for r in compared])]


def summary(rows: Rows, left_out: Sequence[str]) -> str:
    """Return the tables as Markdown."""
    peer = [
        [f"{point['timeout_s'] / 60:g} min", WASTED.spread([point]), WAIT.spread([point])]
        for point in PEER
    ]
    return document(
        ["# Wait and wasted energy"],
        list(left_out),
        ["## Pareto front, without the oracle"],
        run_table(front(rows), MEASURES),
        ["## SPARS, planned, by timeout"],
        table(["timeout", WASTED.named, WAIT.named], peer, RULE),
        ["## All runs"],
        run_table(rows, MEASURES),
    )


FRONT = "#cfcfcf"
LINEAR_S = 100.0
"""Mean wait below which the axis is linear, so that it includes 0, s."""

WASTED_TICKS = (4, 5, 6, 7, 8, 10, 12, 15, 20, 30)
WAIT_TICKS = (0, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
NAMED_MIN = (0.0, 15.0, 60.0, 240.0)
"""Timeouts with a label, min."""

LABEL_OFFSETS: Mapping[str, tuple[int, int, str]] = {
    "unaware": (7, 3, "left"),
    "aware": (8, 2, "left"),
    "planned": (-6, -11, "right"),
    "any": (8, 6, "left"),
}
"""Offset and alignment of labels, in points from the marker; they avoid overlaps."""

RIGHT_OF, LEFT_OF = (7, -3, "left"), (-7, -3, "right")
"""Offsets and alignments of the names of lines."""

NAMES: Mapping[str, str] = {
    TIMEOUT: "timeout, 0 to 240 min",
    PRICED: "timeout, wait at a price (W)",
    KEEP_IDLE: "keep idle nodes on",
    SLURM: "slurm, 15 min",
    "a2c": "agent, A2C",
    "adaptive": "adaptive timeouts",
}
LEARNED = ("a2c", "adaptive")
SIZES: Mapping[str, float] = {TIMEOUT: 4.5, PRICED: 5, KEEP_IDLE: 4, ORACLE: 15}


def draw(path: Path, rows: Rows, best: Rows) -> None:
    """Draw every run as a point, and the Pareto front."""
    with panels(path, 1, 1, (11.0, 7.6)) as (axes,):
        _scale(axes)
        _plot(
            axes,
            best,
            drawstyle="steps-post",
            color=FRONT,
            linewidth=6,
            solid_joinstyle="round",
            zorder=1,
        )
        for awareness in AWARENESSES:
            _draw_lines(axes, where(rows, awareness=awareness))
        for row in rows:
            _draw_point(axes, row)
        _plot(axes, PEER, "--x", color=GREY, linewidth=1, markersize=6, zorder=3)
        _legend(axes, rows)


def _plot(axes: Axes, rows: Rows, form: str = "-", **style: Any) -> None:
    axes.plot(WASTED.values(rows), WAIT.values(rows), form, **style)


def _scale(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=LINEAR_S, linscale=0.5)
    axes.set_xticks(WASTED_TICKS, [f"{tick:g}" for tick in WASTED_TICKS])
    axes.set_yticks(WAIT_TICKS, [f"{tick:,g}" for tick in WAIT_TICKS])
    axes.minorticks_off()
    axes.grid(color=PALE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_xlabel("wasted energy (GJ)")
    axes.set_ylabel("mean wait (s)")
    axes.set_title(
        "Waiting against wasted energy on the test part: lower left is better",
        loc="left",
        fontsize=10,
    )


def _draw_lines(axes: Axes, rows: Rows) -> None:
    """Connect the runs of each family with the same job scheduler, and label them."""
    timeouts = where(rows, kind=TIMEOUT)
    _join(axes, timeouts, "-", 1.5)
    for row in timeouts:
        if row["value"] in NAMED_MIN:
            _name(axes, row, f"{row['value']:g} min")
    kept = where(rows, kind=KEEP_IDLE)
    if kept:
        _join(axes, kept, ":", 1.0)
        _name(axes, kept[-1], f"{kept[0]['value']:g} to {kept[-1]['value']:g} idle", RIGHT_OF)
    for (price_w,), same in groups(where(rows, kind=PRICED), "value").items():
        _join(axes, same, ":", 1.0)
        _name(axes, same[0], f"{price_w:g} W", LEFT_OF)


def _join(axes: Axes, rows: Rows, form: str, width: float) -> None:
    if rows:
        _plot(
            axes,
            rows,
            form,
            color=AWARENESS_COLOURS[rows[0]["awareness"]],
            linewidth=width,
            zorder=2,
        )


def _draw_point(axes: Axes, row: Row) -> None:
    kind = row["kind"]
    _plot(
        axes,
        [row],
        KIND_MARKERS[kind],
        color=AWARENESS_COLOURS[row["awareness"]],
        markersize=SIZES.get(kind, 7),
        markeredgecolor="black" if kind in LEARNED else "white",
        markeredgewidth=0.6,
        zorder=4,
    )
    if kind in (ORACLE, ALWAYS_ON):
        aside = (-8, 6, "right") if kind == ALWAYS_ON else None
        _name(axes, row, f"{row['manager']}, {WASTED.of(row):.2f} GJ", aside)


def _legend(axes: Axes, rows: Rows) -> None:
    from matplotlib.lines import Line2D

    kinds = {row["kind"] for row in rows}
    colours = [
        Line2D([], [], color=AWARENESS_COLOURS[awareness], lw=4, label=f"job scheduler {awareness}")
        for awareness in AWARENESSES
    ]
    marks = [
        Line2D([], [], color=GREY, marker=KIND_MARKERS[kind], linestyle="", label=name)
        for kind, name in NAMES.items()
        if kind in kinds
    ]
    rest = [
        Line2D([], [], color=GREY, ls="--", marker="x", label="SPARS, planned; 5, 15, 60 min"),
        Line2D([], [], color=FRONT, lw=6, label="best without knowing the future"),
    ]
    axes.legend(handles=[*colours, *marks, *rest], loc="upper right", framealpha=1, fontsize=9)


def _name(axes: Axes, row: Row, text: str, aside: tuple[int, int, str] | None = None) -> None:
    right, up, align = aside or LABEL_OFFSETS[row["awareness"]]
    drawn = axes.annotate(
        text,
        (WASTED.of(row), WAIT.of(row)),
        xytext=(right, up),
        textcoords="offset points",
        ha=align,
        fontsize=8,
        color=AWARENESS_COLOURS[row["awareness"]],
        zorder=3.5,
    )
    text_on_white(drawn)
