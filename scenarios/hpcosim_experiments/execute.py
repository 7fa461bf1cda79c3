"""Simulate the runs of an experiment with an executor, and store their results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from hpcosim_experiments.executors import ExecutorSettings, open_executor
from hpcosim_experiments.runs.plan import PlannedRun, name_of
from hpcosim_experiments.runs.result import RunResult, Simulated
from hpcosim_experiments.runs.task import run_task
from hpcosim_experiments.store import RunStore
from hpcosim_scenarios.running.progress import shown
from hpcosim_scenarios.running.warnings import Warn

# Messages about runs: those with the same text are one line.


def grouped(
    messages: Iterable[tuple[PlannedRun, str]], kind: Callable[[str], str] = str
) -> list[str]:
    """Return a line for each kind of message: its first run and text, and the number of others.

    Args:
        messages: runs with a message each.
        kind: returns what the texts of one line have in common.
    """
    groups: dict[str, list[tuple[PlannedRun, str]]] = {}
    for run, text in messages:
        groups.setdefault(kind(text), []).append((run, text))
    lines = []
    for (run, text), *others in groups.values():
        more = f" and {len(others)} other {'run' if len(others) == 1 else 'runs'}" if others else ""
        lines.append(f"{name_of(run) or 'the run'}{more}: {text}")
    return lines


MOST_WARNINGS = 5
"""Number of different warnings that are listed."""

NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")
"""Warnings that differ only by numbers, such as an offered load, are one line."""


def simulate_runs(
    title: str, runs: Sequence[PlannedRun], store: RunStore, settings: ExecutorSettings
) -> dict[str, RunResult]:
    """Simulate runs, store each result as soon as it is there, and return the results by key.

    Args:
        title: title of the progress bar.
        runs: the runs, with different keys.
        store: where the results are stored.
        settings: the executor.

    Raises:
        ExecutorError: the executor cannot start, or an input file is missing.
        StoreError: a result cannot be stored.
    """
    if not runs:
        return {}
    results = {}
    with open_executor(settings, files_of(runs)) as executor, shown(title, "runs") as report:
        report(0.0, 0, len(runs))
        for done in executor.run(run_task, [run.task for run in runs]):
            run = runs[done.index]
            simulated = done.result or _lost(run, done.error)
            results[run.key] = store.write(_with_inputs(simulated, run))
            report(0.0, len(results), len(runs))
    return results


def files_of(runs: Iterable[PlannedRun]) -> list[Path]:
    """Return all files that runs read."""
    files: set[Path] = set()
    for each in {run.task.chosen: run for run in runs}:
        files.update(each.files())
    for run in runs:
        files.update(run.task.files.values())
    return sorted(files)


def warn_of(runs: Sequence[PlannedRun], results: Mapping[str, RunResult], warn: Warn) -> None:
    """Pass on the first kinds of warnings of runs, each once, and the number of the others."""
    found = [
        (run, text) for run in runs if run.key in results for text in results[run.key].warnings
    ]
    lines = grouped(found, lambda text: NUMBER.sub("#", text))
    for line in lines[:MOST_WARNINGS]:
        warn(line)
    if (others := len(lines) - MOST_WARNINGS) > 0:
        warn(f"{others} other warnings are listed by `warnings` in runs/*/*.json")


def _lost(run: PlannedRun, error: str) -> Simulated:
    """Return the failed result of a run whose workers were lost."""
    return Simulated(msgspec.structs.replace(run.task.base, status="failed", error=error))


def _with_inputs(simulated: Simulated, run: PlannedRun) -> Simulated:
    inputs = msgspec.Raw(run.inputs)
    return simulated._replace(result=msgspec.structs.replace(simulated.result, inputs=inputs))
