"""Reader of results folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import PROTOCOL_VERSION, Platform
from hpcosim_protocol.hosts import NodeNames
from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.record.folder import WrittenFile, mismatch
from hpcosim_sim.record.periods import FIRST_FINAL, PERIOD_ENDS
from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_sim.record.results import Run
from hpcosim_sim.record.tables import DRAIN_CHANGES, TABLES
from hpcosim_sim.record.versions import hpcosim_version
from hpcosim_view.errors import ReadResultsError
from hpcosim_view.run import csv_columns as read
from hpcosim_view.run.csv_columns import located, unreadable
from hpcosim_view.run.frame import Frame, frame
from hpcosim_view.run.job_columns import (
    MIXED,
    JobRows,
    ends_of,
    joined,
    new_names,
    read_allocations,
    read_explanations,
    read_jobs,
    read_starts,
    starts_of,
)
from hpcosim_view.run.lanes import Ends, Lanes, LayoutError, Starts, boxes_of

# The columns of a frame that `nodes.csv` has: power states and power of the nodes.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ON = POWER_STATES.index("on")
IS_ON = np.array([state in ("computing", "idle") for state in NODE_STATES])
POWER_STATE = np.array(
    [ON if on else POWER_STATES.index(state) for state, on in zip(NODE_STATES, IS_ON, strict=True)]
)
"""Index into `POWER_STATES` of each node state."""

MAX_POWER_W = 1e12
HIGH_BITS, LOW_BITS = 20, 33  # of fixed-point numbers: units of 2^-20 W, and of 2^-53 W


class Spans(NamedTuple):
    """Periods in which nodes keep state and power, one row each.

    Attributes:
        start_s, end_s: begin and end, s.
        state: index into `NODE_STATES`.
        power_w: power of each of the nodes, W.
        nodes: number of nodes.
        power: the changes of power states, columns of a frame.
    """

    start_s: Floats
    end_s: Floats
    state: Ints
    power_w: Floats
    nodes: Ints
    power: dict[str, Any]

    @property
    def energy_j(self) -> float:
        """Energy of all nodes, J."""
        return float((self.nodes * self.power_w) @ (self.end_s - self.start_s))


def read_spans(path: Path, nodes: int) -> Spans:
    """Return the content of `nodes.csv`.

    Raises:
        ReadResultsError: the file is missing or damaged.
    """
    columns: dict[str, read.Convert] = {
        "start_s": read.times_s,
        "end_s": read.times_s,
        "nodes": read.intervals,
        "state": read.one_of(NODE_STATES),
        "power_w": read.amounts,
    }
    spans: list[tuple[Any, ...]] = []
    off: list[tuple[Any, ...]] = []
    row = 0
    for block in read.read_columns(path, columns):
        start_s, end_s, (parts, first, last), state, power_w = (block[name] for name in columns)
        row_of = np.repeat(np.arange(len(parts)), parts)
        count = np.bincount(row_of, last - first + 1, len(parts)).astype(np.int64)
        wrong = (start_s >= end_s) | (count * power_w > MAX_POWER_W)
        wrong[row_of[(first < 0) | (last >= nodes)]] = True
        if wrong.any():
            what = f"expected start_s < end_s, nodes from 0 to {nodes - 1}, and their power in W"
            raise read.located(path, row + int(np.flatnonzero(wrong)[0]), what)
        spans.append((start_s, end_s, state, power_w, count))
        of = ~IS_ON[state[row_of]]
        off.append(_each_node(first[of], last[of], row_of[of], start_s, end_s, state))
        row += len(parts)
    if not spans:
        none = np.zeros(0)
        return Spans(none, none, none.astype(int), none, none.astype(int), {})
    start_s, end_s, state, power_w, count = map(np.concatenate, zip(*spans, strict=True))
    node, begin_s, until_s, power = map(np.concatenate, zip(*off, strict=True))
    changes = _power_changes(node, begin_s, until_s, power, float(end_s.max()))
    return Spans(start_s, end_s, state, power_w, count, changes)


def _each_node(
    first: Ints, last: Ints, row: Ints, start_s: Floats, end_s: Floats, state: Ints
) -> tuple[Ints, Floats, Floats, Ints]:
    """Return node, begin, end and power state of each node of intervals of nodes."""
    size = last - first + 1
    before = np.cumsum(size) - size
    node = np.repeat(first - before, size) + np.arange(size.sum())
    row = np.repeat(row, size)
    return node, start_s[row], end_s[row], POWER_STATE[state[row]]


def _power_changes(
    node: Ints, start_s: Floats, end_s: Floats, state: Ints, now_s: float
) -> dict[str, Any]:
    """Return the changes of power states, from the periods in which nodes are not on."""
    order = np.lexsort((start_s, node))
    node, start_s, end_s, state = node[order], start_s[order], end_s[order], state[order]
    followed = np.zeros(len(node), bool)
    followed[:-1] = (node[1:] == node[:-1]) & (start_s[1:] == end_s[:-1])
    wakes = ~followed & (end_s < now_s)
    time_s = np.concatenate([start_s, end_s[wakes]])
    nodes = np.concatenate([node, node[wakes]])
    states = np.concatenate([state, np.full(wakes.sum(), ON)])
    order = np.lexsort((nodes, time_s))
    return {
        "power.time_s": time_s[order],
        "power.node": nodes[order],
        "power.state": states[order],
    }


def watts_of(spans: Spans) -> dict[str, Any]:
    """Return the columns of `watts`: the power of all nodes by state.

    Sums of floating-point numbers over many changes gather rounding errors, so the power is added
    as fixed-point numbers of two integers. Multiples of 2^-53 W are exact.
    """
    scaled = spans.power_w * 2.0**HIGH_BITS
    high = np.floor(scaled)
    low = np.rint((scaled - high) * 2.0**LOW_BITS)
    now_s = spans.end_s.max(initial=-np.inf)
    rows = []
    for state in range(len(NODE_STATES)):
        of = spans.state == state
        times_s = np.concatenate([spans.start_s[of], spans.end_s[of]])
        order = np.argsort(times_s, kind="stable")
        at_s, first = np.unique(times_s[order], return_index=True)
        power_w = np.zeros(len(at_s))
        for part, bits in ((high, HIGH_BITS), (low, HIGH_BITS + LOW_BITS)):
            change = part[of].astype(np.int64) * spans.nodes[of]
            changes = np.concatenate([change, -change])[order]
            if len(first):
                power_w += np.cumsum(np.add.reduceat(changes, first)) * 2.0**-bits
        changed = (np.diff(power_w, prepend=0.0) != 0.0) & (at_s < now_s)
        rows.append((at_s[changed], np.full(changed.sum(), state), power_w[changed]))
    times, states, powers = map(np.concatenate, zip(*rows, strict=True))
    order = np.lexsort((states, times))
    return {
        "watts.time_s": times[order],
        "watts.state": states[order],
        "watts.power_w": powers[order],
    }


def check_energy(path: Path, spans: Spans, energy_j: float) -> None:
    """Check that `nodes.csv` and `metrics.json` have the same energy.

    Raises:
        ReadResultsError: they differ by more than rounding errors.
    """
    if not np.isclose(spans.energy_j, energy_j, rtol=1e-6, atol=1e-6):
        raise ReadResultsError(
            f"{path}: the energy of all rows is {spans.energy_j:g} J, but metrics.json has "
            f"{energy_j:g} J; the files are of different runs, or one is cut off"
        )


# The computing periods of a run: `runs.csv`, or the jobs themselves if each has one period.


def single_ends(starts: Starts, jobs: Mapping[str, Any]) -> Ends:
    """Return the ends of jobs that have one computing period each."""
    end_s = jobs["end_s"][starts.job]
    ended = np.flatnonzero(~np.isnan(end_s))
    return Ends(starts.period[ended], end_s[ended])


def read_periods(
    path: Path, rows: JobRows, jobs: Mapping[str, Any]
) -> tuple[Starts, Ends, dict[str, Any]]:
    """Return the begins and ends of the periods in `runs.csv`, and the columns of `pause`.

    Raises:
        ReadResultsError: the file is damaged, or contradicts `jobs.csv`.
    """
    columns: dict[str, read.Convert] = {
        "job_id": read.integers,
        "run": read.counts,
        "start_s": read.times_s,
        "end_s": read.optional_times_s,
        "end": read.one_of(PERIOD_ENDS),
    }
    whole = read_allocations(path, columns)
    job = rows.of(path, whole["job_id"])
    start_s, end_s, why = whole["start_s"], whole["end_s"], whole["end"]
    final = why >= FIRST_FINAL
    wrong = (whole["nodes"] == 0) | (whole["nodes"] != whole["tasks"]) | (end_s < start_s)
    wrong |= (np.isnan(end_s) != (why == 0)) | (final & (end_s != jobs["end_s"][job]))
    wrong[1:] |= start_s[1:] < start_s[:-1]
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        what = (
            f"job {whole['job_id'][row]}: expected rows in order of start_s, each with its end, "
            f"its nodes and as many numbers of tasks, and the end of its job in jobs.csv; {MIXED}"
        )
        raise read.located(path, row, what)
    ended = np.flatnonzero(why > 0)
    starts = starts_of(whole, jobs, job, np.ones(len(job), bool))
    paused = np.flatnonzero((why > 0) & ~final)
    paused = paused[np.argsort(end_s[paused], kind="stable")]
    pauses = {"pause.start": paused, "pause.time_s": end_s[paused], "pause.why": why[paused]}
    return starts, Ends(ended, end_s[ended]), pauses


# The drains of nodes: `drains.csv`.


def read_drains(path: Path, nodes: int) -> dict[str, Any]:
    """Return the columns of `drain`; empty: there is no `drains.csv`.

    Raises:
        ReadResultsError: the file is damaged, or has a node that the platform lacks.
    """
    if not path.exists():
        return {}
    columns: dict[str, read.Convert] = {
        "time_s": read.times_s,
        "node": read.integers,
        "change": read.one_of(DRAIN_CHANGES),
    }
    found = joined(read.read_columns(path, columns), [*columns])
    wrong = (found["node"] < 0) | (found["node"] >= nodes)
    wrong[1:] |= found["time_s"][1:] < found["time_s"][:-1]
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise read.located(
            path, row, f"expected rows in order of time_s, nodes from 0 to {nodes - 1}"
        )
    return {
        "drain.time_s": found["time_s"],
        "drain.node": found["node"],
        "drain.drained": found["change"],
    }


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
    """Return what a folder without `run.json` has instead, and what to do."""
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
