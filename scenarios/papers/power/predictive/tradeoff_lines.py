"""Lines of wasted energy and mean wait of power managers, one for each family of settings.

    hpcosim experiment scenarios/papers/power/predictive/nasa.yaml --format csv --out lines/nasa
    python -m papers.power.predictive.tradeoff_lines lines lines.png nasa

draws a panel for each named experiment of `scenarios/papers/power/predictive`, with the results in
the folder of its name, and adds the plan of `predictive` with the true future, and with sessions
that are known within 3 h, see `papers.power.predictive.known_future`. It needs the logs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hpcosim_experiments.report.panels import GREY, READABLE, panels
from hpcosim_experiments.statistics.rows import read_rows
from hpcosim_scenarios.running.library import Library
from papers.power.predictive.equal_waste import Points, lines_of
from papers.power.predictive.known_future import PRICES_W, known_future, opened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KNOWN = {"sessions known within 3 h": 10_800.0, "the true future": 0.0}
FAMILIES = ("timeout", "ipm", "snf-icon", "predictive", "snf + predictive", "learned", *KNOWN)
MARKERS = "osD^vPX*"
COLOURS = (*READABLE, GREY)


def known_lines(library: Library) -> dict[str, Points]:
    """Return the points of the plans that know more than a scheduler can."""
    return {
        label: [known_future(library, window_s, price_w) for price_w in PRICES_W]
        for label, window_s in KNOWN.items()
    }


def draw(axes: Axes, title: str, lines: dict[str, Points]) -> None:
    """Draw the lines of an experiment."""
    for number, family in enumerate(FAMILIES):
        if family in lines:
            wasted, wait = zip(*sorted(lines[family]), strict=True)
            colour = COLOURS[number]
            axes.plot(wasted, wait, label=family, color=colour, marker=MARKERS[number])
    axes.set(title=title, xlabel="wasted energy, kWh", ylabel="mean wait, min")
    axes.set_ylim(bottom=0.0)


def main() -> None:
    """Draw the panels."""
    results, picture, *names = sys.argv[1:]
    with panels(Path(picture), 1, len(names), (4.2 * len(names), 3.6)) as all_axes:
        for axes, name in zip(all_axes, names, strict=True):
            library = opened(name)
            lines = lines_of(read_rows(Path(results) / name / "results.csv"))
            workload = library.first.workload
            first, end = workload.jobs or (0, len(library.first_jobs))
            draw(axes, f"{workload.trace}, {first:,} to {end:,}", lines | known_lines(library))
        all_axes[-1].legend(fontsize=7, frameon=False)


if __name__ == "__main__":
    main()
