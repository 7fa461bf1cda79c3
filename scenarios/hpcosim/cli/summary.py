"""The summary of a scenario that `hpcosim validate` prints."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import msgspec
import numpy as np
from rich.table import Table

from hpcosim.cli.printing import print_table, print_warning
from hpcosim_protocol import Platform
from hpcosim_protocol.hosts import NodeNames
from hpcosim_protocol.node_access import numbers_in
from hpcosim_scenarios.model.jobs import offered_load
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.series import Economics
from hpcosim_scenarios.model.workload import Workload
from hpcosim_scenarios.running.in_process import span
from hpcosim_scenarios.running.run import Checked
from hpcosim_schedulers.catalogue.scheduler_settings import unstartable_jobs
from hpcosim_sim.engine.jobs import submission_of
from hpcosim_sim.physics.allocation import infeasibility
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.record.metrics import TIMER_ERROR_S
from hpcosim_sim.record.results import KEPT_RULES, WorkloadSource, to_json
from hpcosim_workloads.table import NAMED, JobTable

MOST_NAMED = 5  # jobs that a warning lists
MOST_REASONS = 3  # reasons that a warning lists


RATES = (
    ("electricity price", "price_per_kwh", "tariff", "{currency}/kWh"),
    ("carbon intensity", "co2_g_per_kwh", "series", "g/kWh"),
)
"""Label, key of the constant, key of the file, and unit of each rate."""


MOST_SHOWN = 60  # characters of a host list


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
    scenario, jobs, source, chosen, _, engine = checked
    platform, skipped = scenario.platform, jobs.skipped
    infeasible, unstartable = _infeasible(checked), _unstartable(checked)
    return {
        "scenario": scenario.name,
        "scheduler": chosen.title,
        "seed": scenario.seed,
        "engine": "compiled" if engine.is_compiled else "reference",
        "engine_because": engine.why,
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
        "engine": f"{summary['engine']}: {summary['engine_because']}",
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


def economics_of(economics: Economics | None) -> dict[str, Any]:
    """Return the given keys of the section by name; empty: the scenario has none."""
    if economics is None:
        return {}
    given = ((key, getattr(economics, key)) for key in Economics.__struct_fields__)
    return {key: value for key, value in given if value is not None}


def economics_lines(given: dict[str, Any]) -> dict[str, str]:
    """Return the lines of the table, by label."""
    lines = {}
    for label, constant, file, unit in RATES:
        unit = unit.format(currency=given.get("currency", ""))
        if constant in given:
            lines[label] = f"{given[constant]:g} {unit}"
        elif file in given:
            lines[label] = f"{given[file]}, {unit}"
            if period_s := given.get(f"{file}_repeat_s"):
                lines[label] += f", repeated every {period_s:,g} s"
    if "start" in given:
        lines["date of time 0"] = given["start"]
    return lines


def site_of(scenario: Scenario, jobs: JobTable) -> dict[str, Any]:
    """Return partitions, reservations, resources, failures and actions by name."""
    platform, failures = scenario.platform, scenario.failures
    names = NodeNames(platform)
    return {
        "consumable": list(platform.consumable),
        "gres": _gres(platform),
        "licenses": dict(platform.licenses),
        "partitions": {
            each.name: names.text(numbers_in(each.nodes)) for each in platform.partitions
        },
        "reservations": {
            each.name: names.text(numbers_in(each.nodes)) for each in platform.reservations
        },
        "switches": len(platform.switches),
        "node_events": len(failures.events) if failures else 0,
        "random_failures": len(failures.random) if failures else 0,
        "actions": len(scenario.actions),
        "jobs_with_requests": int((jobs.request >= 0).sum()),
        "names_in_jobs": {name: _used(jobs, name) for name in NAMED},
    }


def _gres(platform: Platform) -> dict[str, int]:
    total: dict[str, int] = {}
    for group in platform.nodes:
        for name, count in group.gres.items():
            total[name] = total.get(name, 0) + count * group.count
    return total


def _used(jobs: JobTable, column: str) -> int:
    """Return how many names of a column the jobs have."""
    return len(set(getattr(jobs, column).tolist()) - {0})


def site_lines(site: dict[str, Any]) -> dict[str, str]:
    """Return the lines of the table by label; what the scenario does not have is left out."""
    lines = {}
    if site["consumable"] != ["cores"]:
        lines["consumable"] = ", ".join(site["consumable"]) or "nodes"
    for kind, label in (("gres", "devices"), ("licenses", "licences")):
        for name, count in site[kind].items():
            lines[f"{label} {name}"] = f"{count:,}"
    for kind in ("partition", "reservation"):
        for name, nodes in site[f"{kind}s"].items():
            more = "..." if len(nodes) > MOST_SHOWN else ""
            lines[f"{kind} {name}"] = f"{nodes[:MOST_SHOWN]}{more}"
    counts = {key.replace("_", " "): value for key, value in site.items() if isinstance(value, int)}
    counts |= {f"{name} names in jobs": n for name, n in site["names_in_jobs"].items()}
    return lines | {label: f"{count:,}" for label, count in counts.items() if count}
