"""Checks of the workloads of runs: each job log is read once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from hpcosim_experiments.errors import ExperimentFileError
from hpcosim_experiments.model.file import located
from hpcosim_experiments.runs.plan import PlannedRun
from hpcosim_experiments.runs.table_identity import table_identity
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.jobs import shape, source_jobs
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.table import JobTable

SELECTIONS = ("workload.jobs", "workload.window_s", "workload")
"""Settings that a workload without jobs is blamed on, the most probable first."""


def count_jobs(path: Path, runs: Iterable[PlannedRun]) -> dict[str, int]:
    """Return the number of jobs of runs by key.

    A model is drawn with the seed of one run only, and the other seeds count as many jobs.

    Args:
        path: the experiment file.
        runs: the runs.

    Raises:
        ExperimentFileError: a setting of the experiment leaves no job. It has the line.
        ScenarioError, WorkloadError: a job log cannot be read, or a model is invalid.
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
    try:
        table = source_jobs(run.scenario, Path())
        by_workload: dict[bytes, int] = {}
        counts = {}
        for run in runs:
            workload = msgspec.json.encode(run.scenario.workload)
            if workload not in by_workload:
                by_workload[workload] = _count(table, run)
            counts[run.key] = by_workload[workload]
    except (ScenarioError, WorkloadError) as error:
        raise _blamed(error, run, path) from None
    return counts


def _count(table: JobTable, run: PlannedRun) -> int:
    count = len(shape(table, run.scenario.workload))
    if not count:
        raise WorkloadError("expected at least one job, got 0")
    return count


def _blamed(error: ScenarioError | WorkloadError, run: PlannedRun, path: Path) -> Exception:
    """Return an error with the place of the setting that probably caused it."""
    if isinstance(error, WorkloadError) and error.path is not None:
        return error
    for setting in SELECTIONS:
        if (field := run.settings.field_of(setting)) is not None:
            return located(ExperimentFileError(error.what, field=field), path)
    return error
