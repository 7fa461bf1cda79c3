"""The study, from the job log to its tables and to figures 2 to 5 of the paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.report.panels import PALE, box_plots, panels
from hpcosim_experiments.runs.plan import Plan, PlannedRun
from hpcosim_experiments.statistics.rows import Label, Rows, where
from hpcosim_papers.node_centric import paper
from hpcosim_papers.node_centric.paper import (
    CAPS,
    COLUMNS,
    DRAWN,
    IDLES,
    OURS,
    PAPERS_DUPLEX,
    READINGS,
    SCHEDULERS,
    WEEK_S,
    Floats,
    Reading,
    both_wins,
    by_scheduler,
    facts,
    measured,
    platforms,
    representative_week,
)
from hpcosim_papers.studies import study
from hpcosim_papers.studies.study import (
    Request,
    Study,
    carry_out,
    experiment_file,
    plan,
    simulate_again,
)
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_sim.record.run_record import node_spans
from hpcosim_view.figure import COLOURS
from hpcosim_view.run.extracts import sums
from hpcosim_workloads.table import JobTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Line = tuple[Floats, Floats]
FAMILY_COLOURS = (COLOURS[0], COLOURS[2], *[COLOURS[1]] * 3, *[COLOURS[3]] * 3, *[COLOURS[4]] * 3)
"""Colours of `SCHEDULERS`: the paper's two, chained, immediate and batch heuristics."""

CURVE_COLOURS = (COLOURS[1], COLOURS[4], COLOURS[0], COLOURS[2])


def summary(rows: Rows, known: Sequence[str]) -> str:
    """Return the published and reproduced changes, the medians, and the wins, as Markdown."""
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
    return study.change(of[scheduler], float(np.mean([of[name] for name in baseline])))


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


class WeekCurves(NamedTuple):
    """Energy and jobs over the time of a week under a scheduler.

    Attributes:
        energy_kwh: time in h and cumulative energy in kWh, by interpretation of idle power.
        jobs: time in h and number of jobs, by state of the jobs.
    """

    label: str
    makespan_h: float
    energy_kwh: Mapping[str, Line]
    jobs: Mapping[str, Line]


def draw_boxes(path: Path, rows: Rows, cap: str) -> None:
    """Draw box plots over weeks (figure 2 of the paper) for a cap."""
    with _axes(path, f"Each week's results; {CAPS[cap]}", *GRID) as all_axes:
        for axes, reading in zip(all_axes, DRAWN, strict=False):
            values = by_scheduler(where(rows, cap=cap), reading.column)
            scaled = [values[name] / reading.measure.scale for name in SCHEDULERS]
            box_plots(axes, scaled, FAMILY_COLOURS)
            _name(axes, reading, reading.measure.unit)


def draw_wins(path: Path, rows: Rows, cap: str) -> None:
    """Draw the number of wins (figure 3), among the paper's five schedulers and among all."""
    with _axes(path, f"Weeks in which each is the best; {CAPS[cap]}", *GRID) as all_axes:
        for axes, reading in zip(all_axes, DRAWN, strict=False):
            five, every = both_wins(where(rows, cap=cap), reading)
            counts = np.array([[five.get(name, 0), every[name]] for name in SCHEDULERS])
            bars = _draw_counts(axes, counts)
            _name(axes, reading, "weeks")
        all_axes[0].legend(
            bars,
            ["of the paper's five", "of all"],
            loc="lower right",
            bbox_to_anchor=(1.03, 0.99),
            ncols=2,
            fontsize=7,
            columnspacing=1,
            handlelength=1.5,
            frameon=False,
        )


def _draw_counts(axes: Axes, counts: Any) -> list[Any]:
    at = np.arange(1, len(counts) + 1)
    five = axes.bar(at - 0.2, counts[:, 0], 0.4, color=FAMILY_COLOURS, edgecolor=FAMILY_COLOURS)
    every = axes.bar(
        at + 0.2, counts[:, 1], 0.4, color="white", edgecolor=FAMILY_COLOURS, linewidth=1.2
    )
    for bars, column in ((five, 0), (every, 1)):
        texts = [f"{count:.0f}" if count else "" for count in counts[:, column]]
        axes.bar_label(bars, texts, fontsize=5.5)
    axes.set_ylim(0, 1.12 * max(counts.max(), 1))
    return [five, every]


def draw_week(out: Path, cap: str, runs: Mapping[Label, PlannedRun]) -> None:
    """Draw the paper's figures 4 and 5 for the week of these runs, by scheduler."""
    shown = (PAPERS_DUPLEX, "duplex", *OURS)
    curves = [curve_of(runs[scheduler]) for scheduler in shown]
    title = f"week {runs[PAPERS_DUPLEX].labels['week']}; {CAPS[cap]}"
    _draw_energy(out / f"energy-{cap}.png", f"Energy so far, {title}", curves)
    _draw_jobs(out / f"jobs-{cap}.png", f"Jobs in the system, {title}", curves)


def curve_of(run: PlannedRun) -> WeekCurves:
    """Return the curves of a week under a scheduler."""
    record = simulate_again(run).simulation.record()
    recording, start_s, end_s = record.recording, record.start_s, record.end_s
    ones = np.ones(len(recording))
    came, began = np.array(recording.submit_s), np.array(recording.start_s)
    ended = np.array(recording.end_s)
    energy_kwh = {}
    for idle, platform in platforms(record.platform).items():
        spans = list(node_spans(dataclasses.replace(record, platform=platform)))
        span_w = np.array([span.power_w * len(span.nodes) for span in spans])
        from_s = np.array([span.start_s for span in spans])
        to_s = np.array([span.end_s for span in spans])
        at_s, power_w = sums(np.concatenate([from_s, to_s]), np.concatenate([span_w, -span_w]))
        spent_j = np.concatenate([[0.0], np.cumsum(power_w[:-1] * np.diff(at_s))])
        energy_kwh[IDLES[idle]] = ((at_s - start_s) / 3600, spent_j / 3.6e6)
    counts = {}
    for state, more, fewer in (("running", began, ended), ("queued", came, began)):
        at_s, count = sums(np.concatenate([more, fewer]), np.concatenate([ones, -ones]))
        counts[state] = ((at_s - start_s) / 3600, count)
    label = SCHEDULERS[str(run.labels["scheduler"])]
    return WeekCurves(label, (end_s - start_s) / 3600, energy_kwh, counts)


def _draw_energy(path: Path, title: str, curves: Sequence[WeekCurves]) -> None:
    """Draw cumulative energy, a panel per interpretation of idle power (figure 4)."""
    readings = list(curves[0].energy_kwh)
    with _axes(path, title, 1, len(readings), (11.0, 4.5)) as all_axes:
        for axes, reading in zip(all_axes, readings, strict=True):
            for curve, colour in zip(curves, CURVE_COLOURS, strict=False):
                hours, energy_kwh = curve.energy_kwh[reading]
                axes.plot(hours, energy_kwh, color=colour, label=curve.label)
                axes.plot(hours[-1:], energy_kwh[-1:], "o", color=colour, markersize=5)
            _over_time(axes, reading)
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.set_ylabel("energy (kWh)")
        all_axes[0].legend(fontsize=8)


def _draw_jobs(path: Path, title: str, curves: Sequence[WeekCurves]) -> None:
    """Draw running and queued jobs over time, with a dot at the makespan (figure 5)."""
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


GRID = ((len(DRAWN) + 3) // 4, 4, (15.0, 8.0))


@contextmanager
def _axes(
    path: Path, title: str, rows: int, columns: int, size: tuple[float, float], shared: bool = False
) -> Iterator[list[Any]]:
    """Yield the panels of a figure with a title."""
    style = {"font.size": 9}
    with panels(
        path, rows, columns, size, style=style, dpi=100, sharex=shared, sharey=shared
    ) as all_axes:
        yield all_axes
        all_axes[0].figure.suptitle(title)


def _name(axes: Axes, reading: Reading, unit: str) -> None:
    """Set the title and axis labels of a panel."""
    labels = list(SCHEDULERS.values())
    axes.set_xticks(range(1, len(labels) + 1), labels, rotation=90, fontsize=7)
    axes.set_title(reading.named, loc="left", fontsize=9)
    axes.set_ylabel(unit)
    axes.grid(axis="y", color=PALE, linewidth=0.5)
    axes.set_axisbelow(True)


def _over_time(axes: Axes, title: str) -> None:
    axes.axvline(WEEK_S / 3600, color="#999999", linewidth=0.8, linestyle=":")
    axes.set_xlabel("hours since the week's first submission; dotted: 168 h")
    axes.set_title(title, loc="left", fontsize=9)
    axes.grid(color="#eeeeee", linewidth=0.5)
