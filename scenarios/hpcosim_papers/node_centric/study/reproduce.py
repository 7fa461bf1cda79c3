"""The study, from the job log to tables and figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from hpcosim_experiments.runs.plan import Plan, PlannedRun
from hpcosim_experiments.statistics.rows import Label, Rows, where
from hpcosim_papers.node_centric.study.comparison import facts, representative_week
from hpcosim_papers.node_centric.study.figures import draw_boxes, draw_week, draw_wins
from hpcosim_papers.node_centric.study.measures import measured
from hpcosim_papers.node_centric.study.paper import CAPS, COLUMNS
from hpcosim_papers.node_centric.study.tables import summary
from hpcosim_papers.studies.study import Request, Study, carry_out, experiment_file, plan
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_workloads.table import JobTable


def reproduce(request: Request) -> None:
    """Run the study on the KIT log, and write tables and figures."""
    compare_weeks(study_of(), request)


def study_of() -> Study:
    """Return the study."""
    figures: dict[str, Callable[[Path, Rows], None]] = {}
    for cap in CAPS:
        figures[f"boxes-{cap}.png"] = partial(draw_boxes, cap=cap)
        figures[f"wins-{cap}.png"] = partial(draw_wins, cap=cap)
    return Study(
        experiment_file("node_centric", "node-centric"),
        COLUMNS,
        {},
        figures,
        described=lambda run: {"week": int(run.labels["week"])},
        measures=measured,
    )


def compare_weeks(study: Study, request: Request) -> Rows:
    """Carry out the study, and return the rows of `results.csv`."""
    rows = carry_out(study, request)
    planned = plan(study)
    drawn = {cap: representative_week(where(rows, cap=cap)) for cap in CAPS}
    for cap, week in drawn.items():
        draw_week(request.out, cap, runs_of_week(planned, cap, week))
    logs = {cap: whole_log(planned, cap) for cap in CAPS}
    text = summary(rows, facts(logs, rows, drawn))
    (request.out / "summary.md").write_text(text, encoding="utf-8")
    return rows


def runs_of_week(planned: Plan, cap: str, week: int) -> dict[Label, PlannedRun]:
    """Return the runs of a week by scheduler."""
    return {
        run.labels["scheduler"]: run
        for run in planned.runs
        if (run.labels["cap"], run.labels["week"]) == (cap, str(week))
    }


def whole_log(planned: Plan, cap: str) -> JobTable:
    """Return the jobs of all weeks with a cap."""
    scenario = next(run.scenario for run in planned.runs if run.labels["cap"] == cap)
    workload = replace(scenario.workload, window_s=None)
    return jobs_of(replace(scenario, workload=workload), Path())
