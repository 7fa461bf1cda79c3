"""Checks of the files that runs read: job logs and time series. Each log is read once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from hpcosim_experiments.errors import ExperimentError, ExperimentFileError
from hpcosim_experiments.model.file import located
from hpcosim_experiments.runs.plan import PlannedRun, name_of, table_identity
from hpcosim_experiments.runs.result import RunResult
from hpcosim_experiments.statistics.measured import (
    MeasureSettings,
    measured_period,
    named_kinds,
)
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.jobs import source_jobs
from hpcosim_scenarios.running.library import load_with
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.table import JobTable

SELECTIONS = ("workload.jobs", "workload.window_s", "workload")
"""Settings that a workload without jobs is blamed on, the most probable first."""


NO_NAMES = (
    "no workload has names of a {kind}; expected jobs with them, such as a log in the Standard "
    "Workload Format with field 12 for users; leave it out"
)


def count_jobs(
    path: Path, runs: Iterable[PlannedRun], stored: Iterable[RunResult] = ()
) -> dict[str, int]:
    """Check the input files of runs, and return their numbers of jobs by key.

    The section `measure` is checked, too. A model is drawn with the seed of one run only, and the
    other seeds count as many jobs.

    Args:
        path: the experiment file.
        runs: the runs.
        stored: the results of the other runs.

    Raises:
        ExperimentFileError: a setting of the experiment leaves no job, or names an invalid file;
            no job is in the measured period of a run; or jobs are to be measured by names that
            none has. It has the line.
        ScenarioError, WorkloadError: a file cannot be read or is invalid.
    """
    runs = list(runs)
    by_table: dict[bytes, list[PlannedRun]] = {}
    for run in runs:
        by_table.setdefault(table_identity(run.scenario, seed=False), []).append(run)
    counts: dict[str, int] = {}
    named = {str(row["breakdown"]) for each in stored for row in each.breakdowns}
    for same in by_table.values():
        known, with_names = _counts(path, same)
        counts |= known
        named |= with_names
    settings = runs[0].task.settings if runs else MeasureSettings()
    for kind in settings.kinds:
        if kind not in named:
            key = "by" if kind in settings.by else "per_user"
            what = NO_NAMES.format(kind=kind)
            raise located(ExperimentFileError(what, field=f"$.measure.{key}"), path)
    return counts


def _counts(path: Path, runs: list[PlannedRun]) -> tuple[dict[str, int], set[str]]:
    """Return the number of jobs by key of runs with the same jobs, and which names jobs have."""
    run = runs[0]
    counts = {}
    named: set[str] = set()
    by_section: dict[bytes, int] = {}
    try:
        table = source_jobs(run.scenario, Path())
        for run in runs:
            scenario = run.scenario
            sections = (scenario.workload, scenario.economics, scenario.signals)
            identity = msgspec.json.encode(sections)
            if identity not in by_section:
                jobs = load_with(scenario, Path(), table).jobs
                _check_period(jobs, run, path)
                by_section[identity] = len(jobs)
                named |= named_kinds(jobs)
                named |= {"partition"} if scenario.platform.partitions else set()
            counts[run.key] = by_section[identity]
    except (ScenarioError, WorkloadError) as error:
        raise _blamed(error, run, path) from None
    return counts, named


def _check_period(jobs: JobTable, run: PlannedRun, path: Path) -> None:
    """Check that jobs of a run are submitted within its measured period.

    Raises:
        ExperimentFileError: none is.
    """
    try:
        measured_period(jobs.submit_s, run.task.settings)
    except ExperimentError as error:
        what = f"{name_of(run)}: {str(error).removeprefix('measure: ')}"
        raise located(ExperimentFileError(what, field="$.measure"), path) from None


def _blamed(error: ScenarioError | WorkloadError, run: PlannedRun, path: Path) -> Exception:
    """Return an error with the place of the setting that probably caused it."""
    if isinstance(error, WorkloadError):
        if error.path is not None:
            return error
        suspects: tuple[str, ...] = SELECTIONS
    else:
        suspects = (error.field.removeprefix("$."),)
    for suspect in suspects:
        if (field := run.settings.field_of(suspect)) is not None:
            return located(ExperimentFileError(error.what, field=field), path)
    return error
