"""Estimates of the time that an experiment takes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hpcosim_experiments.carry_out import checked_plan, default_folder, files_of
from hpcosim_experiments.executors import InputFiles, Local, open_executor
from hpcosim_experiments.output import check_output, marker_of
from hpcosim_experiments.runs.plan import Plan, PlannedRun, count_jobs, name_of
from hpcosim_experiments.runs.task import RunTask, is_compiled, simulate
from hpcosim_experiments.store import Results, RunStore, missing_runs, stored_results, summary_of
from hpcosim_scenarios.running.engine import MANY_TO_COMPILE
from hpcosim_scenarios.running.warnings import Warn, ignore_warning

SAMPLES = 8
"""Largest number of runs that are simulated for an estimate."""

SAMPLE_S = 0.5
"""Time after which the simulation of a sample stops, s."""

Origin = Literal["nothing to simulate", "stored runs", "samples", "no sample succeeded"]


class Estimate(NamedTuple):
    """An estimate of the computing time of runs.

    Attributes:
        wall_s: time of all runs with one worker, s; None: unknown.
        origin: what the estimate is from.
        runs: number of stored runs or samples.
        error: the first error of a sample with its run; empty: none failed.
    """

    wall_s: float | None
    origin: Origin
    runs: int = 0
    error: str = ""


def estimate(missing: Sequence[PlannedRun], jobs: Mapping[str, int], stored: Results) -> Estimate:
    """Return an estimate of the time to simulate runs: their jobs times a mean time per job.

    The mean is over the stored runs or, without them, over up to `SAMPLES` runs that are spread
    evenly over the missing ones and simulated for `SAMPLE_S` each, in this process and with the
    engine of the runs; if that must be compiled first, with the reference.
    """
    total = sum(jobs[run.key] for run in missing)
    if not total:
        return Estimate(0.0, "nothing to simulate")
    counted = sum(each.metrics.get("jobs") or 0 for each in stored.values())
    if counted:
        wall_s = sum(each.wall_s for each in stored.values())
        return Estimate(total * wall_s / counted, "stored runs", len(stored))
    times_s, error = _sample_times_s(missing, min(total, MANY_TO_COMPILE - 1))
    if not times_s:
        return Estimate(None, "no sample succeeded", error=error)
    return Estimate(total * sum(times_s) / len(times_s), "samples", len(times_s), error)


def _sample_times_s(runs: Sequence[PlannedRun], batch_jobs: int) -> tuple[list[float], str]:
    """Return the time per job of some of the runs, s, and the first error; empty: none failed."""
    count = min(SAMPLES, len(runs))
    chosen = [runs[place * len(runs) // count] for place in range(count)]
    with open_executor(Local(workers=0), files_of(chosen)) as executor:
        tasks = [run.task._replace(batch_jobs=batch_jobs) for run in chosen]
        outcomes = list(executor.run(time_per_job, tasks))
    times_s = [done.result for done in outcomes if done.result is not None]
    errors = (f"{name_of(chosen[done.index])}: {done.error}" for done in outcomes if done.error)
    return times_s, next(errors, "")


class _Enough(Exception):  # noqa: N818 - no error: ends the simulation of a sample
    """The simulation of a sample has taken long enough."""


def _stop_at_once(now_s: float, ended: int, of: int) -> None:
    raise _Enough


def time_per_job(task: RunTask, files: InputFiles) -> float:
    """Simulate the begin of a run, and return the time per job, s.

    The time to load the compiled engine is not part of it.
    """
    if is_compiled(task):
        with suppress(_Enough):
            simulate(task, files, task.base, _stop_at_once)
    began_s = time.perf_counter()
    over = jobs = 0

    def stop(now_s: float, ended: int, of: int) -> None:
        nonlocal over, jobs
        over, jobs = ended, of
        if time.perf_counter() - began_s > SAMPLE_S:
            raise _Enough

    try:
        result = simulate(task, files, task.base, stop).result
    except _Enough:
        return (time.perf_counter() - began_s) / max(over, 1)
    return (time.perf_counter() - began_s) / max(int(result.metrics["jobs"] or 0), 1)


class DryRun(NamedTuple):
    """What an experiment would do.

    Attributes:
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
