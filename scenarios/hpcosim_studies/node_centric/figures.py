"""The pictures of the node-centric study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_scenarios.errors import FigureError
from hpcosim_scenarios.figures.schedule import COLOURS, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
Line = tuple[Floats, Floats]
WEEK_H = 168.0
# The two node-centric schedulers, the chained baselines, the immediate and the batch ones.
FAMILIES = (COLOURS[0], COLOURS[2], *[COLOURS[1]] * 3, *[COLOURS[3]] * 3, *[COLOURS[4]] * 3)
OF_CURVES = (COLOURS[1], COLOURS[4], COLOURS[0], COLOURS[2])


class Panel(NamedTuple):
    """One measure under every scheduler.

    Attributes:
        title: the measure.
        unit: of the values.
        values: by scheduler: a value for each week, or a few counts.
    """

    title: str
    unit: str
    values: Mapping[str, Floats]


class Curve(NamedTuple):
    """A week under a scheduler.

    Attributes:
        label: the scheduler.
        makespan_h: hours.
        energy_kwh: hours and energy spent so far, by the reading of idle power.
        jobs: hours and jobs, by what they do.
    """

    label: str
    makespan_h: float
    energy_kwh: Mapping[str, Line]
    jobs: Mapping[str, Line]


def draw_boxes(path: Path, title: str, panels: Sequence[Panel]) -> None:
    """Draw box plots over weeks (the paper's figure 2): quartiles, median, extremes."""
    with _axes(path, title, (len(panels) + 3) // 4, 4, (15.0, 8.0)) as all_axes:
        for axes, panel in zip(all_axes, panels, strict=False):
            values = list(panel.values.values())
            drawn = axes.boxplot(
                values, whis=(0, 100), widths=0.6, patch_artist=True, medianprops={"color": "black"}
            )
            for box, colour in zip(drawn["boxes"], FAMILIES, strict=True):
                box.set_facecolor(colour)
            _scale(axes, values)
            _name(axes, panel)


def draw_wins(path: Path, title: str, panels: Sequence[Panel]) -> None:
    """Draw in how many weeks each is the best, of the paper's five and of all (figure 3)."""
    with _axes(path, title, (len(panels) + 3) // 4, 4, (15.0, 8.0)) as all_axes:
        for axes, panel in zip(all_axes, panels, strict=False):
            counts = np.array(list(panel.values.values()))
            at = np.arange(1, len(counts) + 1)
            five = axes.bar(at - 0.2, counts[:, 0], 0.4, color=FAMILIES, edgecolor=FAMILIES)
            every = axes.bar(
                at + 0.2, counts[:, 1], 0.4, color="white", edgecolor=FAMILIES, linewidth=1.2
            )
            for bars, column in ((five, 0), (every, 1)):
                texts = [f"{count:.0f}" if count else "" for count in counts[:, column]]
                axes.bar_label(bars, texts, fontsize=5.5)
            axes.set_ylim(0, 1.12 * max(counts.max(), 1))
            _name(axes, panel)
        all_axes[0].legend(
            [five, every],
            ["of the paper's five", "of all"],
            loc="lower right",
            bbox_to_anchor=(1.03, 0.99),
            ncols=2,
            fontsize=7,
            columnspacing=1,
            handlelength=1.5,
            frameon=False,
        )


def draw_energy(path: Path, title: str, curves: Sequence[Curve]) -> None:
    """Draw the energy spent over time, a panel for each reading of idle power (figure 4)."""
    readings = list(curves[0].energy_kwh)
    with _axes(path, title, 1, len(readings), (11.0, 4.5)) as all_axes:
        for axes, reading in zip(all_axes, readings, strict=True):
            for curve, colour in zip(curves, OF_CURVES, strict=False):
                hours, energy_kwh = curve.energy_kwh[reading]
                axes.plot(hours, energy_kwh, color=colour, label=curve.label)
                axes.plot(hours[-1:], energy_kwh[-1:], "o", color=colour, markersize=5)
            _over_time(axes, reading)
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.set_ylabel("energy (kWh)")
        all_axes[0].legend(fontsize=8)


def draw_jobs(path: Path, title: str, curves: Sequence[Curve]) -> None:
    """Draw running and queued jobs over time, a dot at the makespan (figure 5)."""
    with _axes(path, title, len(curves), 1, (10.0, 2.0 * len(curves) + 0.8), True) as all_axes:
        for axes, curve in zip(all_axes, curves, strict=True):
            for (what, (hours, count)), colour in zip(
                curve.jobs.items(), (COLOURS[0], COLOURS[5]), strict=True
            ):
                axes.step(hours, count, where="post", color=colour, linewidth=0.9, label=what)
            axes.plot([curve.makespan_h], [0], "o", color="black", clip_on=False, zorder=5)
            _over_time(axes, f"{curve.label}; makespan {curve.makespan_h:.0f} h")
            axes.set_ylabel("jobs")
            axes.label_outer()
        counts = [count for curve in curves for _, count in curve.jobs.values()]
        all_axes[0].set_ylim(0, 1.05 * max(float(count.max()) for count in counts))
        all_axes[0].set_xlim(0, 1.02 * max(curve.makespan_h for curve in curves))
        all_axes[0].legend(fontsize=8)


@contextmanager
def _axes(
    path: Path, title: str, rows: int, columns: int, size: tuple[float, float], shared: bool = False
) -> Iterator[list[Any]]:
    """Lend the panels of a figure, and write it when they are drawn."""
    mpl, pyplot = drawing()
    with mpl.rc_context({"font.size": 9}):
        figure, grid = pyplot.subplots(
            rows,
            columns,
            squeeze=False,
            figsize=size,
            layout="constrained",
            sharex=shared,
            sharey=shared,
        )
        try:
            yield list(grid.flat)
            figure.suptitle(title)
            figure.savefig(path, dpi=100)
        except OSError as error:
            raise FigureError(f"can't write {path}: {error.strerror or error}") from None
        finally:
            pyplot.close(figure)


def _name(axes: Axes, panel: Panel) -> None:
    """Write what a panel shows, with the schedulers below."""
    axes.set_xticks(range(1, len(panel.values) + 1), list(panel.values), rotation=90, fontsize=7)
    axes.set_title(panel.title, loc="left", fontsize=9)
    axes.set_ylabel(panel.unit)
    axes.grid(axis="y", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)


def _over_time(axes: Axes, title: str) -> None:
    axes.axvline(WEEK_H, color="#999999", linewidth=0.8, linestyle=":")
    axes.set_xlabel("hours since the week's first submission; dotted: 168 h")
    axes.set_title(title, loc="left", fontsize=9)
    axes.grid(color="#eeeeee", linewidth=0.5)


def _scale(axes: Axes, values: Sequence[Floats]) -> None:
    """Take a logarithmic axis where a linear one would hide the most; near 0 it is linear."""
    medians = [float(np.median(each)) for each in values]
    most, least = (float(pick([pick(each) for each in values])) for pick in (np.max, np.min))
    if most > 20 * min(medians) and least > 0:
        axes.set_yscale("log")
    elif most > 20 * min(medians) and max(medians) > 0:
        axes.set_yscale("symlog", linthresh=max(medians) / 10, linscale=0.5)
        axes.set_ylim(bottom=0)
