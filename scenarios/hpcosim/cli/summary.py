"""The summary of a scenario that `hpcosim validate` prints."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import msgspec
import numpy as np
from rich.table import Table

from hpcosim.cli.economics_summary import economics_lines, economics_of
from hpcosim.cli.report import print_table, print_warning
from hpcosim.cli.site_summary import site_lines, site_of
from hpcosim_scenarios.model.load import offered_load
from hpcosim_scenarios.model.workload import Workload
from hpcosim_scenarios.running.progress import span
from hpcosim_scenarios.running.run import Checked
from hpcosim_schedulers.catalogue.site_policies import unstartable_jobs
from hpcosim_sim.engine.jobs import submission_of
from hpcosim_sim.physics.allocation import infeasibility
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.record.metrics import TIMER_ERROR_S
from hpcosim_sim.record.results import KEPT_RULES, WorkloadSource, to_json

MOST_NAMED = 5  # jobs that a warning lists
MOST_REASONS = 3  # reasons that a warning lists


def print_summary(checked: Checked, *, as_json: bool) -> None:
    """Print the summary of a valid scenario, and its warnings on standard error."""
    summary = summary_of(checked)
    for warning in _warnings(checked, summary):
        print_warning(warning)
    if as_json:
        sys.stdout.write(to_json(summary))
        return
    table = Table(show_header=False, box=None)
    kill = checked.scenario.kill_at_walltime
    for name, value in _lines(summary, kill_at_walltime=kill).items():
        table.add_row(name, value)
    print_table(table)


def summary_of(checked: Checked) -> dict[str, Any]:
    """Return the content of a scenario by name; units are in the names."""
    scenario, jobs, source, chosen, _ = checked
    platform, skipped = scenario.platform, jobs.skipped
    infeasible, unstartable = _infeasible(checked), _unstartable(checked)
    return {
        "scenario": scenario.name,
        "scheduler": chosen.title,
        "seed": scenario.seed,
        "nodes": platform.node_count,
        "cores": platform.core_count,
        "workload": _origin(scenario.workload, source),
        "jobs_read": source.jobs_read,
        "jobs": len(jobs),
        "infeasible_jobs": len(infeasible),
        "first_infeasible_jobs": list(infeasible)[:MOST_NAMED],
        "infeasible_reasons": _reasons(infeasible),
        "unstartable_jobs": len(unstartable),
        "first_unstartable_jobs": list(unstartable)[:MOST_NAMED],
        "unstartable_reasons": _reasons(unstartable),
        "jobs_over_requested_time": _over_requested_time(checked, slowest=True),
        "jobs_over_on_fastest_nodes": _over_requested_time(checked, slowest=False),
        "submission_span_s": float(jobs.submit_s[-1] - jobs.submit_s[0]),
        "offered_load": offered_load(jobs, platform, scenario.workload.reference_clock_ghz),
        "dropped_jobs": {rule: n for rule, n in skipped.items() if rule not in KEPT_RULES},
        "changed_jobs": {rule: n for rule, n in skipped.items() if rule in KEPT_RULES},
        "economics": economics_of(scenario.economics),
        "site": site_of(scenario, jobs),
    }


def _origin(workload: Workload, source: WorkloadSource) -> str:
    """Return the kind of a workload with its model and file: `swf log.swf`."""
    model = "" if workload.synthetic is None else str(workload.synthetic.__struct_config__.tag)
    return " ".join(filter(None, (source.kind, model, source.file)))


def _infeasible(checked: Checked) -> dict[int, str]:
    """Return why jobs can never run on the platform, by job number."""
    cluster = Cluster(checked.scenario.platform, 0.0)
    reasons = ((job.job_id, infeasibility(cluster, job)) for job in checked.jobs.rows())
    return {number: reason for number, reason in reasons if reason}


def _unstartable(checked: Checked) -> dict[int, str]:
    """Return why limits of the site never let jobs start, by job number."""
    chosen, rows = checked.chosen, checked.jobs.rows()
    settings = msgspec.json.decode(chosen.settings, type=dict[str, object])
    events = (submission_of(job) for job in rows)
    return unstartable_jobs(chosen.name, settings, checked.scenario.platform, events)


def _reasons(infeasible: dict[int, str]) -> dict[str, int]:
    """Return the number of jobs of each reason, the most frequent first."""
    return dict(Counter(infeasible.values()).most_common(MOST_REASONS))


def _over_requested_time(checked: Checked, *, slowest: bool) -> int:
    """Return the number of jobs that need more than their requested time, without contention.

    A requested time is wall time on every node; run times depend on the speed of the nodes.

    Args:
        checked: the scenario and its jobs.
        slowest: whether the jobs run on the slowest cores of the platform, else on the fastest.
    """
    scenario, jobs = checked.scenario, checked.jobs
    speeds = [
        processor.ops_per_s for group in scenario.platform.nodes for processor in group.processors
    ]
    ops_per_s = min(speeds) if slowest else max(speeds)
    reference_ghz = scenario.workload.reference_clock_ghz
    scale = 1.0 if reference_ghz is None else reference_ghz * 1e9 / ops_per_s
    run_s = np.where(jobs.ops > 0.0, jobs.ops / ops_per_s, jobs.run_s * scale)
    return int(np.sum(run_s > jobs.requested_s + TIMER_ERROR_S))


def _warnings(checked: Checked, summary: dict[str, Any]) -> list[str]:
    found = [*checked.warnings]
    for kind, what in (
        ("infeasible", "can never run on the platform and will be rejected"),
        ("unstartable", f"can never start under the limits of {summary['scheduler']}"),
    ):
        if jobs := summary[f"{kind}_jobs"]:
            named = ", ".join(map(str, summary[f"first_{kind}_jobs"]))
            more = ", ..." if jobs > MOST_NAMED else ""
            reasons = "; ".join(
                f"{reason} ({count} job{'s' * (count > 1)})"
                for reason, count in summary[f"{kind}_reasons"].items()
            )
            found.append(f"{jobs} of {len(checked.jobs)} jobs {what}: {named}{more}: {reasons}")
    return found


def _lines(summary: dict[str, Any], *, kill_at_walltime: bool) -> dict[str, str]:
    """Return the lines of the table, by label."""
    load, over = summary["offered_load"], summary["jobs_over_requested_time"]
    always = summary["jobs_over_on_fastest_nodes"]
    advice = f" on the slowest nodes, {always:,} on the fastest" if over != always else ""
    if over:
        advice += f"; kill_at_walltime: {'true ends' if kill_at_walltime else 'false lets'} them"
        advice += " at the requested time" if kill_at_walltime else " run to their end"
    lines = {
        "scenario": summary["scenario"],
        "scheduler": summary["scheduler"],
        "seed": str(summary["seed"]),
        "nodes": f"{summary['nodes']:,}",
        "cores": f"{summary['cores']:,}",
        "workload": summary["workload"],
        "usable jobs in the source": f"{summary['jobs_read']:,}",
        "jobs": f"{summary['jobs']:,}",
        "jobs that can never run": f"{summary['infeasible_jobs']:,}",
        "jobs that limits never let start": f"{summary['unstartable_jobs']:,}",
        "jobs over the requested time": f"{over:,}{advice}",
        "first to last submission": span(summary["submission_span_s"]),
        "offered load": "undefined" if load is None else f"{load:.3f}",
    }
    for kind in ("dropped", "changed"):
        for rule, count in summary[f"{kind}_jobs"].items():
            lines[f"{kind} jobs, {rule}"] = f"{count:,}"
    return lines | economics_lines(summary["economics"]) | site_lines(summary["site"])
