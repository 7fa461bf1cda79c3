"""Other clusters than that of the training, without retraining: figure 17 (section 5.5)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.report.panels import panels, titled
from hpcosim_experiments.report.units import Measure
from hpcosim_experiments.statistics.rows import Row, Rows, groups, where
from hpcosim_papers.power.study import paper
from hpcosim_view.figure import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEST_TIMEOUTS = ("best timeout", "second timeout")
MEASURES = (paper.WASTED, paper.WAIT)
SHADES = (COLOURS[0], COLOURS[4], COLOURS[2], COLOURS[3], COLOURS[5])
TIMEOUT_SHADES = ("#555555", "#bbbbbb")
WIDTH = 0.8
"""Width of a group of bars; groups are 1 apart."""


def arranged(rows: Rows) -> list[Row]:
    """Return the rows by cluster."""
    return [row for same in groups(rows, "cluster").values() for row in same]


def shown(rows: Rows, cluster: str, awareness: str) -> dict[str, list[Row]]:
    """Return the agents and the two best timeouts of a cluster, by the names of their bars."""
    here = where(rows, cluster=cluster, awareness=awareness)
    learned = groups((row for row in here if row["seed"] is not None), "manager")
    two = sorted(where(here, kind=paper.TIMEOUT), key=paper.WASTED.of)[:2]
    return {
        **{manager: runs for (manager,), runs in learned.items()},
        **{name: [row] for name, row in zip(BEST_TIMEOUTS, two, strict=False)},
    }


def summary(rows: Rows, left_out: Sequence[str]) -> str:
    """Return the tables as Markdown, with a line for each cluster and manager."""
    parts = [
        ["# Sensitivity (figure 17)"],
        list(left_out),
        [
            "Timeouts are the two with the least wasted energy on each cluster. The paper gives no",
            "numbers; its Best Agent has the shortest waits on every cluster, and wastes about as",
            "much as the timeouts.",
        ],
    ]
    for family, clusters in paper.CLUSTERS.items():
        lines = [
            [cluster, awareness, runs[0]["manager"], *(each.spread(runs) for each in MEASURES)]
            for cluster in clusters
            for awareness in paper.AWARENESSES
            for runs in sorted(shown(rows, cluster, awareness).values(), key=paper.WASTED.mean)
        ]
        head = ["cluster", "scheduler", "manager", *(measure.named for measure in MEASURES)]
        parts += [[f"## {family}"], table(head, lines, paper.RULE)]
    return document(*parts)


def draw(path: Path, rows: Rows) -> None:
    """Draw two panels for each family, with a group of bars for each cluster; dots are seeds."""
    kinds = [(family, measure) for family in paper.CLUSTERS for measure in MEASURES]
    with panels(path, len(paper.CLUSTERS), 2, (11.5, 3.1 * len(paper.CLUSTERS) + 0.5)) as all_axes:
        for number, (axes, (family, measure)) in enumerate(zip(all_axes, kinds, strict=True)):
            bars = {
                cluster: shown(rows, cluster, paper.AGENTS_AWARENESS)
                for cluster in paper.CLUSTERS[family]
            }
            _draw(axes, list(bars.values()), measure)
            axes.set_xticks(range(len(bars)), list(bars))
            axes.margins(y=0.1)
            titled(axes, f"({chr(ord('a') + number)})")
            axes.set_ylabel(measure.named)
        all_axes[0].figure.legend(
            *all_axes[0].get_legend_handles_labels(),
            loc="outside upper center",
            ncols=3,
            frameon=False,
            title=f"beside the {paper.AGENTS_AWARENESS} job scheduler; on timeouts: minutes",
        )


def _draw(axes: Axes, bars: Sequence[dict[str, list[Row]]], measure: Measure) -> None:
    """Draw a group of bars for each cluster, a bar for each manager, minutes on timeouts."""
    names = list(dict.fromkeys(name for group in bars for name in group))
    width = WIDTH / len(names)
    for number, name in enumerate(names):
        from_end = len(names) - number
        shade = TIMEOUT_SHADES[-from_end] if from_end <= 2 else SHADES[number % len(SHADES)]
        at = [group + width * (number + 0.5) - WIDTH / 2 for group in range(len(bars))]
        runs = [group.get(name, []) for group in bars]
        seeds = [measure.values(each) for each in runs]
        means = [statistics.fmean(values) if values else 0.0 for values in seeds]
        drawn = axes.bar(at, means, 0.94 * width, color=shade, label=name)
        timed = name in BEST_TIMEOUTS
        notes = [f"{each[0]['value']:g}" if timed and each else "" for each in runs]
        axes.bar_label(drawn, notes, fontsize=7.5, padding=1)
        for position, values in zip(at, seeds, strict=True):
            if len(values) > 1:
                axes.plot([position] * len(values), values, ".", color="black", markersize=4)
