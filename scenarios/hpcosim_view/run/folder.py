"""Reader of results folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from hpcosim_protocol import PROTOCOL_VERSION, Platform
from hpcosim_protocol.hosts import NodeNames
from hpcosim_sim.record.checksums import WrittenFile, mismatch
from hpcosim_sim.record.results import Run
from hpcosim_sim.record.tables import TABLES
from hpcosim_sim.record.versions import hpcosim_version
from hpcosim_view.run.csv_columns import located, unreadable
from hpcosim_view.run.drain_rows import read_drains
from hpcosim_view.run.errors import ReadResultsError
from hpcosim_view.run.frame import Frame, frame
from hpcosim_view.run.job_columns import (
    MIXED,
    JobRows,
    ends_of,
    new_names,
    read_explanations,
    read_jobs,
    read_starts,
)
from hpcosim_view.run.lanes import Lanes
from hpcosim_view.run.layout import Ends, LayoutError, Starts, boxes_of
from hpcosim_view.run.node_columns import check_energy, read_spans, watts_of
from hpcosim_view.run.period_rows import read_periods, single_ends

T = TypeVar("T")

MAX_JSON_BYTES = 512 * 2**20
MAX_NODES = 10_000_000
MAX_CORES = 2**30
MAX_INSIDE = 8  # results folders that a message names
BATSIM_FILES = ("out_jobs.csv", "out_schedule.csv")
JOB_COLUMNS = {
    "job.id": "job_id",
    "job.submit_s": "submit_s",
    "job.requested_s": "requested_s",
    "job.cores": "cores",
    "job.placement": "placement",
    "job.user": "user",
    "job.group": "group",
    "job.partition": "partition",
}
"""Columns of `jobs.csv` by column of a frame."""


class _About(msgspec.Struct):
    """The part of `run.json` that is read."""

    scenario: str
    scheduler: str
    seed: int
    complete: bool
    platform: Platform
    protocol: int
    hpcosim: str
    ended_because: str = ""
    warnings: list[str] = []
    effective_scenario: dict[str, Any] | None = None
    workload_source: dict[str, Any] | None = None
    files: dict[str, WrittenFile] = {}


def read_folder(path: Path) -> Frame:
    """Return a results folder as one frame with the whole run.

    Zero-length states of nodes and the order of changes at one instant are not in the files: see
    `boxes_of` for the order of starts and ends.

    Args:
        path: a results folder.

    Raises:
        ReadResultsError: it is not a results folder, a file is missing or damaged, the files are of
            different runs, differ from their checksums in `run.json`, or are of another major
            version of the protocol.
    """
    about = _read_about(path)
    metrics = _json(path / "metrics.json", dict[str, float | int])
    cores_by_node = about.platform.cores_by_node()
    names = new_names()
    jobs = read_jobs(path / "jobs.csv", names)
    if metrics.get("jobs") != len(jobs["job_id"]):
        what = f"{len(jobs['job_id'])} jobs, but metrics.json has {metrics.get('jobs')}"
        raise ReadResultsError(f"{path / 'jobs.csv'}: {what}; the files are of different runs")
    rows = JobRows(path / "jobs.csv", jobs["job_id"])
    periods_file = path / "runs.csv" if (path / "runs.csv").exists() else path / "schedule.csv"
    if periods_file.name == "runs.csv":
        starts, ends, pauses = read_periods(periods_file, rows, jobs)
    else:
        starts, pauses = read_starts(periods_file, rows, jobs), {}
        ends = single_ends(starts, jobs)
    spans = read_spans(path / "nodes.csv", len(cores_by_node))
    check_energy(path / "nodes.csv", spans, metrics.get("energy_j", np.nan))
    first_s = np.concatenate([spans.start_s, jobs["submit_s"][:1]])
    columns = {
        **{name: jobs[column] for name, column in JOB_COLUMNS.items()},
        **_boxes(periods_file, Lanes(cores_by_node), starts, ends, jobs),
        **pauses,
        **ends_of(jobs),
        **spans.power,
        **watts_of(spans),
        **read_drains(path / "drains.csv", len(cores_by_node)),
        **read_explanations(path / "explanations.csv", rows, names),
    }
    start_s = float(first_s.min(initial=np.inf)) if len(first_s) else 0.0
    _check_contents(path, about.files)  # last: errors in a file name the line
    return frame(
        {
            **first_about(about, about.platform, start_s),
            **names.lists(),
            "now_s": float(spans.end_s.max(initial=start_s)),
            "ended_because": about.ended_because,
            "complete": about.complete,
            "metrics": metrics,
            "warnings": about.warnings,
        },
        columns,
    )


def read_settings(path: Path) -> dict[str, Any]:
    """Return what was simulated in a run: its scenario and the source of its workload.

    Args:
        path: a results folder.

    Returns:
        `effective_scenario` and `workload_source` of `run.json`; empty where the version that wrote
        the folder recorded none.

    Raises:
        ReadResultsError: it is not a results folder, or `run.json` is damaged or of another major
            version of the protocol.
    """
    about = _read_about(path)
    return {
        "effective_scenario": about.effective_scenario or {},
        "workload_source": about.workload_source or {},
    }


def _check_contents(path: Path, files: dict[str, WrittenFile]) -> None:
    """Raise an error if the files of a folder are not those of its `run.json`."""
    try:
        difference = mismatch(path, files, [table.file for table in TABLES])
    except OSError as error:
        raise ReadResultsError(f"{path}: a file cannot be read: {error.strerror}") from None
    if difference:
        raise ReadResultsError(f"{path}: {difference}")


def _boxes(
    path: Path, lanes: Lanes, starts: Starts, ends: Ends, jobs: dict[str, Any]
) -> dict[str, Any]:
    """Return the columns of `start` and `box`."""
    try:
        return boxes_of(lanes, starts, ends)
    except LayoutError as error:  # row i of the file has start i
        what = f"job {jobs['job_id'][starts.job[error.start]]}: {error}; {MIXED}"
        raise located(path, error.start, what) from None


def first_about(run: Run | _About, platform: Platform, start_s: float) -> dict[str, Any]:
    """Return the facts of the first frame of a run; see `Frame`."""
    return {
        "scenario": run.scenario,
        "scheduler": run.scheduler,
        "seed": run.seed,
        "hpcosim": run.hpcosim,
        "start_s": start_s,
        "nodes": [
            [group.count, group.cores, f"group {number}"]
            for number, group in enumerate(platform.nodes)
        ],
        **_site_about(platform),
    }


def _site_about(platform: Platform) -> dict[str, Any]:
    """Return the names of the nodes and the partitions, if the platform has any.

    `node_names` is a host list. `node_partitions` has the name, the node ranges, the state, the
    longest requested time in s (None: unlimited) of each partition, and whether it is the default.
    `node_reservations` has the name, the node ranges, begin and end of the first window in s, and
    the time from one window to the next in s (None: one window) of each reservation.
    """
    found: dict[str, Any] = {}
    if any(group.names for group in platform.nodes):
        names = NodeNames(platform)
        found["node_names"] = names.text(range(len(names)))
    if platform.partitions:
        found["node_partitions"] = [
            [each.name, each.nodes, each.state, each.max_time_s, each.default]
            for each in platform.partitions
        ]
    if platform.reservations:
        found["node_reservations"] = [
            [each.name, each.nodes, each.start_s, each.end_s, each.repeat_s]
            for each in platform.reservations
        ]
    return found


def _read_about(path: Path) -> _About:
    """Return the content of `run.json`, after a check that the folder has results."""
    try:
        names = {file.name for file in path.iterdir()}
    except FileNotFoundError:
        raise ReadResultsError(f"{path}: no such folder; expected a results folder") from None
    except NotADirectoryError:
        raise ReadResultsError(f"{path}: a file; expected a results folder") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ReadResultsError(f"{path}: the folder cannot be read: {why}") from None
    if "run.json" not in names:
        raise ReadResultsError(f"{path}: no results folder: {instead_of_results(path)}")
    version = _json(path / "run.json", dict[str, Any])
    protocol, written_by = version.get("protocol"), version.get("hpcosim")
    if protocol != PROTOCOL_VERSION:
        raise ReadResultsError(
            f"{path / 'run.json'}: written by hpcosim {written_by!r:.40} with protocol "
            f"{protocol!r:.40}; hpcosim {hpcosim_version()} reads results of protocol "
            f"{PROTOCOL_VERSION}; read them with the version that wrote them, or run the scenario "
            "again"
        )
    try:
        about = msgspec.convert(version, _About)
    except msgspec.ValidationError as error:
        raise ReadResultsError(f"{path / 'run.json'}: {error}") from None
    groups = about.platform.nodes
    if sum(group.count for group in groups) > MAX_NODES:
        raise ReadResultsError(f"{path / 'run.json'}: expected at most {MAX_NODES} nodes")
    if sum(group.count * group.cores for group in groups) > MAX_CORES:
        raise ReadResultsError(f"{path / 'run.json'}: expected at most {MAX_CORES} cores")
    return about


def instead_of_results(path: Path) -> str:
    """Return what a folder without `run.json` has instead, and what to do.

    Args:
        path: the folder.
    """
    if (path / "experiment.json").exists():
        return (
            "it has the results of an experiment, which keeps no schedules; run one scenario with "
            "`hpcosim run`, or compare schedulers with `hpcosim compare`"
        )
    if any((path / name).exists() for name in BATSIM_FILES):
        return (
            "it has only results in Batsim's format; `hpcosim run SCENARIO --out FOLDER` writes a "
            "results folder, with `--format batsim` also Batsim's files"
        )
    inside = sorted(str(file.parent) for file in path.glob("*/run.json"))
    left = len(inside) - MAX_INSIDE
    more = f" or {left} more" if left > 0 else ""
    if inside:
        return f"run.json is missing; did you mean {' '.join(inside[:MAX_INSIDE])}{more}?"
    return "run.json is missing; `hpcosim run SCENARIO --out FOLDER` writes a results folder"


def _json(path: Path, kind: type[T]) -> T:
    """Return the content of a JSON file."""
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise ReadResultsError(f"{path}: expected at most {MAX_JSON_BYTES} bytes")
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise unreadable(path, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReadResultsError(f"{path}: damaged: {error}") from None
    except RecursionError:
        raise ReadResultsError(f"{path}: damaged: too many levels") from None
