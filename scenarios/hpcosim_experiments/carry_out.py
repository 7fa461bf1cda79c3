"""Carry out an experiment: simulate the runs that are not stored, and write tables and report."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from hpcosim_experiments.definition import Axes, AxisValue, ResolvedAxis, located
from hpcosim_experiments.errors import ExperimentError, ExperimentFileError
from hpcosim_experiments.executors import (
    Done,
    Executor,
    ExecutorSettings,
    FilesInPlace,
    Local,
    open_executor,
)
from hpcosim_experiments.output import check_output, list_output, mark_output, marker_of
from hpcosim_experiments.report import Results, check, identical_repeats, repeats, write_report
from hpcosim_experiments.runs.plan import Plan, PlannedRun, count_jobs, name_of, plan_of
from hpcosim_experiments.runs.task import RunResult, RunTask, Simulated, is_compiled, run_task
from hpcosim_experiments.statistics.rows import Label
from hpcosim_experiments.store import (
    RunStore,
    missing_runs,
    other_commits,
    stored_results,
    summary_of,
)
from hpcosim_experiments.tables import (
    Columns,
    Format,
    breakdown_rows,
    check_names,
    metric_columns,
    run_rows,
    write_jobs,
    write_table,
)
from hpcosim_scenarios.running.engine import MANY_JOBS
from hpcosim_scenarios.running.in_process import shown
from hpcosim_scenarios.running.warnings import Warn, ignore_warning
from hpcosim_sim.record.versions import hpcosim_version

# Windows of a job log that overlap, and are therefore no independent repeats.

WINDOWS = ("workload.window_s", "workload.jobs")
"""Paths that select a window of jobs: its first time or number, and the one after its last."""


# Messages about runs: those with the same text are one line.


def overlap_warnings(axes: Axes, over: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each axis of repeats with windows that overlap."""
    for name in over:
        if pair := _overlapping(axes[name]):
            first, second = pair
            yield (
                f"axes.{name}: the windows {first.label} and {second.label} overlap, so their runs "
                f"share jobs; confidence intervals assume independent repeats and are too narrow. "
                f"Choose windows without common jobs"
            )


def _overlapping(axis: ResolvedAxis) -> tuple[AxisValue, AxisValue] | None:
    """Return the first two values whose windows of one log overlap; None: there are none."""
    for path in WINDOWS:
        having = [value for value in axis.values if _is_window(value.settings.get(path))]
        for one, other in combinations(having, 2):
            (begin, end), (after, until) = one.settings[path], other.settings[path]
            if max(begin, after) < min(end, until) and _rest(one, path) == _rest(other, path):
                return one, other
    return None


def _is_window(value: object) -> bool:
    """Return whether a value is a pair of numbers; other values are reported as errors."""
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(isinstance(bound, (int, float)) for bound in value)
    )


def _rest(value: AxisValue, path: str) -> dict[str, object]:
    return {name: each for name, each in value.settings.items() if name != path}


Say = Callable[[str], None]
"""Takes a sentence about the progress of an experiment."""


class CarriedOut(NamedTuple):
    """A completed experiment."""

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
    """Carry out an experiment, and write its tables and its report.

    Results that an earlier start has stored in the output folder are used. Failed runs do not
    stop the others; see `CarriedOut.failed`.

    Args:
        path: the experiment file.
        out: the output folder; None: `results/NAME`.
        overrides: values to set in the scenario in all runs, by dotted path.
        executor: where the runs are simulated; None: in processes on this machine, one per core.
        force: accept an output folder with other files, and simulate all runs again.
        say: called with sentences about the progress.

    Raises:
        ExperimentFileError, ScenarioError, WorkloadError, PolicyError: the experiment is invalid;
            nothing is simulated.
        ExperimentError, ResultsFolderError: a package is missing, or the output folder cannot be
            used.
        ExecutorError: the executor cannot start.
        StoreError: a result cannot be stored. Those before are stored.
    """
    plan, metrics = checked_plan(path, overrides, warn)
    _check_packages(table_format, plan)
    folder = out or default_folder(plan)
    store, results = simulate_plan(
        plan, folder, executor=executor or Local(), force=force, again=force, warn=warn, say=say
    )
    say("writing the tables and the report")
    files = _write(folder, plan, results, store, metrics, table_format, warn)
    list_output(folder, files)
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
        executor: where the runs are simulated.
        force: accept an output folder with other files.
        again: simulate all runs, also stored ones.
        say: called with sentences about the progress.

    Returns:
        The store, and the results of all runs by key.

    Raises:
        WorkloadError, ExecutorError, ExperimentError, ResultsFolderError, StoreError: as
            `run_experiment`.
    """
    marker = marker_of(plan)
    earlier = check_output(folder, marker, force=force)
    store = RunStore(folder, warn)
    results = {} if again else stored_results(plan, store)
    changed = earlier is not None and earlier.sha256 != marker.sha256
    say(summary_of(plan, store, results, changed=changed))
    if warning := other_commits(plan, results):
        warn(warning)
    missing = missing_runs(plan, results)
    jobs = sum(count_jobs(plan.path, missing, results.values()).values())
    mark_output(folder, replace(marker, files=earlier.files if earlier else ()))
    store.sweep()
    try:
        results |= simulate_runs(plan.experiment.name, missing, jobs, store, executor)
    except KeyboardInterrupt:
        say("the stored results are kept; the same command continues")
        raise
    warn_of(plan.runs, results, warn)
    return store, results


def default_folder(plan: Plan) -> Path:
    """Return the output folder of an experiment whose caller names none."""
    return Path("results") / plan.experiment.name


def checked_plan(
    path: Path, overrides: Mapping[str, Any] | None, warn: Warn
) -> tuple[Plan, Columns]:
    """Return an experiment with its runs, and the columns of its metrics.

    Arguments and errors are those of `run_experiment`. Job logs are not read.
    """
    plan = plan_of(path, overrides, warn)
    metrics = metric_columns(plan)
    try:
        check_names(plan, metrics)
        check(plan.experiment.report, _labels(plan), metrics)
    except ExperimentError as error:
        if isinstance(error, ExperimentFileError):
            raise located(error, path) from None
        field, _, what = str(error).partition(": ")
        raise located(ExperimentFileError(what, field=f"$.{field}"), path) from None
    for warning in overlap_warnings(plan.axes, repeats(plan.experiment.report, _labels(plan))):
        warn(warning)
    return plan, metrics


def _labels(plan: Plan) -> dict[str, tuple[Label, ...]]:
    return {name: tuple(each.label for each in axis.values) for name, axis in plan.axes.items()}


def _check_packages(table_format: Format, plan: Plan) -> None:
    """Check that the packages that write tables and reports are installed."""
    needed = ["jinja2", "matplotlib"]
    if table_format == "parquet" or plan.experiment.jobs:
        needed.append("pyarrow")
    if missing := [name for name in needed if find_spec(name) is None]:
        raise ExperimentError(
            f"experiments need {' and '.join(missing)}: pip install 'hpcosim[experiment]'"
        )


def _write(
    folder: Path,
    plan: Plan,
    results: Mapping[str, RunResult],
    store: RunStore,
    metrics: Columns,
    table_format: Format,
    warn: Warn,
) -> list[Path]:
    """Write the tables and the report; return the files."""
    about = {"hpcosim": hpcosim_version(), "experiment": plan.text}
    runs, classes = run_rows(plan, results, metrics), breakdown_rows(plan, results)
    files = [folder / f"results.{table_format}"]
    write_table(files[0], runs, about)
    if classes.rows:
        files.append(folder / f"breakdowns.{table_format}")
        write_table(files[-1], classes, about)
    if plan.experiment.jobs:
        files.append(folder / f"jobs.{table_format}")
        write_jobs(files[-1], plan, results, store, about)
    found = Results(plan.experiment.name, _labels(plan), runs.rows, classes.rows)
    for one in identical_repeats(found, plan.experiment.report):
        warn(one.text)
    return files + write_report(folder, found, plan.experiment.report)


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


START_S = 3.0
"""CPU time in which two workers start and load the compiled engine, about, s."""


def simulate_runs(
    title: str, runs: Sequence[PlannedRun], jobs: int, store: RunStore, settings: ExecutorSettings
) -> dict[str, RunResult]:
    """Simulate runs, store each result as soon as it is there, and return the results by key.

    Args:
        jobs: number of jobs of all runs.

    Raises:
        ExecutorError: the executor cannot start, or an input file is missing.
        StoreError: a result cannot be stored.
    """
    if not runs:
        return {}
    results = {}
    with open_executor(settings, files_of(runs)) as executor, shown(title, "runs") as report:
        report(0.0, 0, len(runs))
        share = jobs // max(executor.workers, 1)
        tasks = [run.task._replace(batch_jobs=share) for run in runs]
        for done in _outcomes(tasks, executor, settings):
            run = runs[done.index]
            simulated = done.result or _lost(run, done.error)
            results[run.key] = store.write(_with_inputs(simulated, run))
            report(0.0, len(results), len(runs))
    return results


def _outcomes(
    tasks: Sequence[RunTask], executor: Executor, settings: ExecutorSettings
) -> Iterator[Done[Simulated]]:
    """Yield the outcomes of tasks, as `Executor.run`.

    Short compiled runs are simulated in this process, unless those left take longer than the start
    of workers.
    """
    here, began_s, left_s = 0, 0.0, 0.0
    if settings == Local():
        files = FilesInPlace(Path.cwd())
        while here < len(tasks) and left_s < START_S and is_compiled(tasks[here], MANY_JOBS):
            yield Done(here, run_task(tasks[here], files), "")
            here += 1
            if here == 1:  # it has loaded the engine
                began_s = time.process_time()
            else:
                left_s = (time.process_time() - began_s) / (here - 1) * (len(tasks) - here)
    for done in executor.run(run_task, tasks[here:]):
        yield done._replace(index=here + done.index)


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
