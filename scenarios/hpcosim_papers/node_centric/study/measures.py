"""The measures of the study, as functions of the record of a run."""

from __future__ import annotations

import dataclasses

import numpy as np
from msgspec.structs import replace

from hpcosim_papers.node_centric.study.paper import IDLE_W, IDLES, Floats
from hpcosim_protocol import Platform
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_sim.record.timeline import node_spans
from hpcosim_workloads.table import JobTable


def measured(record: RunRecord, jobs: JobTable) -> dict[str, float]:
    """Return all measures of a run in all interpretations."""
    makespan_s = record.end_s - record.start_s
    values = {"makespan_s": makespan_s, **waits(record, jobs)}
    for idle, platform in platforms(record.platform).items():
        all_on_j, untouched_off_j = energies_j(record, platform)
        values[f"energy_{idle}_j"] = all_on_j
        values[f"energy_{idle}_untouched_j"] = untouched_off_j
    for idle in IDLES:
        values[f"edp_{idle}_js"] = values[f"energy_{idle}_j"] * makespan_s
    return values


def waits(record: RunRecord, jobs: JobTable) -> dict[str, float]:
    """Return mean wait and mean slowdown, (wait + run time) / t_b (section 3).

    t_b is the time of the job alone on the slowest node, in two interpretations: the requested time
    and the run time. The run times of the log are those on the slowest node. Jobs with t_b = 0 are
    excluded from the slowdown.
    """
    recording = record.recording
    submit_s, start_s = np.array(recording.submit_s), np.array(recording.start_s)
    response_s = np.array(recording.end_s) - submit_s
    return {
        "mean_wait_s": float((start_s - submit_s).mean()),
        "slowdown_requested": _mean_ratio(response_s, jobs.requested_s),
        "slowdown_run": _mean_ratio(response_s, jobs.run_s),
    }


def platforms(platform: Platform) -> dict[str, Platform]:
    """Return the platform in each interpretation of idle power."""
    groups = []
    for group in platform.nodes:
        share_w = IDLE_W / len(group.processors)
        processors = tuple(
            replace(each, idle_fraction=share_w / each.static_w) for each in group.processors
        )
        groups.append(replace(group, processors=processors))
    return {"fraction": platform, "watts": replace(platform, nodes=tuple(groups))}


def energies_j(record: RunRecord, platform: Platform) -> tuple[float, float]:
    """Return the energy of a schedule on a platform with other power settings.

    The schedules are independent of idle power, so one simulation serves every interpretation.

    Returns:
        The energy of all nodes in J, and its part after the first task of each node.
    """
    total_j = untouched_j = 0.0
    touched: set[int] = set()
    for span in node_spans(dataclasses.replace(record, platform=platform)):
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
