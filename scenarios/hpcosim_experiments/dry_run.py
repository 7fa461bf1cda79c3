"""The runs of an experiment and an estimate of its time, without carrying it out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.carry_out import checked_plan, default_folder
from hpcosim_experiments.estimate import Estimate, estimate
from hpcosim_experiments.output import check_output, marker_of
from hpcosim_experiments.runs.inputs import count_jobs
from hpcosim_experiments.runs.plan import Plan
from hpcosim_experiments.store import Results, RunStore, missing_runs, stored_results, summary_of
from hpcosim_scenarios.running.warnings import Warn, ignore_warning


class DryRun(NamedTuple):
    """What an experiment would do.

    Attributes:
        plan: the experiment.
        stored: stored results that it would use, by key.
        jobs: numbers of jobs of the runs to simulate, by key.
        estimate: the time that they would take.
        summary: a sentence about the runs.
    """

    plan: Plan
    stored: Results
    jobs: Mapping[str, int]
    estimate: Estimate
    summary: str


def dry_run(
    path: Path,
    *,
    out: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    force: bool = False,
    warn: Warn = ignore_warning,
) -> DryRun:
    """Return the runs of an experiment with an estimate of its time; nothing is written.

    Arguments and errors are those of `run_experiment`.
    """
    plan, _ = checked_plan(path, overrides, warn)
    folder, marker = out or default_folder(plan), marker_of(plan)
    earlier = check_output(folder, marker, force=force)
    changed = earlier is not None and earlier.sha256 != marker.sha256
    store = RunStore(folder, warn)
    stored = {} if force else stored_results(plan, store)
    missing = missing_runs(plan, stored)
    jobs = count_jobs(path, missing, stored.values())
    summary = summary_of(plan, store, stored, changed=changed)
    return DryRun(plan, stored, jobs, estimate(missing, jobs, stored), summary)
