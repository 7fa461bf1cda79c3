"""The study, from the job log to tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from hpcosim_experiments.report.markdown import document, table
from hpcosim_experiments.runs.plan import Plan, PlannedRun
from hpcosim_experiments.statistics.rows import Label, Rows, where
from hpcosim_papers.node_centric.study import paper
from hpcosim_papers.node_centric.study.comparison import (
    both_wins,
    by_scheduler,
    facts,
    representative_week,
)
from hpcosim_papers.node_centric.study.figures import draw_boxes, draw_week, draw_wins
from hpcosim_papers.node_centric.study.measures import measured
from hpcosim_papers.node_centric.study.paper import (
    CAPS,
    COLUMNS,
    OURS,
    READINGS,
    SCHEDULERS,
    Reading,
)
from hpcosim_papers.studies import measures
from hpcosim_papers.studies.study import Request, Study, carry_out, experiment_file, plan
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_workloads.table import JobTable

# Tables over all weeks, as Markdown.


def summary(rows: Rows, known: Sequence[str]) -> str:
    """Return the published and reproduced changes, the medians, and the wins, as Markdown.

    Args:
        rows: the rows of all weeks.
        known: sentences about the workload.
    """
    return document(
        ["# The node-centric study"],
        [f"- {fact}" for fact in known],
        [
            "Changes are those of a scheduler's median over weeks against the mean of the medians "
            "of MinMin, MaxMin and Duplex; the best batch one is that of them with the lowest "
            "median.",
            "Chained are these as the paper's program runs them, immediate without its slips; in "
            "batch mode they map the whole queue anew at every event.",
        ],
        *(part for cap in CAPS for part in _of_cap(where(rows, cap=cap), cap)),
    )


def _of_cap(rows: Rows, cap: str) -> Iterator[list[str]]:
    """Yield the tables of a cap."""
    yield [f"## `{cap}`: {CAPS[cap]}"]
    yield change_table(rows)
    yield verdict(rows)
    busy = [row for row in rows if row["jobs"] >= paper.BUSY]
    if busy:
        full = {row["week"]: row["jobs"] for row in busy}
        mean = sum(full.values()) / len(full)
        yield [
            f"The same over the {len(full)} weeks of at least {paper.BUSY} jobs ({mean:.0f} on "
            "average):"
        ]
        yield change_table(busy)
    yield ["Medians over weeks:"]
    yield median_table(rows)
    yield [
        f"Weeks in which each is the best, ties counted (to {paper.TIE:g} of the best), of the "
        f"paper's five / of all {len(SCHEDULERS)}:"
    ]
    yield win_table(rows)


def verdict(rows: Rows) -> list[str]:
    """Return the improvements over chained baselines that hold, or not, over batch ones."""
    lines = []
    for scheduler, label in OURS.items():
        kept: list[str] = []
        lost: list[str] = []
        for reading in paper.DRAWN:
            of = medians(rows, reading.column)
            if change(of, scheduler, list(paper.CHAINED)) < -paper.NOTEWORTHY:
                now = change(of, scheduler, list(paper.BATCH))
                name = f"{reading.named} ({now:+.1f} %)"
                (kept if now < -paper.NOTEWORTHY else lost).append(name)
        lines.append(
            f"- {label}: of its leads over the paper's baselines it keeps against the batch "
            f"ones {'; '.join(kept) or 'none'}. It loses {'; '.join(lost) or 'none'}."
        )
    return lines


def medians(rows: Rows, column: str) -> dict[str, float]:
    """Return the median over weeks by scheduler."""
    values = by_scheduler(rows, column)
    return {scheduler: float(np.median(each)) for scheduler, each in values.items()}


def change(of: Mapping[str, float], scheduler: str, baseline: Sequence[str]) -> float:
    """Return the change of a median relative to the mean of the baselines' medians, in %."""
    return measures.change(of[scheduler], float(np.mean([of[name] for name in baseline])))


def change_table(rows: Rows) -> list[str]:
    """Return the table of published and reproduced changes."""

    def changes(reading: Reading) -> list[str]:
        of, cells = medians(rows, reading.column), []
        for scheduler, published in zip(OURS, reading.paper, strict=True):
            ours = [change(of, scheduler, list(names)) for names in paper.FAMILIES]
            best = max(change(of, scheduler, [name]) for name in paper.BATCH)
            cells += [f"{value:+.1f} %" for value in (published, *ours, best)]
        return cells

    groups = ("paper", "against chained", "against immediate", "against batch", "best batch")
    return _table([f"{label}, {group}" for label in OURS.values() for group in groups], changes)


def median_table(rows: Rows) -> list[str]:
    """Return the table of medians over weeks."""

    def values(reading: Reading) -> list[str]:
        of = medians(rows, reading.column)
        return [f"{of[scheduler] / reading.measure.scale:.4g}" for scheduler in SCHEDULERS]

    return _table(list(SCHEDULERS.values()), values, lambda reading: reading.measure.named)


def win_table(rows: Rows) -> list[str]:
    """Return the table of wins, among the paper's five schedulers and among all."""

    def counts(reading: Reading) -> list[str]:
        five, every = both_wins(rows, reading)
        return [f"{five.get(name, '-')} / {every[name]}" for name in SCHEDULERS]

    return _table(list(SCHEDULERS.values()), counts)


def _table(
    head: Sequence[str],
    cells: Callable[[Reading], Sequence[str]],
    named: Callable[[Reading], str] = lambda reading: reading.measure.title,
) -> list[str]:
    """Return a table with a line per measure and interpretation."""
    lines = [[named(reading), reading.reading, *cells(reading)] for reading in READINGS]
    return table(["measure", "reading", *head], lines, rule=" --- ")


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
