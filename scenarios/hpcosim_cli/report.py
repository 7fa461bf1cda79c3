"""Metrics and scenarios as tables for people and as JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.planning.cheapest_switching import CheapestPlan
from hpcosim_scenarios.running.progress import span
from hpcosim_server.physics.allocation import infeasibility
from hpcosim_server.physics.cluster import Cluster
from hpcosim_server.record.results import to_json
from hpcosim_workloads.table import JobTable

Metrics = Mapping[str, int | float]

MAX_COLUMNS = 8
MAIN_METRICS = ("makespan_s", "mean_wait_s", "mean_bounded_slowdown", "energy_j", "edp_js")
UNBOUNDED = 10_000  # characters: wider than any table


def print_metrics(metrics: Metrics, *, as_json: bool) -> None:
    """Print the metrics of a run."""
    if as_json:
        sys.stdout.write(to_json(metrics))
    else:
        _print(_by_metric({"value": metrics}))


def print_warning(warning: str) -> None:
    """Print a warning on standard error."""
    sys.stderr.write(f"warning: {warning}\n")


def print_plan(plan: CheapestPlan, *, as_json: bool) -> None:
    """Print the energies of an oracle's plan, named like the metrics of a run that follows it."""
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
    """Print the metrics of several runs.

    The table has a column per run. For many runs, or a terminal that is too narrow, it has a row
    per run with the main metrics.
    """
    if as_json:
        sys.stdout.write(to_json(metrics))
        return
    table = _by_metric(metrics)
    fits = not sys.stdout.isatty() or _width(table) <= Console().width
    _print(table if fits and len(metrics) <= MAX_COLUMNS else _by_run(metrics))


def print_summary(scenario: Scenario, jobs: JobTable, scheduler: str) -> None:
    """Print a summary of a scenario.

    Args:
        scenario: the scenario.
        jobs: its jobs.
        scheduler: the name of its scheduler in results.
    """
    platform = scenario.platform
    span_s = float(jobs.submit_s[-1] - jobs.submit_s[0])
    cluster = Cluster(platform, 0.0)
    impossible_jobs = sum(bool(infeasibility(cluster, job)) for job in jobs.rows())
    work_core_s = float(jobs.cores @ jobs.run_s)
    rows = {
        "scenario": scenario.name,
        "scheduler": scheduler,
        "nodes": f"{platform.node_count:,}",
        "cores": f"{platform.core_count:,}",
        "jobs": f"{len(jobs):,}",
        "jobs larger than the platform": f"{impossible_jobs:,}",
        "first to last submission": span(span_s),
        "offered load": f"{work_core_s / (platform.core_count * span_s):.3f}" if span_s else "-",
    }
    rows |= {f"jobs by rule {rule}": f"{count:,}" for rule, count in jobs.skipped.items()}
    table = Table(show_header=False, box=None)
    for name, value in rows.items():
        table.add_row(name, value)
    _print(table)


def number(value: float) -> str:
    """Return a number with four significant digits or more; an integer as it is."""
    if isinstance(value, int) or value == 0:
        return f"{value:,.0f}"
    size = abs(value)
    if not 1e-3 <= size < 1e15:
        return f"{value:.4g}"
    decimals = next((places for places, least in enumerate((1000, 100, 10)) if size >= least), 3)
    return f"{value:,.{decimals}f}"


def unit(metric: str) -> str:
    """Return the unit that the suffix of a metric's name states; empty: it has none."""
    return {"s": "s", "j": "J", "js": "J s"}.get(metric.rpartition("_")[2], "")


def _by_metric(columns: Mapping[str, Metrics]) -> Table:
    """Return a table with a row per metric and a column per run."""
    table = Table("metric", "unit")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for metric in next(iter(columns.values())):
        table.add_row(metric, unit(metric), *(number(run[metric]) for run in columns.values()))
    return table


def _by_run(runs: Mapping[str, Metrics]) -> Table:
    """Return a table with a row per run and a column per main metric."""
    table = Table("scheduler")
    for metric in MAIN_METRICS:
        table.add_column(metric, justify="right", no_wrap=True)
    for name, metrics in runs.items():
        table.add_row(name, *(number(metrics[metric]) for metric in MAIN_METRICS))
    return table


def _print(table: Table) -> None:
    """Print a table at its full width: names and numbers are never cut off."""
    console = Console()
    console.width = max(_width(table), 1)
    console.print(table)


def _width(table: Table) -> int:
    """Return the width of a table in which nothing is cut off or wrapped, in characters."""
    console = Console(width=UNBOUNDED)
    return Measurement.get(console, console.options, table).maximum
