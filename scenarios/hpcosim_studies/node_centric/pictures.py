"""The paper's figures 2 to 5, from all weeks and from one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hpcosim_scenarios.figures.schedule import steps
from hpcosim_server.record.timeline import node_spans
from hpcosim_studies.node_centric.comparison import by_scheduler
from hpcosim_studies.node_centric.figures import (
    Curve,
    Panel,
    draw_boxes,
    draw_energy,
    draw_jobs,
    draw_wins,
)
from hpcosim_studies.node_centric.readings import (
    CAPS,
    DRAWN,
    IDLES,
    OURS,
    PAPERS_DUPLEX,
    SCHEDULERS,
    Row,
    Task,
)
from hpcosim_studies.node_centric.tables import both_wins, named
from hpcosim_studies.node_centric.weeks import platforms, simulated


def draw_cap(out: Path, cap: str, rows: Sequence[Row]) -> None:
    """Draw the paper's figures 2 and 3 for a reading of the cap."""
    boxes, counts = [], []
    for measure in DRAWN:
        values = by_scheduler(rows, cap, measure.column)
        labelled = {SCHEDULERS[name]: values[name] / measure.scale for name in SCHEDULERS}
        boxes.append(Panel(named(measure), measure.unit, labelled))
        five, every = both_wins(rows, cap, measure)
        both = {
            label: np.array([five.get(name, 0), every[name]], dtype=np.float64)
            for name, label in SCHEDULERS.items()
        }
        counts.append(Panel(named(measure), "weeks", both))
    draw_boxes(out / f"boxes-{cap}.png", f"Each week's results; {CAPS[cap]}", boxes)
    draw_wins(out / f"wins-{cap}.png", f"Weeks in which each is the best; {CAPS[cap]}", counts)


def draw_week(out: Path, cap: str, tasks: Sequence[Task]) -> None:
    """Draw the paper's figures 4 and 5 for the week of these tasks."""
    shown_here = (PAPERS_DUPLEX, "duplex", *OURS)
    curves = [curve(task) for name in shown_here for task in tasks if task.scheduler == name]
    title = f"week {tasks[0].week}; {CAPS[cap]}"
    draw_energy(out / f"energy-{cap}.png", f"Energy so far, {title}", curves)
    draw_jobs(out / f"jobs-{cap}.png", f"Jobs in the system, {title}", curves)


def curve(task: Task) -> Curve:
    """Return how a week goes under a scheduler."""
    simulation = simulated(task)
    record = simulation.record()
    recording, start_s, end_s = record.recording, record.start_s, record.end_s
    ones = np.ones(len(recording))
    came, began = np.array(recording.submit_s), np.array(recording.start_s)
    ended = np.array(recording.end_s)
    energy_kwh = {}
    for idle, platform in platforms(task.scenario.platform).items():
        spans = list(node_spans(replace(record, platform=platform)))
        span_w = np.array([span.power_w * len(span.nodes) for span in spans])
        from_s = np.array([span.start_s for span in spans])
        to_s = np.array([span.end_s for span in spans])
        at_s, power_w = steps(np.concatenate([from_s, to_s]), np.concatenate([span_w, -span_w]))
        spent_j = np.concatenate([[0.0], np.cumsum(power_w[:-1] * np.diff(at_s))])
        energy_kwh[IDLES[idle]] = ((at_s - start_s) / 3600, spent_j / 3.6e6)
    counts = {}
    for what, more, fewer in (("running", began, ended), ("queued", came, began)):
        at_s, count = steps(np.concatenate([more, fewer]), np.concatenate([ones, -ones]))
        counts[what] = ((at_s - start_s) / 3600, count)
    return Curve(SCHEDULERS[task.scheduler], (end_s - start_s) / 3600, energy_kwh, counts)
