"""What power managers do to job scheduling: figure 16 (section 5.4)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpcosim_studies.power.agents import Agent, contenders
from hpcosim_studies.power.batch import Row, Spec, run_all, write_rows
from hpcosim_studies.power.managers import of_agents, timeouts
from hpcosim_studies.power.radar_figure import Radar, draw_radars
from hpcosim_studies.power.readings import (
    AWARENESSES,
    PAPERS_TIMEOUT_MIN,
    TEST,
    WORKERS,
)
from hpcosim_studies.power.tables import Measure, groups, run_table, table, text_of

INVERTED: Mapping[str, str] = {
    "max_wait_s": "longest wait",
    "mean_response_s": "mean response",
    "mean_slowdown": "mean slowdown",
}
"""The metrics of which less is better, by what the figure calls them."""

FILLING = "job_filling_rate"
SPOKES = (*INVERTED.values(), "system utilization")
"""In the order of section 5.4; utilization there is the job-filling rate."""

COLUMNS = (
    Measure(lambda row: row.metrics["max_wait_s"], "longest wait", "s", 0),
    Measure(lambda row: row.metrics["mean_response_s"], "mean response", "s", 0),
    Measure(lambda row: row.metrics["mean_slowdown"], "mean slowdown", "", 1),
    Measure(lambda row: row.filling, "system utilization", "%", 1),
)

AGENTS = "agents and the timeout"
SCHEDULERS = "the timeout, by the job scheduler"


def compare_scheduling(
    out: Path,
    agents: Sequence[Agent],
    left_out: Sequence[str] = (),
    *,
    path: Path = TEST,
    workers: int = WORKERS,
) -> None:
    """Run all, and write `results.csv`, `summary.md` and `radar.png`.

    Args:
        out: the folder, which exists.
        agents: trained networks to compare.
        left_out: what is not compared, and why; for the summary.
        path: the scenario.
        workers: processes.

    Raises:
        As `run_all`, and `draw_radars`; OSError: the folder can't be written to.
    """
    rows = run_all(specs_of(agents, path), workers, "power-radar")
    write_rows(out / "results.csv", rows)
    radars = radars_of(rows)
    draw_radars(out / "radar.png", SPOKES, radars)
    (out / "summary.md").write_text(summary(rows, radars, left_out), encoding="utf-8")


def specs_of(agents: Sequence[Agent], path: Path) -> list[Spec]:
    """Return the runs: the paper's timeout beside every job scheduler, and the agents."""
    specs = of_agents(contenders(agents), path=path)
    for awareness in AWARENESSES:
        specs += timeouts([PAPERS_TIMEOUT_MIN], awareness, path=path)
    return specs


def radars_of(rows: Sequence[Row]) -> list[Radar]:
    """Return what is drawn: agents beside the timeout as in the paper, and timeouts alone."""
    alone = [row for row in rows if row.spec.seed is None]
    learned = [row for row in rows if row.spec.seed is not None]
    radars = [Radar(SCHEDULERS, shape_of(alone, with_awareness=True))]
    if learned:
        beside = {row.spec.awareness for row in learned}
        same = [row for row in alone if row.spec.awareness in beside]
        radars.insert(0, Radar(AGENTS, shape_of([*same, *learned], with_awareness=len(beside) > 1)))
    return radars


def shape_of(rows: Sequence[Row], *, with_awareness: bool = False) -> dict[str, list[float]]:
    """Return the four values of each manager, means over seeds, the best at 1 in each.

    The paper inverts the metrics but for utilization, and normalises them; how, it does not say.
    Here each is divided by the largest.
    """
    raw = {
        f"{label}, {awareness}" if with_awareness else label: [
            *(1 / max(_mean(runs, name), 1e-9) for name in INVERTED),
            _mean(runs, FILLING),
        ]
        for (label, awareness), runs in groups(rows).items()
    }
    most = [max(values) for values in zip(*raw.values(), strict=True)]
    return {
        label: [value / top for value, top in zip(values, most, strict=True)]
        for label, values in raw.items()
    }


def summary(rows: Sequence[Row], radars: Sequence[Radar], left_out: Sequence[str]) -> str:
    """Return the tables, as Markdown."""
    parts: list[list[str]] = [
        ["# Impact on job scheduling (figure 16)"],
        list(left_out),
        run_table(rows, COLUMNS),
        [
            "Below they are inverted, but for utilization, and divided by the largest: more is",
            "better. In the paper its Best Agent has the most of all four; that without curriculum",
            "has more utilization than the timeout, and less of all else.",
        ],
    ]
    for radar in radars:
        lines = [
            [label, *(f"{value:.2f}" for value in values)] for label, values in radar.shapes.items()
        ]
        parts += [[f"## {radar.title.capitalize()}"], table(["", *SPOKES], lines)]
    return text_of(*parts)


def _mean(rows: Sequence[Row], metric: str) -> float:
    return statistics.fmean(row.metrics[metric] for row in rows)
