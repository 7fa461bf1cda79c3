"""Files of an import, each written as a whole or not at all."""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hpcosim_schedulers.heuristics.recorded import COLUMNS, recorded_path
from hpcosim_slurm.files.errors import InputError


class RecordedRun(NamedTuple):
    """A run of a job as it happened.

    Attributes:
        job_id: number of the job in the workload.
        submit_s: submission of the job, simulated seconds.
        start_s, end_s: simulated seconds; `end_s` None: the job still ran.
        nodes: host list; empty: unknown.
        state: state in which the run ended, as Slurm names it.
    """

    job_id: int
    submit_s: float
    start_s: float
    end_s: float | None
    nodes: str
    state: str


def json_lines(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Return mappings as JSON lines; whole numbers have no decimal point."""
    encoder = msgspec.json.Encoder()
    return b"".join(encoder.encode(_plain(line)) + b"\n" for line in lines)


def recorded_runs(runs: Iterable[RecordedRun]) -> bytes:
    """Return runs as CSV, by start."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in sorted(runs, key=lambda run: (run.start_s, run.job_id)):
        end_s = "" if run.end_s is None else _number(run.end_s)
        writer.writerow(
            (run.job_id, _number(run.submit_s), _number(run.start_s), end_s, run.nodes, run.state)
        )
    return text.getvalue().encode()


def write_jobs(
    jobs: Path,
    lines: Collection[Mapping[str, Any]],
    runs: Collection[RecordedRun],
    private: Mapping[Path, bytes],
    *,
    force: bool,
) -> list[str]:
    """Write jobs and, if there are any, their recorded runs beside them.

    Args:
        jobs: the file of jobs.
        lines: the jobs.
        runs: the recorded runs.
        private: further files, which replace existing ones.
        force: replace files of jobs and runs that exist.

    Returns:
        What was written, for the report.

    Raises:
        InputError: as `write_files`.
    """
    files = {jobs: json_lines(lines)}
    written = [f"{jobs}: {len(lines):,} jobs"]
    if runs and recorded_path(jobs) == jobs:
        raise InputError("the recorded runs get this name; name another file of jobs", jobs)
    if runs:
        files[recorded_path(jobs)] = recorded_runs(runs)
        written.append(f"{recorded_path(jobs)}: {len(runs):,} runs")
    write_files(files, force=force)
    write_files(private, force=True)
    return written


def check_outputs(outputs: Collection[Path], inputs: Collection[Path], names: Path | None) -> None:
    """Check that no file that is written is one of those that are read.

    Args:
        outputs: the files that are written.
        inputs: the files that are read.
        names: file of replaced names, which is read and written; None: there is none.

    Raises:
        InputError: a file is both, perhaps under another name.
    """
    private = [] if names is None else [names]
    pairs = [(path, [*inputs, *private]) for path in outputs]
    for path, others in [*pairs, *((path, inputs) for path in private)]:
        if any(_same(path, each) for each in others):
            what = "the import reads this file, so it cannot write it; name another file to write"
            raise InputError(what, path)


def _same(path: Path, other: Path) -> bool:
    with suppress(OSError):
        return path.samefile(other)
    return False


def write_files(files: Mapping[Path, bytes], *, force: bool = False) -> None:
    """Write files as a whole: if one cannot be written, none is.

    Args:
        files: content by path; missing folders are created.
        force: replace files that exist.

    Raises:
        InputError: a file exists, or cannot be written.
    """
    present = [path for path in files if path.exists()]
    if present and not force:
        raise InputError(
            "the file exists; name another one or add --force to replace it", present[0]
        )
    drafts: dict[Path, Path] = {}
    with ExitStack() as stack:
        for path, content in files.items():
            draft = path.with_name(f".draft-{path.name[:100]}-{secrets.token_hex(4)}")
            stack.callback(_remove, draft)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                draft.write_bytes(content)
            except OSError as error:
                raise InputError(f"cannot be written: {error.strerror or error}", path) from None
            drafts[path] = draft
        for path, draft in drafts.items():
            try:
                draft.replace(path)
            except OSError as error:
                raise InputError(f"cannot be written: {error.strerror or error}", path) from None


def _plain(line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _whole(value) for key, value in line.items()}


def _whole(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value == int(value) else round(value, 6)
    return value


def _number(value: float) -> str:
    return str(_whole(value))


def _remove(draft: Path) -> None:
    with suppress(OSError):
        draft.unlink()
