"""Simulations of single weeks of the log."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from hpcosim_protocol import Platform
from hpcosim_server.engine.simulation import Simulation
from hpcosim_server.record.timeline import node_spans
from hpcosim_studies.node_centric.paper import (
    DIVISOR,
    IDLE_W,
    IDLES,
    MOST_CORES,
    SCHEDULERS,
    WEEK_S,
    WHOLE_LOG,
    Floats,
    base,
)
from hpcosim_studies.runs import StudyRun, simulate
from hpcosim_workloads import shaping
from hpcosim_workloads.table import JobTable


def capped(jobs: JobTable, cap: str) -> JobTable:
    """Return the jobs, fitted into one node by a cap of `CAPS`."""
    if cap == "eighth":
        jobs = shaping.divide_cores(jobs, DIVISOR)
    return shaping.cap_cores(jobs, MOST_CORES)


def weeks_of(jobs: JobTable) -> Iterator[tuple[int, JobTable]]:
    """Yield number and jobs of each week with jobs; weeks count from the first submission.

    The times of a week are relative to its own first submission.
    """
    first_s, last_s = float(jobs.submit_s[0]), float(jobs.submit_s[-1])
    for week in range(int((last_s - first_s) // WEEK_S) + 1):
        from_s, to_s = first_s + week * WEEK_S, first_s + (week + 1) * WEEK_S
        if ((jobs.submit_s >= from_s) & (jobs.submit_s < to_s)).any():
            yield week, shaping.window_by_time(jobs, from_s, to_s)


def runs_of(jobs: JobTable, cap: str) -> list[StudyRun]:
    """Return a run per week and scheduler for a cap."""
    return [
        StudyRun(
            base(),
            {"cap": cap, "week": week, "scheduler": scheduler, "jobs": len(part)},
            scheduler,
            WHOLE_LOG,
            jobs=part,
        )
        for week, part in weeks_of(capped(jobs, cap))
        for scheduler in SCHEDULERS
    ]


def measured(run: StudyRun) -> dict[str, float]:
    """Simulate a week under a scheduler, and return all measures in all interpretations."""
    simulation, _, jobs = simulate(run)
    makespan_s = simulation.now_s - simulation.start_s
    values = {"makespan_s": makespan_s, **waits(simulation, jobs)}
    for idle, platform in platforms(simulation.cluster.platform).items():
        all_on_j, untouched_off_j = energies_j(simulation, platform)
        values[f"energy_{idle}_j"] = all_on_j
        values[f"energy_{idle}_untouched_j"] = untouched_off_j
    for idle in IDLES:
        values[f"edp_{idle}_js"] = values[f"energy_{idle}_j"] * makespan_s
    return values


def waits(simulation: Simulation, jobs: JobTable) -> dict[str, float]:
    """Return mean wait and mean slowdown, (wait + run time) / t_b (section 3).

    t_b is the time of the job alone on the slowest node, in two interpretations: the requested time
    and the run time. The run times of the log are those on the slowest node. Jobs with t_b = 0 are
    excluded from the slowdown.
    """
    recording = simulation.recording
    submit_s, start_s = np.array(recording.submit_s), np.array(recording.start_s)
    response_s = np.array(recording.end_s) - submit_s
    return {
        "mean_wait_s": float((start_s - submit_s).mean()),
        "slowdown_requested": _mean_ratio(response_s, jobs.requested_s),
        "slowdown_run": _mean_ratio(response_s, jobs.run_s),
    }


def platforms(platform: Platform) -> dict[str, Platform]:
    """Return the platform in each interpretation of idle power."""
    groups = tuple(
        replace(
            group,
            processors=tuple(
                replace(
                    processor,
                    idle_fraction=IDLE_W / len(group.processors) / processor.static_w,
                )
                for processor in group.processors
            ),
        )
        for group in platform.nodes
    )
    return {"fraction": platform, "watts": replace(platform, nodes=groups)}


def energies_j(simulation: Simulation, platform: Platform) -> tuple[float, float]:
    """Return the energy of a schedule on a platform with other power settings.

    The schedules are independent of idle power, so one simulation serves every interpretation.

    Returns:
        The energy of all nodes in J, and its part after the first task of each node.
    """
    total_j = untouched_j = 0.0
    touched: set[int] = set()
    for span in node_spans(dataclasses.replace(simulation.record(), platform=platform)):
        node_j = span.power_w * (span.end_s - span.start_s)
        total_j += node_j * len(span.nodes)
        if span.state == "computing":
            touched.update(span.nodes)
        else:
            untouched_j += node_j * sum(node not in touched for node in span.nodes)
    return total_j, total_j - untouched_j


def _mean_ratio(above: Floats, below: Floats) -> float:
    some = below > 0
    return float((above[some] / below[some]).mean()) if some.any() else 0.0
