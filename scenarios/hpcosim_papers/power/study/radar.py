"""The impact of power managers on job scheduling: figure 16 (section 5.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.report.panels import panels
from hpcosim_experiments.report.units import Measure
from hpcosim_experiments.statistics.rows import Rows, groups
from hpcosim_papers.power.study.paper import RULE, run_table
from hpcosim_papers.studies.figures import radar

INVERTED = (
    Measure("max_wait_s", "longest wait", "s"),
    Measure("mean_response_s", "mean response", "s"),
    Measure("mean_slowdown", "mean slowdown", digits=1),
)
"""Metrics to minimise."""

UTILIZATION = Measure("job_filling_rate", "system utilization", "%", 0.01, 1)
"""Section 5.4 gives the job-filling rate this name."""

MEASURES = (*INVERTED, UTILIZATION)
SPOKES = tuple(measure.title for measure in MEASURES)
AGENTS = "agents and the timeout"
SCHEDULERS = "the timeout, by the job scheduler"

Shapes = Mapping[str, Sequence[float]]
"""A value in [0, 1] for each of `SPOKES`, by manager."""


def radars_of(rows: Rows) -> dict[str, Shapes]:
    """Return the shapes of each panel: agents and the timeout as in the paper, and timeouts."""
    alone = [row for row in rows if row["seed"] is None]
    learned = [row for row in rows if row["seed"] is not None]
    radars = {}
    if learned:
        awarenesses = {row["awareness"] for row in learned}
        same = [row for row in alone if row["awareness"] in awarenesses]
        radars[AGENTS] = shapes_of([*same, *learned], with_awareness=len(awarenesses) > 1)
    return {**radars, SCHEDULERS: shapes_of(alone, with_awareness=True)}


def shapes_of(rows: Rows, *, with_awareness: bool = False) -> Shapes:
    """Return the four values of each manager, means over seeds; the best value is 1.

    The paper inverts the metrics except utilization, and normalises them in an unspecified way.
    Here each is divided by the largest.
    """
    raw = {}
    for (manager, awareness), runs in groups(rows, "manager", "awareness").items():
        label = f"{manager}, {awareness}" if with_awareness else manager
        inverted = [1 / max(measure.mean(runs), 1e-9) for measure in INVERTED]
        raw[label] = [*inverted, UTILIZATION.mean(runs)]
    most = [max(values) for values in zip(*raw.values(), strict=True)]
    return {
        label: [value / top for value, top in zip(values, most, strict=True)]
        for label, values in raw.items()
    }


def summary(rows: Rows, left_out: Sequence[str]) -> str:
    """Return the tables as Markdown."""
    parts = [
        ["# Impact on job scheduling (figure 16)"],
        list(left_out),
        run_table(rows, MEASURES),
        [
            "Below, metrics except utilization are inverted, and all are divided by the largest:",
            "larger is better. In the paper the Best Agent is the best in all four; the agent",
            "without curriculum has a higher utilization than the timeout, and is worse in the",
            "other three.",
        ],
    ]
    for title, shapes in radars_of(rows).items():
        lines = [[label, *(f"{value:.2f}" for value in shape)] for label, shape in shapes.items()]
        parts += [[f"## {title.capitalize()}"], table(["", *SPOKES], lines, RULE)]
    return document(*parts)


def draw(path: Path, rows: Rows) -> None:
    """Draw panels side by side, with a shape for each manager; larger is better."""
    radars = radars_of(rows)
    size, polar = (5.8 * len(radars), 5.4), {"projection": "polar"}
    with panels(path, 1, len(radars), size, subplot_kw=polar) as all_axes:
        for axes, (title, shapes) in zip(all_axes, radars.items(), strict=True):
            radar(axes, SPOKES, shapes)
            axes.set_title(title, fontsize=10, pad=14)
            below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12)}
            axes.legend(frameon=False, fontsize=8, **below)
