"""Carry out an experiment: simulate what is not stored, and write tables and report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hpcosim_executors import ExecutorSettings, Local, open_executor
from hpcosim_experiments.output import marker_of, open_output
from hpcosim_experiments.report import Results, check, write_report
from hpcosim_experiments.runs.plan import Plan, PlannedRun, plan_of
from hpcosim_experiments.runs.result import RunResult, Simulated
from hpcosim_experiments.runs.task import run_task
from hpcosim_experiments.runs.workloads import count_jobs
from hpcosim_experiments.store import RunStore
from hpcosim_experiments.tables.columns import metric_columns
from hpcosim_experiments.tables.files import Format, check_installed, write_jobs, write_table
from hpcosim_experiments.tables.rows import breakdown_rows, run_rows
from hpcosim_scenarios.running.progress import shown
from hpcosim_scenarios.running.warnings import Warn, ignore_warning

Say = Callable[[str], None]
"""Takes a sentence about the progress of an experiment."""


class CarriedOut(NamedTuple):
    """A completed experiment.

    Attributes:
        folder: the output folder.
        plan: the experiment.
        results: the results by key.
        files: the tables and the files of the report.
    """

    folder: Path
    plan: Plan
    results: Mapping[str, RunResult]
    files: Sequence[Path]

    @property
    def failed(self) -> list[PlannedRun]:
        """The runs that failed, in the order of the experiment."""
        return [run for run in self.plan.runs if self.results[run.key].status == "failed"]


def run_experiment(
    path: Path,
    *,
    out: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    executor: ExecutorSettings | None = None,
    table_format: Format = "parquet",
    force: bool = False,
    warn: Warn = ignore_warning,
    say: Say = ignore_warning,
) -> CarriedOut:
    """Carry out an experiment and write its tables and its report.

    Results that an earlier start has stored in the folder are used again.

    Args:
        path: the experiment file.
        out: the output folder; None: `results/NAME`.
        overrides: values to set in the scenario in all runs, by dotted path.
        executor: where the runs are simulated; None: in processes on this machine.
        table_format: format of the tables.
        force: accept an output folder with other files, and simulate all runs again.
        warn: called with each warning.
        say: called with sentences about the progress.

    Raises:
        ExperimentFileError, ScenarioError, WorkloadError: the experiment is invalid; nothing is
            simulated.
        ExecutorError: the executor cannot start.
        ExperimentError, ResultsFolderError: the output folder cannot be used.
        StoreError: a result cannot be stored. Those before are stored.
    """
    plan = plan_of(path, overrides, warn)
    metrics = metric_columns(plan.runs[0])
    labels = {name: tuple(each.label for each in axis.values) for name, axis in plan.axes.items()}
    check(plan.experiment.report, labels, metrics)
    if table_format == "parquet" or plan.experiment.jobs:
        check_installed()
    folder = out or Path("results") / plan.experiment.name
    store, results = simulate_plan(
        plan, folder, executor=executor or Local(), force=force, again=force, warn=warn, say=say
    )
    files = _write(folder, plan, results, store, metrics, table_format)
    return CarriedOut(folder, plan, results, files)


def simulate_plan(
    plan: Plan,
    folder: Path,
    *,
    executor: ExecutorSettings,
    force: bool = False,
    again: bool = False,
    warn: Warn = ignore_warning,
    say: Say = ignore_warning,
) -> tuple[RunStore, dict[str, RunResult]]:
    """Simulate the runs of an experiment that are not stored in the output folder.

    Args:
        plan: the experiment.
        folder: the output folder.
        executor: where the runs are simulated.
        force: accept an output folder with other files.
        again: simulate all runs, also stored ones.
        warn: called with each warning.
        say: called with sentences about the progress.

    Returns:
        The stored results, and the results of all runs by key.

    Raises:
        WorkloadError, ExecutorError, ExperimentError, ResultsFolderError, StoreError: as
            `run_experiment`.
    """
    marker = marker_of(plan)
    earlier = open_output(folder, marker, force=force)
    store = RunStore(folder, warn)
    store.sweep()
    results = {} if again else stored_results(plan, store)
    missing = missing_runs(plan, results)
    say(_summary(plan, store, results, len(missing), earlier not in (None, marker)))
    count_jobs(plan.path, missing)
    return store, results | _simulate(plan, missing, store, executor)


def stored_results(plan: Plan, store: RunStore) -> dict[str, RunResult]:
    """Return the stored results of the runs of an experiment by key, failed ones left out."""
    keys = dict.fromkeys(run.key for run in plan.runs)
    found = {key: store.read(key, jobs=plan.experiment.jobs) for key in keys}
    return {key: each for key, each in found.items() if each is not None and each.status == "ok"}


def missing_runs(plan: Plan, results: Mapping[str, RunResult]) -> list[PlannedRun]:
    """Return the runs to simulate, one per key, those with the same jobs next to each other."""
    runs: dict[str, PlannedRun] = {}
    order: dict[bytes, int] = {}
    for run in plan.runs:
        if run.key not in results:
            runs.setdefault(run.key, run)
            order.setdefault(run.task.table, len(order))
    return sorted(runs.values(), key=lambda run: order[run.task.table])


def _simulate(
    plan: Plan, runs: Sequence[PlannedRun], store: RunStore, settings: ExecutorSettings
) -> dict[str, RunResult]:
    """Simulate runs and store each result as soon as it is there."""
    if not runs:
        return {}
    files = sorted({path for run in runs for path in _files(run)})
    results = {}
    tasks = [run.task for run in runs]
    with (
        open_executor(settings, files) as executor,
        shown(plan.experiment.name, "runs") as report,
    ):
        report(0.0, 0, len(runs))
        for count, done in enumerate(executor.run(run_task, tasks), 1):
            run = runs[done.index]
            simulated = done.result or _lost(run, done.error)
            inputs = msgspec.Raw(run.inputs)
            result = msgspec.structs.replace(simulated.result, inputs=inputs)
            results[run.key] = store.write(Simulated(result, simulated.jobs))
            report(0.0, count, len(runs))
    return results


def _files(run: PlannedRun) -> list[Path]:
    return [*run.task.files.values(), *run.task.chosen.files()]


def _lost(run: PlannedRun, error: str) -> Simulated:
    return Simulated(msgspec.structs.replace(run.task.base, status="failed", error=error))


def _summary(
    plan: Plan, store: RunStore, results: Mapping[str, RunResult], missing: int, changed: bool
) -> str:
    """Return a sentence about the runs: how many are stored, new and left over."""
    keys = {run.key for run in plan.runs}
    name, count = plan.experiment.name, len(plan.runs)
    parts = [f"{name}: {count} runs"]
    if len(keys) < count:
        parts.append(f"{len(keys)} of them are different")
    parts.append(f"{len(results)} results are stored, {missing} runs are to be simulated")
    if left := len(store.keys() - keys):
        parts.append(f"{left} stored results are not part of the experiment and are kept")
    if changed:
        parts[0] = f"{plan.path} has changed since the last start; {parts[0]}"
    return "; ".join(parts)


def _write(
    folder: Path,
    plan: Plan,
    results: Mapping[str, RunResult],
    store: RunStore,
    metrics: Mapping[str, Any],
    table_format: Format,
) -> list[Path]:
    """Write the tables and the report; return the files."""
    about = {"hpcosim": version("hpcosim"), "experiment": plan.path.read_text(encoding="utf-8")}
    runs, classes = run_rows(plan, results, metrics), breakdown_rows(plan, results)
    files = [folder / f"results.{table_format}"]
    write_table(files[0], runs, about)
    if classes.rows:
        files.append(folder / f"breakdowns.{table_format}")
        write_table(files[-1], classes, about)
    if plan.experiment.jobs:
        files.append(folder / f"jobs.{table_format}")
        write_jobs(files[-1], plan, results, store, about)
    labels = {name: tuple(each.label for each in axis.values) for name, axis in plan.axes.items()}
    found = Results(plan.experiment.name, labels, runs.rows, classes.rows)
    return files + write_report(folder, found, plan.experiment.report)
