"""The stored results of runs: one small file for each key."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from hpcosim_experiments.errors import StoreError
from hpcosim_experiments.runs.plan import Plan, PlannedRun
from hpcosim_experiments.runs.task import RunResult, Simulated
from hpcosim_experiments.whole_files import write_whole
from hpcosim_protocol.files import DRAFT
from hpcosim_scenarios.running.warnings import Warn

FOLDER = "runs"
KEY = re.compile("[0-9a-f]{64}")
DRAFT_AGE_S = 3600.0
"""Age from which the draft of a killed process is removed, s."""


class _File(msgspec.Struct, frozen=True):
    """The content of a result file: a result, and the SHA-256 of its text."""

    sha256: str
    result: msgspec.Raw


class RunStore:
    """The stored results of an experiment, in the folder `runs` of its output folder.

    A result is written to a draft, which is then renamed: at any instant a file is there as a
    whole or not at all. After a crash of the machine a file may be damaged; its checksum shows it.
    Several processes can use the same folder.

    Args:
        warn: called with each damaged file.
    """

    def __init__(self, folder: Path, warn: Warn) -> None:
        self._folder = folder / FOLDER
        self._warn = warn

    def path(self, key: str) -> Path:
        """Return the path of the result of a key."""
        return self._folder / key[:2] / f"{key}.json"

    def jobs_path(self, key: str) -> Path:
        """Return the path of the table of jobs of a key."""
        return self._folder / key[:2] / f"{key}.jobs.parquet"

    def keys(self) -> set[str]:
        """Return the keys that have a file."""
        return {path.stem for path in self._folder.glob("??/*.json") if KEY.fullmatch(path.stem)}

    def read(self, key: str, *, jobs: bool = False) -> RunResult | None:
        """Return a stored result; None: there is none, or it is damaged.

        Args:
            jobs: the result must have a table of jobs.

        Raises:
            StoreError: a file is not readable.
        """
        path = self.path(key)
        try:
            content = path.read_bytes()
            result = _decoded(content)
            if result is None or result.key != key:
                self._warn(f"{path} is damaged or no result of this run; the run is repeated")
                return None
            if jobs and result.status == "ok" and not self._has_jobs(result):
                return None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{path}: cannot be read: {error.strerror}") from None
        return result

    def _has_jobs(self, result: RunResult) -> bool:
        if not result.jobs_sha256:
            return False
        path = self.jobs_path(result.key)
        with suppress(FileNotFoundError):
            if hashlib.sha256(path.read_bytes()).hexdigest() == result.jobs_sha256:
                return True
        self._warn(f"{path} is damaged or missing; the run is repeated")
        return False

    def write(self, simulated: Simulated) -> RunResult:
        """Store a result, and return it as it is stored.

        Raises:
            StoreError: the disk is full, or the folder is not writable.
        """
        result = simulated.result
        if simulated.jobs:
            checksum = hashlib.sha256(simulated.jobs).hexdigest()
            result = msgspec.structs.replace(result, jobs_sha256=checksum)
            write_whole(self.jobs_path(result.key), simulated.jobs)
        text = msgspec.json.encode(result)
        file = _File(hashlib.sha256(text).hexdigest(), msgspec.Raw(text))
        write_whole(self.path(result.key), msgspec.json.encode(file) + b"\n")
        return result

    def sweep(self) -> None:
        """Remove the drafts of processes that were killed long ago."""
        out = self._folder.parent
        for path in (
            *self._folder.glob(f"??/{DRAFT}*"),
            *out.glob(f"{DRAFT}*"),
            *out.glob(f"*/{DRAFT}*"),
        ):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > DRAFT_AGE_S:
                    path.unlink()


def _decoded(content: bytes) -> RunResult | None:
    """Return the result in a file; None: the file is damaged or has another content."""
    try:
        file = msgspec.json.decode(content, type=_File)
        if hashlib.sha256(bytes(file.result)).hexdigest() != file.sha256:
            return None
        return msgspec.json.decode(file.result, type=RunResult)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


# The runs of an experiment that have no stored result yet.

Results = Mapping[str, RunResult]
"""Results by key."""


def stored_results(plan: Plan, store: RunStore) -> dict[str, RunResult]:
    """Return the stored results of an experiment by key, without those of failed runs.

    Raises:
        StoreError: a file is not readable.
    """
    keys = dict.fromkeys(run.key for run in plan.runs)
    found = {key: store.read(key, jobs=plan.experiment.jobs) for key in keys}
    return {key: each for key, each in found.items() if each is not None and each.status == "ok"}


def missing_runs(plan: Plan, results: Results) -> list[PlannedRun]:
    """Return the runs without a result: one per key, those with the same jobs in sequence."""
    runs: dict[str, PlannedRun] = {}
    order: dict[bytes, int] = {}
    for run in plan.runs:
        if run.key not in results:
            runs.setdefault(run.key, run)
            order.setdefault(run.task.table, len(order))
    return sorted(runs.values(), key=lambda run: order[run.task.table])


def summary_of(plan: Plan, store: RunStore, results: Results, *, changed: bool = False) -> str:
    """Return a sentence about the runs: how many are stored, missing and left over.

    Args:
        results: the stored results that are used.
        changed: whether the experiment file has changed since the last start.
    """
    keys = {run.key for run in plan.runs}
    count = len(plan.runs)
    different = f", {len(keys)} of them different" if len(keys) < count else ""
    parts = [f"{plan.experiment.name}: {count} runs{different}"]
    if results:
        parts.append(f"{len(results)} stored results are used")
    parts.append(f"{len(keys) - len(results)} runs to simulate")
    if left := len(store.keys() - keys):
        parts.append(f"{left} stored results of other runs are kept")
    begin = f"{plan.path} has changed since the last start. " if changed else ""
    return begin + "; ".join(parts)


def other_commits(plan: Plan, results: Results) -> str:
    """Return a warning if stored results are of another commit of hpcosim; empty: none is."""
    commits = {run.task.base.git_commit for run in plan.runs}
    count = sum(result.git_commit not in commits for result in results.values())
    if not count:
        return ""
    return f"{count} stored results are of another commit of hpcosim; --force simulates them again"
