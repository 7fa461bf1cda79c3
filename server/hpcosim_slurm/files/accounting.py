"""Accounting of PBS, LSF, Grid Engine and OAR to a folder with jobs, their runs and a scenario."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcosim_schedulers.heuristics.recorded import recorded_path
from hpcosim_slurm.files import output
from hpcosim_slurm.files.observed_platform import KnownNodes, observed_platform
from hpcosim_slurm.files.record_jobs import RecordedJobs, RecordOptions, jobs_of, uncollected, write
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm.nodes import NodePower
from hpcosim_slurm.files.tables import LONGEST_LINE, lines_of
from hpcosim_workloads.accounting import grid_engine, lsf, oar, pbs
from hpcosim_workloads.accounting.record import Lines, Place, Record, Report, never_started
from hpcosim_workloads.logs.quantities import FieldError

Reader = Callable[[Lines, Report, dict[int, int]], Iterator[Record]]

READERS: Mapping[str, tuple[Reader, str]] = {
    "pbs": (pbs.read_pbs, pbs.ADVICE),
    "lsf": (lsf.read_lsf, lsf.ADVICE),
    "sge": (grid_engine.read_grid_engine, grid_engine.ADVICE),
    "oar": (oar.read_oar, oar.ADVICE),
}
"""Reader of each manager's accounting, and what it expects."""
LONGEST_STATEMENT = 2**24  # bytes of a line of `mysqldump`, which has many rows
JOBS, SCENARIO = "jobs.jsonl", "cluster.yaml"
DEFAULT_OPTIONS = RecordOptions()
UNKNOWN_NODES = KnownNodes()
POWER = NodePower()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingOptions:
    """How accounting is imported.

    Attributes:
        records: how records become jobs.
        known: nodes and cores of the cluster, as far as they are known.
        power: power of the nodes of the scenario.
    """

    records: RecordOptions = DEFAULT_OPTIONS
    known: KnownNodes = UNKNOWN_NODES
    power: NodePower = POWER


DEFAULTS = AccountingOptions()


def import_accounting(
    manager: str, paths: Sequence[Path], out: Path, options: AccountingOptions = DEFAULTS
) -> ImportReport:
    """Write the jobs of a manager's accounting, their runs as they were, and a scenario.

    Args:
        manager: one of `READERS`.
        paths: the files in the order of time, plain or gzipped.
        out: folder to write into: `jobs.jsonl`, `jobs.recorded.csv` and, if hosts are recorded or
            nodes and cores are stated, `cluster.yaml`.

    Raises:
        InputError: a file cannot be read or has no job that started; or a file exists or cannot be
            written. Nothing is written then.
    """
    jobs = out / JOBS
    written = [jobs, recorded_path(jobs), out / SCENARIO]
    output.check_outputs(written, paths, options.records.names)
    report = ImportReport()
    with uncollected():
        found = _read(manager, paths, options.records, report)
        platform = observed_platform(found.histories, options.known, options.power, report)
        _write(manager, found, platform, out, options.records, report)
    return report


def _read(
    manager: str, paths: Sequence[Path], options: RecordOptions, report: ImportReport
) -> RecordedJobs:
    reader, advice = READERS[manager]
    limits: dict[int, int] = {}
    lines = _lines(paths, report, LONGEST_STATEMENT if manager == "oar" else LONGEST_LINE)
    try:
        records = _started(reader(lines, report, limits), report)
        empty = f"the files have no records; expected {advice}"
        found = jobs_of(records, options, report, paths[0], limits, empty)
    except FieldError as error:  # of the file as a whole
        raise output.InputError(str(error), paths[0]) from None
    counts = Counter(history[-1].state for history in found.histories)
    texts = (f"{count:,} {state}" for state, count in sorted(counts.items()))
    report.facts["jobs by state"] = ", ".join(texts)
    return found


def _write(
    manager: str,
    found: RecordedJobs,
    platform: Mapping[str, Any] | None,
    out: Path,
    options: RecordOptions,
    report: ImportReport,
) -> None:
    if platform is None:
        report.facts["scenario"] = (
            "none, because no host is recorded; add --nodes and --cores-per-node for one"
        )
        write(found, out / JOBS, options, report)
        return
    scenario = {
        "name": f"{manager}-cluster",
        "platform": platform,
        "workload": {"json": JOBS},
        "scheduler": {"name": "easy"},
    }
    text = output.scenario_text(scenario, report, f"import {manager}")
    write(found, out / JOBS, options, report, {out / SCENARIO: text.encode()})
    count = sum(group["count"] for group in platform["nodes"])
    queues = len(platform.get("partitions", ()))
    report.written.append(f"{out / SCENARIO}: {count:,} nodes, {queues} partitions")


def _lines(
    paths: Sequence[Path], report: ImportReport, longest: int
) -> Iterator[tuple[Place, str]]:
    for path in paths:
        for number, text in lines_of(path, report, longest):
            yield (number if len(paths) == 1 else f"{path.name}:{number}"), text


def _started(records: Iterable[Record], report: ImportReport) -> Iterator[Record]:
    for record in records:
        if reason := never_started(record):
            report.add("dropped", reason, record.line)
        else:
            yield record
