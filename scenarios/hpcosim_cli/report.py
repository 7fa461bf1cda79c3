"""Results and scenarios as tables for people, and as JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.planning.cheapest_switching import CheapestPlan
from hpcosim_scenarios.running.progress import span
from hpcosim_server.physics.allocation import impossible
from hpcosim_server.physics.cluster import Cluster
from hpcosim_server.record.results import to_json
from hpcosim_workloads.table import JobTable

Metrics = Mapping[str, int | float]

MOST_COLUMNS = 8
MAIN_METRICS = ("makespan_s", "mean_wait_s", "mean_bounded_slowdown", "energy_j", "edp_js")


def print_metrics(metrics: Metrics, *, as_json: bool) -> None:
    """Print the metrics of a run."""
    if as_json:
        sys.stdout.write(to_json(metrics))
    else:
        _print_table({"value": metrics})


def print_warning(warning: str) -> None:
    """Print a warning on standard error."""
    sys.stderr.write(f"warning: {warning}\n")


def print_plan(plan: CheapestPlan, *, as_json: bool) -> None:
    """Print the energies of an oracle's plan, named as the metrics of a run that follows it."""
    metrics: Metrics = {
        "wasted_energy_j": plan.wasted_j,
        "idle_energy_j": plan.idle_j,
        "sleeping_energy_j": plan.sleeping_j,
        "switching_on_energy_j": plan.switching_on_j,
        "switching_off_energy_j": plan.switching_off_j,
        "node_shutdowns": plan.shutdowns,
    }
    print_metrics(metrics, as_json=as_json)


def print_comparison(metrics: Mapping[str, Metrics], *, as_json: bool) -> None:
    """Print the metrics of several runs: a column each, or of many, a line with the main ones."""
    if as_json:
        sys.stdout.write(to_json(metrics))
    elif len(metrics) <= MOST_COLUMNS:
        _print_table(metrics)
    else:
        _print_lines(metrics)


def print_summary(scenario: Scenario, jobs: JobTable, scheduler: str) -> None:
    """Print what a scenario holds.

    Args:
        scenario: the scenario.
        jobs: its jobs.
        scheduler: the name of its scheduler in results.
    """
    platform = scenario.platform
    span_s = float(jobs.submit_s[-1] - jobs.submit_s[0])
    cluster = Cluster(platform, 0.0)
    impossible_jobs = sum(bool(impossible(cluster, job)) for job in jobs.rows())
    work_core_s = float(jobs.cores @ jobs.run_s)
    rows = {
        "scenario": scenario.name,
        "scheduler": scheduler,
        "nodes": f"{platform.node_count:,}",
        "cores": f"{platform.core_count:,}",
        "jobs": f"{len(jobs):,}",
        "jobs that no node could run": f"{impossible_jobs:,}",
        "span of submissions": span(span_s),
        "offered load": f"{work_core_s / (platform.core_count * span_s):.3f}" if span_s else "-",
    }
    rows |= {f"rule: {rule}": f"{count:,}" for rule, count in jobs.skipped.items()}
    table = Table(show_header=False, box=None)
    for name, value in rows.items():
        table.add_row(name, value)
    Console().print(table)


def number(value: float) -> str:
    """Return a number for people."""
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0 or 1e-3 <= abs(value) < 1e15:
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return f"{value:.6g}"


def _print_table(columns: Mapping[str, Metrics]) -> None:
    table = Table()
    table.add_column("metric")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for metric in next(iter(columns.values())):
        table.add_row(metric, *(number(column[metric]) for column in columns.values()))
    # In a pipe a table must not be cut off at the width of a terminal.
    Console(width=None if sys.stdout.isatty() else 24 + 26 * (1 + len(columns))).print(table)


def _print_lines(runs: Mapping[str, Metrics]) -> None:
    table = Table("scheduler")
    for metric in MAIN_METRICS:
        table.add_column(metric, justify="right", no_wrap=True)
    for name, metrics in runs.items():
        table.add_row(name, *(number(metrics[metric]) for metric in MAIN_METRICS))
    Console(width=None if sys.stdout.isatty() else 140).print(table)
