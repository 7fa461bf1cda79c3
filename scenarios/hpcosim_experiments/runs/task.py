"""The task of one run. Workers import it."""

from __future__ import annotations

import os
import platform
import time
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Raw, Struct

from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.executors import InputFiles
from hpcosim_experiments.statistics.measured import MeasureSettings, measure
from hpcosim_protocol.errors import HpcosimError
from hpcosim_scenarios.model.file import TRACES, with_files
from hpcosim_scenarios.model.jobs import FEW_JOBS, SourceCache
from hpcosim_scenarios.model.logs import sha256_of
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.engine import engine_of
from hpcosim_scenarios.running.in_process import Report, ignore
from hpcosim_scenarios.running.library import load_with
from hpcosim_scenarios.running.policies import Chosen
from hpcosim_scenarios.running.run import run_chosen
from hpcosim_sim.record.results import warnings_of
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_sim.record.versions import hpcosim_version
from hpcosim_workloads.logs.catalogue import TRACES_VARIABLE
from hpcosim_workloads.synthetic.imitation import MAX_JOBS
from hpcosim_workloads.table import JobTable

# The check that the files of a run are those of its key.


Status = Literal["ok", "failed"]


def check_unchanged(checksums: Mapping[Path, str], files: InputFiles) -> None:
    """Check that no file has changed since the experiment was planned.

    A file is read again only if its size or its time of modification has changed.

    Args:
        checksums: SHA-256 of the files of a run, by path on the driver.
        files: where they are on this machine.

    Raises:
        ExperimentError: a file has changed.
        WorkloadError: a file cannot be read.
    """
    for path, checksum in checksums.items():
        here = files.local(path)
        state = here.stat() if here.exists() else None
        stamp = (state.st_size, state.st_mtime_ns, state.st_ino) if state else (0, 0, 0)
        if _sha256(here, stamp) != checksum:
            raise ExperimentError(
                f"{path} has changed since the experiment was started; start it again"
            )


@lru_cache(maxsize=1000)
def _sha256(path: Path, _: tuple[int, int, int]) -> str:
    return sha256_of(path)


_SOURCES = SourceCache(MAX_JOBS, FEW_JOBS)
"""The jobs of earlier runs: the runs of an experiment follow each other by table."""

Measures = Callable[[RunRecord, JobTable], Mapping[str, int | float]]
"""Returns further metrics of a complete run; a function that workers can import."""


class RunTask(NamedTuple):
    """A run, as a worker gets it.

    Attributes:
        base: the result without what the simulation adds.
        scenario: the scenario in JSON; paths are absolute.
        files: the files that the scenario reads, by dotted path.
        checksums: SHA-256 of these files and of those of the policy, by path.
        table: identity of the jobs that the scenario reads or draws, before it selects from them.
        chosen: the policy; paths are absolute.
        settings: what to measure.
        jobs: also return the table of jobs.
        measures: returns further metrics.
        batch_jobs: jobs of all runs of its worker, about; the engine may depend on them.
    """

    base: RunResult
    scenario: bytes
    files: Mapping[str, Path]
    checksums: Mapping[Path, str]
    table: bytes
    chosen: Chosen
    settings: MeasureSettings
    jobs: bool
    measures: Measures | None = None
    batch_jobs: int = 0


def is_compiled(task: RunTask, most_jobs: int | None = None) -> bool:
    """Return whether the compiled engine simulates a run in this process.

    Args:
        task: the run, whose files are in place.
        most_jobs: number of jobs above which the answer is no; None: no limit.
    """
    scenario = msgspec.json.decode(task.scenario, type=Scenario)
    try:
        loaded = load_with(scenario, Path(), _SOURCES.jobs(scenario, Path()))
    except HpcosimError:  # a file has changed, which the run reports
        return False
    if most_jobs is not None and len(loaded.jobs) > most_jobs:
        return False
    return engine_of(loaded, task.chosen, task.batch_jobs).is_compiled


def run_task(task: RunTask, files: InputFiles) -> Simulated:
    """Simulate a run. An exception becomes a failed result with the exception in one line."""
    began_s = time.perf_counter()
    base = msgspec.structs.replace(task.base, python=platform.python_version())
    try:
        simulated = simulate(task, files, base)
    except Exception as error:
        simulated = Simulated(msgspec.structs.replace(base, status="failed", error=_line(error)))
    wall_s = round(time.perf_counter() - began_s, 6)
    return simulated._replace(result=msgspec.structs.replace(simulated.result, wall_s=wall_s))


def simulate(
    task: RunTask, files: InputFiles, base: RunResult, report: Report = ignore
) -> Simulated:
    """Simulate a run.

    Args:
        task: the run.
        files: where its files are on this machine.
        base: the result without what the simulation adds.
        report: called with the progress about ten times a second.

    Raises:
        Exception: any exception of the simulation.
    """
    if (installed := hpcosim_version()) != base.hpcosim:
        raise RuntimeError(f"the worker has hpcosim {installed}; expected {base.hpcosim}")
    check_unchanged(task.checksums, files)
    places = {name: files.local(path) for name, path in task.files.items()}
    scenario = with_files(msgspec.json.decode(task.scenario, type=Scenario), places)
    _use_traces(task.files, places)
    loaded = load_with(scenario, Path(), _SOURCES.jobs(scenario, Path()))
    chosen = task.chosen.moved(files.local)
    ran = run_chosen(chosen, loaded, report=report, batch_jobs=task.batch_jobs)
    check_unchanged(task.checksums, files)  # a policy or a log may have been read in between
    measured = measure(ran.record, task.settings, ran.metrics)
    more = task.measures(ran.record, loaded.jobs) if task.measures else {}
    result = msgspec.structs.replace(
        base,
        metrics={**measured.metrics, **more},
        breakdowns=measured.breakdowns,
        warnings=warnings_of(ran.record, ran.about),
    )
    if not task.jobs:
        return Simulated(result)
    from hpcosim_experiments.runs.job_rows import job_file

    return Simulated(result, job_file(ran.record, task.settings))


def _use_traces(files: Mapping[str, Path], places: Mapping[str, Path]) -> None:
    """Let the catalogue find the job logs that were shipped to this machine."""
    for name in TRACES:
        if name in files and places[name] != files[name]:
            os.environ[TRACES_VARIABLE] = str(places[name].parent)


def _line(error: Exception) -> str:
    """Return an exception in one line; of a bug with the innermost line of code."""
    text = " ".join(str(error).split())
    if isinstance(error, HpcosimError):
        return text or type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text}{where}"


class RunResult(Struct, frozen=True, kw_only=True):
    """The stored result of a run.

    Attributes:
        key: the key of the run.
        status: `ok` or `failed`.
        error: one line: why the run failed. Empty: it did not.
        metrics: metrics by name. Empty: the run failed.
        breakdowns: metrics by class of jobs, as of `Measured`.
        warnings: sentences about a run that is probably not what the user wanted.
        hpcosim: version of hpcosim that simulated the run.
        python: version of Python that simulated the run.
        git_commit: commit of the checkout that hpcosim ran from, with `-dirty` if files were
            changed. Null: hpcosim was installed from a package.
        policy_name: name of the policy, as in `run.json`.
        workload_sha256: SHA-256 of the file of the workload. Null: there is none.
        wall_s: time that the run took, s; it is in no table.
        jobs_sha256: SHA-256 of the table of jobs. Empty: there is none.
        inputs: JSON of which the key is the checksum.
    """

    key: str
    status: Status
    error: str = ""
    metrics: dict[str, int | float | None] = {}
    breakdowns: list[dict[str, Any]] = []
    warnings: list[str] = []
    hpcosim: str
    python: str = ""
    git_commit: str | None = None
    policy_name: str
    workload_sha256: str | None = None
    wall_s: float = 0.0
    jobs_sha256: str = ""
    inputs: Raw = Raw(b"{}")


class Simulated(NamedTuple):
    """What a task returns.

    Attributes:
        jobs: the table of jobs as a Parquet file. Empty: the run failed, or no table is wanted.
    """

    result: RunResult
    jobs: bytes = b""
