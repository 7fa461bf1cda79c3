"""Tables for people and JSON for programs: metrics, comparisons, plans and groups of jobs.

Importing rich and printing one table with it takes 60 ms, a fifth of a run of one job: only
functions that print coloured or wide tables import it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from hpcosim_scenarios.planning.cheapest_switching import CheapestPlan
    from hpcosim_scenarios.running.compare import Comparison, GroupedBy, Groups


Metrics = Mapping[str, int | float]

MAX_COLUMNS = 8
MAIN_METRICS = (
    "makespan_s",
    "mean_wait_s",
    "mean_bounded_slowdown",
    "energy_kwh",
    "energy_cost",
    "co2_kg",
    "edp_js",
    "jobs_timed_out",
)
MAIN_SAVINGS = (
    "saved_energy_kwh",
    "saved_energy_cost",
    "saved_co2_kg",
    "extra_mean_wait_s",
    "jobs_delayed",
    "longest_delay_s",
)
UNITS = {"s": "s", "w": "W", "j": "J", "js": "J s", "kwh": "kWh", "kg": "kg"}
DAY_S = 86_400.0
UNBOUNDED = 10_000  # characters: wider than any table


STYLED = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Environment variables that make rich treat a file as a terminal."""


MOST_ROWS = 20
"""Groups of a table; JSON has all."""


def print_metrics(metrics: Metrics, currency: str = "", *, as_json: bool) -> None:
    """Print the metrics of a run; the currency is the unit of costs."""
    if as_json:
        from hpcosim_sim.record.results import to_json

        sys.stdout.write(to_json(metrics))
        return
    rows = [(name, unit(name, currency), _shown(name, value)) for name, value in metrics.items()]
    text = plain_table(("metric", "unit", "value"), rows)
    if is_plain(sys.stdout, text):
        sys.stdout.write(text)
    else:
        print_table(_by_metric({"value": metrics}, currency))
    if outcome := _outcome(metrics):
        sys.stdout.write(f"{outcome}\n")


OUTCOMES = {
    "jobs_timed_out": "killed at their requested time",
    "jobs_killed": "killed",
    "jobs_failed": "failed",
    "jobs_cancelled": "cancelled",
    "jobs_preempted": "preempted",
    "jobs_deadline": "past their deadline",
    "jobs_rejected": "rejected",
}


def _outcome(metrics: Metrics) -> str:
    """Return the sentence on jobs that were not completed or overran; empty: there are none."""
    counts = {name: int(metrics.get(name, 0)) for name in OUTCOMES}
    counts["jobs_killed"] -= counts["jobs_timed_out"]
    parts = [f"{count:,} {OUTCOMES[name]}" for name, count in counts.items() if count]
    jobs, completed = int(metrics.get("jobs", 0)), int(metrics.get("jobs_completed", 0))
    if left := jobs - completed - sum(counts.values()):
        parts.append(f"{left:,} not over")
    sentences = []
    if parts:
        sentences.append(f"{completed:,} of {jobs:,} jobs completed; {', '.join(parts)}.")
    if over := metrics.get("jobs_over_requested_time"):
        sentences.append(f"{over:,} of {jobs:,} jobs ran longer than requested.")
    return " ".join(sentences)


def print_warning(warning: str) -> None:
    """Print a warning on standard error."""
    sys.stderr.write(f"warning: {warning}\n")


def print_plan(plan: CheapestPlan, *, as_json: bool) -> None:
    """Print the energies of an oracle's plan, named like the metrics of a run that follows it."""
    from hpcosim_sim.record.economics import J_PER_KWH

    metrics: Metrics = {
        "wasted_energy_j": plan.wasted_j,
        "wasted_energy_kwh": plan.wasted_j / J_PER_KWH,
        "idle_energy_j": plan.idle_j,
        "sleeping_energy_j": plan.sleeping_j,
        "switching_on_energy_j": plan.switching_on_j,
        "switching_off_energy_j": plan.switching_off_j,
        "node_shutdowns": plan.shutdowns,
    }
    print_metrics(metrics, as_json=as_json)


def print_comparison(compared: Comparison, currency: str = "", *, as_json: bool) -> None:
    """Print the metrics of several runs, and their savings if there is a baseline.

    The tables have a column per run. For many runs, or a terminal that is too narrow, a table has a
    row per run with the main metrics. In JSON, savings and groups are beside the metrics.
    """
    metrics = compared.metrics
    if as_json:
        from hpcosim_sim.record.results import to_json

        both: dict[str, dict[str, object]] = {
            name: {**each, **compared.savings.get(name, {})} for name, each in metrics.items()
        }
        for name, groups in compared.groups.items():
            both[name]["by"] = groups
        sys.stdout.write(to_json(both))
        return
    _print_runs(metrics, MAIN_METRICS, currency)
    if compared.savings:
        sys.stdout.write(f"\n{_scaling(compared)}\n")
        _print_runs(compared.savings, MAIN_SAVINGS, currency)


def _print_runs(runs: Mapping[str, Metrics], main: Sequence[str], currency: str) -> None:
    """Print the table of all metrics if it fits, or that of the main ones if it is narrower."""
    from rich.console import Console

    table, short = _by_metric(runs, currency), _by_run(runs, main, currency)
    fits = not sys.stdout.isatty() or _width(table) <= max(Console().width, _width(short))
    print_table(table if fits and len(runs) <= MAX_COLUMNS else short)


def number(value: float) -> str:
    """Return a number with four significant digits or more; an integer as it is."""
    if isinstance(value, int) or value == 0:
        return f"{value:,.0f}"
    size = abs(value)
    if not 1e-3 <= size < 1e15:
        return f"{value:.4g}"
    decimals = next((places for places, least in enumerate((1000, 100, 10)) if size >= least), 3)
    return f"{value:,.{decimals}f}"


def _shown(metric: str, value: float) -> str:
    return str(value) if metric.endswith("_id") else number(value)


def unit(metric: str, currency: str = "") -> str:
    """Return the unit that the suffix of a metric's name states; empty: it has none."""
    total, yearly, _ = metric.partition("_per_year")
    suffix = total.rpartition("_")[2]
    return UNITS.get(suffix, currency if suffix == "cost" else "") + ("/year" if yearly else "")


def _scaling(compared: Comparison) -> str:
    """Return the sentence that says how savings are scaled to a year."""
    days = compared.metrics[compared.baseline]["makespan_s"] / DAY_S
    year = f"; a year is {365 / days:,.3g} times the {days:,.3g} days of its run" if days else ""
    return f"Compared with {compared.baseline}, job by job{year}."


def _by_metric(columns: Mapping[str, Metrics], currency: str = "") -> Table:
    """Return a table with a row per metric and a column per run."""
    from rich.table import Table

    table = Table("metric", "unit")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for metric in dict.fromkeys(name for metrics in columns.values() for name in metrics):
        values = (_shown(metric, run[metric]) if metric in run else "" for run in columns.values())
        table.add_row(metric, unit(metric, currency), *values)
    return table


def _by_run(runs: Mapping[str, Metrics], main: Sequence[str], currency: str) -> Table:
    """Return a table with a row per run and a column per main metric."""
    from rich.table import Table

    table = Table("policy")
    shown = [metric for metric in main if any(metric in metrics for metrics in runs.values())]
    for metric in shown:
        heading = f"{metric}, {currency}" if metric.endswith("_cost") else metric
        table.add_column(heading, justify="right", no_wrap=True)
    for name, metrics in runs.items():
        values = (number(metrics[metric]) if metric in metrics else "" for metric in shown)
        table.add_row(name, *values)
    return table


def print_table(table: Table) -> None:
    """Print a table at its full width: names and numbers are never cut off."""
    from rich.console import Console

    console = Console()
    console.width = max(_width(table), 1)
    console.print(table)


def _width(table: Table) -> int:
    """Return the width of a table in which nothing is cut off or wrapped, in characters."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(width=UNBOUNDED)
    return Measurement.get(console, console.options, table).maximum


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with a frame; its last column is aligned to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]

    def line(edge: str, cells: Sequence[str]) -> str:
        *texts, last = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        last = last.rstrip().rjust(widths[-1])
        return f"{edge} {f' {edge} '.join((*texts, last))} {edge}\n"

    def rule(left: str, fill: str, between: str, right: str) -> str:
        return f"{left}{between.join(fill * (width + 2) for width in widths)}{right}\n"

    top, below = rule("┏", "━", "┳", "┓"), rule("┡", "━", "╇", "┩")
    body = "".join(line("│", row) for row in rows)
    return f"{top}{line('┃', headings)}{below}{body}{rule('└', '─', '┴', '┘')}"


def is_plain(stream: TextIO, text: str) -> bool:
    """Return whether a stream gets a table as text of Unicode, without colours and markup."""
    if stream.isatty() or any(map(os.environ.get, STYLED)) or "[" in text:
        return False
    return (stream.encoding or "").lower().replace("-", "") == "utf8"


def grouped_by(text: str) -> list[GroupedBy]:
    """Return the kinds of groups in a comma-separated list."""
    from hpcosim_scenarios.running.compare import GROUPED_BY

    found: list[GroupedBy] = []
    for name in (part.strip() for part in text.split(",") if part.strip()):
        kind = next((each for each in GROUPED_BY if each == name), None)
        if kind is None:
            known = ", ".join(GROUPED_BY)
            raise typer.BadParameter(f"--by: expected names of {known}, got {name!r:.60}")
        found.append(kind)
    return found


def print_groups(groups: Mapping[str, Groups]) -> None:
    """Print a table of mean waits for each kind of groups: a row per group, a column per policy."""
    first = next(iter(groups.values()))
    for kind in first:
        names = list(dict.fromkeys(name for each in groups.values() for name in each[kind]))
        print_table(_table(kind, names[:MOST_ROWS], groups))
        if len(names) > MOST_ROWS:
            rest = len(names) - MOST_ROWS
            typer.echo(f"{rest} more with fewer core-hours; --json prints all")


def _table(kind: str, names: list[str], groups: Mapping[str, Groups]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(kind, title=f"Mean wait by {kind}, s", title_justify="left")
    table.add_column("jobs", justify="right")
    table.add_column("core-hours", justify="right")
    for policy in groups:
        table.add_column(escape(policy), justify="right", no_wrap=True)
    for name in names:
        of_policies = [each[kind].get(name) for each in groups.values()]
        one = next(group for group in of_policies if group is not None)
        waits = ("" if each is None else number(each["mean_wait_s"]) for each in of_policies)
        shown = "".join(letter if letter.isprintable() else "?" for letter in name[:60])
        table.add_row(escape(shown), f"{one['jobs']:,}", number(one["core_hours"]), *waits)
    return table
