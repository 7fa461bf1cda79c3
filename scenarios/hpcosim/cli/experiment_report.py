"""What `hpcosim experiment` prints."""

from __future__ import annotations

import typer
from rich.table import Table

from hpcosim.cli.report import print_table
from hpcosim_experiments.carry_out import CarriedOut
from hpcosim_experiments.dry_run import DryRun
from hpcosim_experiments.estimate import SAMPLE_S
from hpcosim_experiments.execute import grouped
from hpcosim_experiments.executors import ExecutorSettings, Local, cores
from hpcosim_scenarios.running.progress import span

MOST_FAILURES = 20
"""Number of different errors that are listed."""


def print_dry_run(done: DryRun, settings: ExecutorSettings) -> None:
    """Print the runs of an experiment, then their number, jobs and time."""
    table = Table(*done.plan.axes, "result")
    table.add_column("jobs", justify="right")
    for run in done.plan.runs:
        state = "stored" if run.key in done.stored else "to simulate"
        jobs = f"{done.jobs[run.key]:,}" if run.key in done.jobs else ""
        table.add_row(*map(str, run.labels.values()), state, jobs)
    print_table(table)
    typer.echo(done.summary)
    if done.jobs:
        typer.echo(f"jobs to simulate: {sum(done.jobs.values()):,}")
        typer.echo(f"estimated time: {_time(done, settings)}")


def _time(done: DryRun, settings: ExecutorSettings) -> str:
    """Return the estimated time with its origin."""
    wall_s, origin, runs, error = done.estimate
    if wall_s is None:
        return f"unknown; {origin}; the first error: {error}"
    text = f"{_span(wall_s)} with one worker"
    workers = (settings.workers or cores()) if isinstance(settings, Local) else settings.workers
    workers = min(workers or 1, len(done.jobs))
    if workers > 1:
        text += f", {_span(wall_s / workers)} with {workers}"
    short = "" if origin == "stored runs" else f", each simulated for at most {SAMPLE_S:g} s"
    failed = f"; the first error of a sample: {error}" if error else ""
    return f"{text}; from the time per job of {runs} {origin}{short}{failed}"


def _span(seconds: float) -> str:
    return span(seconds) if seconds >= 1.0 else "less than a second"


def print_outcome(done: CarriedOut) -> int:
    """Print the tables and the reports, then the failed runs; return the number of these."""
    for path in done.files:
        if path.parent == done.folder:  # a report links to its figures
            typer.echo(str(path))
    failed = done.failed
    errors = grouped((run, done.results[run.key].error) for run in failed)
    for line in errors[:MOST_FAILURES]:
        typer.echo(f"error: {line}", err=True)
    if failed:
        more = len(errors) - MOST_FAILURES
        not_listed = f"; {more} other errors are in the report" if more > 0 else ""
        total = len(done.plan.runs)
        typer.echo(f"error: {len(failed)} of {total} runs failed{not_listed}", err=True)
    return len(failed)
