"""Files of an import: each is written as a whole or not at all, with names replaced.

A file that cannot be read or written, or that would be replaced, is an `InputError`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import yaml

from hpcosim_protocol.errors import HpcosimError
from hpcosim_protocol.files import draft_of, read_regular
from hpcosim_schedulers.heuristics.recorded import COLUMNS, recorded_path
from hpcosim_slurm.files.report import ImportReport, Kind

KINDS = ("user", "group", "account", "name")
NO_FILES: Mapping[Path, bytes] = MappingProxyType({})
KEPT = frozenset(("", "root"))  # `root` is the topmost account of every site
WIDTH = 100
"""Characters of a line of a scenario."""
_NUMBER = re.compile(r"[-+]?[0-9.]+[eE][-+]?[0-9]+")
LISTS = {"allow_accounts": "account", "deny_accounts": "account", "allow_groups": "group"}
"""Attributes of a partition that are lists of names, with the kind of the names."""


def _quoted(dumper: Any, text: str) -> Any:
    """Quote texts such as `1e9`, which PyYAML reads as texts and YAML 1.2 as numbers."""
    style = "'" if _NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper: Any = type("_Dumper", (yaml.SafeDumper,), {})
_Dumper.add_representer(str, _quoted)


def scenario_text(scenario: Mapping[str, Any], report: ImportReport, command: str) -> str:
    """Return a scenario as YAML, with what is guessed and not modelled as comments."""
    lines = [f"# Written by `hpcosim {command}`."]
    kinds: tuple[Kind, ...] = ("guessed", "not modelled")
    for kind in kinds:
        if summary := report.summary(kind):
            lines += ["#", *(f"# {part}" for part in summary.split("; "))]
    body: str = yaml.dump(
        dict(scenario),
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        width=WIDTH,
        allow_unicode=True,
    )
    return "\n".join(lines) + "\n" + body


class RecordedRun(NamedTuple):
    """A run of a job as it happened.

    Attributes:
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
    others: Mapping[Path, bytes] = NO_FILES,
    *,
    force: bool,
) -> list[str]:
    """Write jobs and, if there are any, their recorded runs beside them.

    Args:
        private: further files, which replace existing ones.
        others: further files, which are written together with the jobs.
        force: replace files that exist.

    Returns:
        What was written, for the report.
    """
    encode = msgspec.json.Encoder().encode
    plain = (
        {key: _whole(value) if type(value) is float else value for key, value in line.items()}
        for line in lines
    )
    files = {jobs: b"".join(encode(line) + b"\n" for line in plain)}
    written = [f"{jobs}: {len(lines):,} jobs"]
    if runs and recorded_path(jobs) == jobs:
        raise InputError("the recorded runs get this name; name another file of jobs", jobs)
    if runs:
        files[recorded_path(jobs)] = recorded_runs(runs)
        written.append(f"{recorded_path(jobs)}: {len(runs):,} runs")
    write_files({**files, **others}, force=force)
    write_files(private, force=True)
    return written


def check_outputs(outputs: Collection[Path], inputs: Collection[Path], names: Path | None) -> None:
    """Check that no file that is written is one of those that are read.

    Args:
        names: file of replaced names, which is read and written; None: there is none.
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
    """
    present = [path for path in files if path.exists()]
    if present and not force:
        raise InputError(
            "the file exists; name another one or add --force to replace it", present[0]
        )
    path = Path()
    try:
        with ExitStack() as stack:  # it replaces no file before all drafts are written
            for path, content in files.items():
                stack.enter_context(draft_of(path)).write_bytes(content)
    except OSError as error:
        where = Path(error.filename2) if error.filename2 else path
        raise InputError(f"cannot be written: {error.strerror or error}", where) from None


def _whole(value: float) -> float:
    return int(value) if value == int(value) else round(value, 6)


def _number(value: float) -> str:
    return str(_whole(value))


class Pseudonyms:
    """Replaces names: the first user is `user1`, and so on.

    Args:
        path: file that keeps the replaced names, so that the jobs and the accounts of a cluster get
            the same ones. It must stay private. None: the names are not kept.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
        if path is not None and path.exists():
            self._known |= _read(path)

    def of(self, kind: str, name: str) -> str:
        """Return the replacement of a name.

        Args:
            kind: one of `KINDS`.
            name: the name; an empty one and `root` stay as they are.
        """
        if name in KEPT:
            return name
        known = self._known[kind]
        return known.setdefault(name, f"{'job' if kind == 'name' else kind}{len(known) + 1}")

    def partition(self, partition: Mapping[str, Any]) -> dict[str, Any]:
        """Return a partition of a scenario with replaced names of accounts and groups."""
        return {
            key: [self.of(LISTS[key], name) for name in value] if key in LISTS else value
            for key, value in partition.items()
        }

    def line(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Return a job line with replaced names."""
        return {key: self.of(key, each) if key in KINDS else each for key, each in line.items()}

    def content(self) -> dict[Path, bytes]:
        """Return the file to write, by path; empty: the names are not kept."""
        if self._path is None:
            return {}
        return {self._path: msgspec.json.format(msgspec.json.encode(self._known)) + b"\n"}


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        found = msgspec.json.decode(read_regular(path), type=dict[str, dict[str, str]])
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from None
    except msgspec.DecodeError as error:
        raise InputError(f"expected the names of an earlier import: {error}", path) from None
    if unknown := sorted(set(found) - set(KINDS)):
        raise InputError(f"expected names of {', '.join(KINDS)}, got {unknown[0]!r:.60}", path)
    return found


class InputError(HpcosimError):
    """A file cannot be imported.

    Args:
        line: line in the file, from 1; None: the whole file.
    """

    def __init__(self, what: str, path: Path | None = None, line: int | None = None) -> None:
        super().__init__(what, path, line)
        self.what = what
        self.path = path
        self.line = line

    def __str__(self) -> str:
        where = [] if self.path is None else [str(self.path)]
        where += [] if self.line is None else [str(self.line)]
        return f"{':'.join(where)}: {self.what}" if where else self.what
