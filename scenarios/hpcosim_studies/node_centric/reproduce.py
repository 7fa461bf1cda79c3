"""The study, from the job log to tables and figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from hpcosim_experiments.statistics.rows import Row, Rows, where
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_studies.node_centric.comparison import facts, representative_week
from hpcosim_studies.node_centric.figures import draw_boxes, draw_week, draw_wins
from hpcosim_studies.node_centric.paper import CAPS, COLUMNS, WHOLE_LOG, base
from hpcosim_studies.node_centric.runs import measured, runs_of
from hpcosim_studies.node_centric.tables import summary
from hpcosim_studies.study import Study, carry_out
from hpcosim_workloads.table import JobTable


def reproduce(name: str, out: Path, *, train: bool = False, workers: int | None = None) -> None:
    """Run the study on the KIT log, and write tables and figures into a folder."""
    del name, train
    scenario = load_scenario(base(), WHOLE_LOG)
    compare_weeks(jobs_of(scenario, base().parent), out, workers)


def compare_weeks(jobs: JobTable, out: Path, workers: int | None = None) -> list[Row]:
    """Run the study on a job log, and return the rows of `results.csv`.

    Args:
        jobs: the jobs of the log.
        out: the existing output folder.
        workers: number of processes; None: one per core.
    """
    runs = [run for cap in CAPS for run in runs_of(jobs, cap)]
    figures: dict[str, Callable[[Path, Rows], None]] = {}
    for cap in CAPS:
        figures[f"boxes-{cap}.png"] = partial(draw_boxes, cap=cap)
        figures[f"wins-{cap}.png"] = partial(draw_wins, cap=cap)
    study = Study("node-centric", runs, COLUMNS, {}, figures, measured)
    rows = carry_out(study, out, workers)
    drawn = {cap: representative_week(where(rows, cap=cap)) for cap in CAPS}
    for cap, week in drawn.items():
        here = [run for run in runs if (run.labels["cap"], run.labels["week"]) == (cap, week)]
        draw_week(out, cap, here)
    (out / "summary.md").write_text(summary(rows, facts(jobs, rows, drawn)), encoding="utf-8")
    return rows
