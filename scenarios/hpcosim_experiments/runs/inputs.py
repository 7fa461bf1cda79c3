"""Checks of the files that runs read: job logs and time series. Each log is read once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from hpcosim_experiments.errors import ExperimentFileError
from hpcosim_experiments.model.file import located
from hpcosim_experiments.runs.plan import PlannedRun
from hpcosim_experiments.runs.table_identity import table_identity
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.jobs import source_jobs
from hpcosim_scenarios.running.library import load_with
from hpcosim_workloads.errors import WorkloadError

SELECTIONS = ("workload.jobs", "workload.window_s", "workload")
"""Settings that a workload without jobs is blamed on, the most probable first."""


def count_jobs(path: Path, runs: Iterable[PlannedRun]) -> dict[str, int]:
    """Check the input files of runs, and return their numbers of jobs by key.

    A model is drawn with the seed of one run only, and the other seeds count as many jobs.

    Args:
        path: the experiment file.
        runs: the runs.

    Raises:
        ExperimentFileError: a setting of the experiment leaves no job, or names an invalid file.
            It has the line.
        ScenarioError, WorkloadError: a file cannot be read or is invalid.
    """
    by_table: dict[bytes, list[PlannedRun]] = {}
    for run in runs:
        by_table.setdefault(table_identity(run.scenario, seed=False), []).append(run)
    counts: dict[str, int] = {}
    for same in by_table.values():
        counts |= _counts(path, same)
    return counts


def _counts(path: Path, runs: list[PlannedRun]) -> dict[str, int]:
    """Return the number of jobs by key of runs that read or draw the same jobs."""
    run = runs[0]
    counts = {}
    by_section: dict[bytes, int] = {}
    try:
        table = source_jobs(run.scenario, Path())
        for run in runs:
            scenario = run.scenario
            sections = (scenario.workload, scenario.economics, scenario.signals)
            identity = msgspec.json.encode(sections)
            if identity not in by_section:
                by_section[identity] = len(load_with(scenario, Path(), table).jobs)
            counts[run.key] = by_section[identity]
    except (ScenarioError, WorkloadError) as error:
        raise _blamed(error, run, path) from None
    return counts


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
