"""The files of a results folder: the CSV files of `tables`, `metrics.json` and `run.json`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hpcosim_protocol import PROTOCOL_VERSION, Platform
from hpcosim_sim.errors import ResultsError
from hpcosim_sim.record.economics import EconomicsSource, rate_warnings
from hpcosim_sim.record.folder import OWN_FILES, Files, Written, WrittenFile, write_together
from hpcosim_sim.record.metrics import Metrics, measure
from hpcosim_sim.record.recording import STATES, Recording
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_sim.record.tables import tables_of
from hpcosim_sim.record.versions import GitCheckout, git_checkout, package_versions


class WorkloadSource(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of the jobs of a run.

    Attributes:
        kind: the key of the scenario's workload that names it: `swf`, `json`, `trace`, `synthetic`
            or `inline`.
        file: the path as the scenario writes it, or the name of the trace. Of a synthetic model:
            the log that the model imitates. Null: the jobs come from no file.
        sha256: SHA-256 of the file as it is stored, 64 hexadecimal digits. Null: no file.
        jobs_read: number of jobs in the source, without dropped jobs and before `window_s` and
            `jobs` of the scenario select from them.
        jobs_selected: number of jobs of the run.
    """

    kind: str
    file: str | None = None
    sha256: str | None = None
    jobs_read: int
    jobs_selected: int


class Run(msgspec.Struct, kw_only=True):
    """The content of `run.json`: everything that the results depend on.

    A policy must draw its random numbers from `view.rng`; `run.json` has no seed for others. The
    same scenario, overrides, seed and policy give the same file on every transport, as long as the
    versions are the same.

    Attributes:
        scenario: name of the scenario.
        scheduler: name of the policy in results: the scheduler and its power manager. It is the
            `client` of the protocol's `hello`.
        seed: seed of the workload, of the times of switching nodes, and of the policy.
        complete: whether every job of the workload has ended or was rejected.
        ended_because: the reason why the run ended, a sentence.
        warnings: sentences about a run that is probably not what the user wanted, such as one with
            rejected jobs.
        policy: description of the policy, the `policy` of the protocol's `hello`: its name, the
            settings of the scheduler and of the power manager, and checksums of their files.
            Empty: the client sent none.
        overrides: values that replaced those of the scenario file, by dotted path, from the command
            line or from the client.
        effective_scenario: the scenario after overrides, with all defaults, keys as in a scenario
            file. Its `scheduler` is the section of the file; `policy` describes what decided. Null:
            the simulation was not made from a scenario file.
        workload_source: the origin of the jobs. Null: as for `effective_scenario`.
        economics: the origin of price and carbon intensity. Null: the scenario has no `economics`.
        skipped: number of jobs that the reader dropped or changed in the selected window, by rule.
        platform: the simulated cluster.
        hpcosim: version of hpcosim.
        protocol: major version of the protocol.
        packages: versions of `python`, `simpy`, `numpy`, `msgspec` and `pyzmq`.
        engine: what simulated: `reference` or `compiled`. The results are the same.
        realtime: simulated seconds per second of wall-clock time in a run in real time
            (`--realtime`). Such a run is not deterministic: its results depend on the speed of the
            scheduler, the network and the machine. Null: the run was not in real time.
        files: sizes and checksums of the other files that were written with `run.json`, by file
            name. Empty: a version that recorded none wrote the results.
        git: the git checkout that hpcosim runs from. Null: hpcosim is installed from a package.
    """

    scenario: str
    scheduler: str
    seed: int
    complete: bool = False
    ended_because: str = ""
    warnings: Sequence[str] = ()
    policy: Mapping[str, object] = {}
    overrides: Mapping[str, Any] = {}
    effective_scenario: Mapping[str, Any] | None = None
    workload_source: WorkloadSource | None = None
    economics: EconomicsSource | None = None
    skipped: Mapping[str, int] = {}
    platform: Platform | None = None
    hpcosim: str
    protocol: int = PROTOCOL_VERSION
    packages: Mapping[str, str] = {}
    engine: str = "reference"
    realtime: float | None = None
    files: Mapping[str, WrittenFile] = {}
    git: GitCheckout | None = None


Also = Callable[[RunRecord, bool], Files]
"""An additional result writer: returns the files of a run, complete or not, in another format."""

MANY_TIMED_OUT = 0.1
"""Share of jobs killed at their requested time above which there is a warning."""

KEPT_RULES = frozenset(
    {"requested_time_unknown", "out_of_order", "cores_capped", "dependencies_dropped"}
)
"""Rules of the readers that change a job but keep it."""


def metrics_of(record: RunRecord, run: Run) -> Metrics:
    """Return the metrics of a run, finished or not."""
    left_out = sum(count for rule, count in run.skipped.items() if rule not in KEPT_RULES)
    return measure(record, left_out)


def warnings_of(record: RunRecord, run: Run) -> list[str]:
    """Return the warnings about a run, finished or not.

    They are those of `run`, a price or carbon intensity that ends too early, explanations that were
    not recorded, rejected jobs, jobs that could never start, and many jobs killed at their
    requested time.
    """
    found = [*run.warnings, *rate_warnings(record), *record.recording.explanations.warnings()]
    return [*found, *_outcome_warnings(record.recording)]


def _outcome_warnings(recording: Recording) -> Iterator[str]:
    """Yield the warnings about jobs that did not end as their users want."""
    states, reasons, job_id = np.array(recording.state), recording.reasons, recording.job_id
    rejected = np.flatnonzero(states == STATES.index("rejected"))
    if len(rejected):
        first = int(rejected[0])
        why = f": {reasons[first]}" if first in reasons else " by a decision of the scheduler"
        jobs = f"{len(rejected)} of {len(states)} jobs were rejected"
        yield f"{jobs}; the first, job {job_id[first]}{why}"
    cancelled = np.flatnonzero(states == STATES.index("cancelled")).tolist()
    by_reason: dict[str, list[int]] = {}
    for row in cancelled:
        if row in reasons and math.isnan(recording.start_s[row]):
            by_reason.setdefault(reasons[row], []).append(job_id[row])
    if by_reason:
        groups = "; ".join(
            f"{why} ({len(jobs)}, the first is job {jobs[0]})" for why, jobs in by_reason.items()
        )
        count = sum(map(len, by_reason.values()))
        yield f"{count} of {len(states)} jobs could never start: {groups}"
    timed_out = int((states == STATES.index("timeout")).sum())
    if timed_out > MANY_TIMED_OUT * len(states):
        yield (
            f"{timed_out} of {len(states)} jobs were killed at their requested time; hpcosim "
            "validate counts the jobs that need more than they request, also on slower nodes"
        )


def write_results(folder: Path, record: RunRecord, run: Run, also: Sequence[Also] = ()) -> None:
    """Write the files of a run.

    They replace all files of an earlier run, pictures included; other files stay.

    Args:
        folder: the results folder.
        record: a run, finished or not.
        run: what was run.
        also: additional result writers, for files in other formats.

    Raises:
        ResultsError: they cannot be written; the folder is as it was before. The error has the
            metrics.
    """
    about = msgspec.structs.replace(
        run,
        warnings=warnings_of(record, run),
        platform=record.platform,
        packages=package_versions(),
        git=git_checkout(),
    )
    files: dict[str, Iterable[str]] = {
        table.file: table.text(record) for table in tables_of(record)
    }
    metrics = metrics_of(record, run)
    files["metrics.json"] = [to_json(metrics)]
    for files_of in also:
        files |= files_of(record, run.complete)

    def sealed(written: Written) -> str:
        return to_json(msgspec.structs.replace(about, files=written))

    try:
        write_together(folder, files, OWN_FILES, sealed=sealed)
    except ResultsError as error:
        error.metrics = metrics
        raise


def to_json(value: object) -> str:
    """Return indented JSON, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
