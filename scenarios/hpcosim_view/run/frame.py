"""Frames: what a run gained since the frame before, as columns, and their encoding.

A results folder is one frame with the whole run; a running simulation yields a frame each time it
is looked at. Readers append frames: rows of jobs keep their numbers over all frames of a run.

Encoding: the text `HPCF`, then a zlib stream of a header and the columns. The header is its length
in bytes (uint32) and JSON: `{"format": 1, "about": {...}, "columns": [[name, type, rows], ...]}`.
The bytes of each column follow without a gap, in the order of the header. All numbers are
little-endian. For better compression each element of a column is combined with the one before it
by exclusive or, and the bytes of a column are ordered by significance: first the lowest byte of all
elements, then the second, and so on.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hpcosim_sim.record.periods import PERIOD_ENDS
from hpcosim_view.errors import FrameError

FORMAT = 1
MAGIC = b"HPCF"
MAX_BYTES = 4 * 2**30
"""Largest decoded frame, bytes."""

Columns = Mapping[str, NDArray[Any]]


SUSPENDED = PERIOD_ENDS.index("suspended")
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Column(NamedTuple):
    """A column of a frame."""

    type: str
    meaning: str


COLUMNS: Mapping[str, Column] = {
    # One row per submitted job, in order of submission.
    "job.id": Column("<i8", "job id"),
    "job.submit_s": Column("<f8", "submission time, s"),
    "job.requested_s": Column("<f8", "requested run time, s; NaN: unknown"),
    "job.cores": Column("<i4", "requested cores"),
    "job.placement": Column("<u1", "index into `hpcosim_workloads.table.PLACEMENTS`"),
    "job.user": Column("<i4", "index into the users; -1: unknown"),
    "job.group": Column("<i4", "index into the groups; -1: unknown"),
    "job.partition": Column("<i4", "index into the partitions; -1: unknown"),
    # One row per begin of a computing period, in chronological order: a start or a resumption.
    "start.job": Column("<i4", "row of the job"),
    "start.time_s": Column("<f8", "time of the begin, s"),
    "start.boxes": Column("<u4", "number of rows of `box` that belong to this start"),
    # Adjacent cores that a job holds; cores are numbered through all nodes. The rows of each start
    # are consecutive, in the order of the starts.
    "box.first": Column("<u4", "first core"),
    "box.last": Column("<u4", "last core"),
    # One row per end of a computing period after which the job was not over. If the job of a
    # suspended period is requeued, a running simulation adds a row with the same time;
    # the last row of a period counts.
    "pause.start": Column("<i4", "row of `start`: the period that ended"),
    "pause.time_s": Column("<f8", "time of the end, s"),
    "pause.why": Column("<u1", "index into `hpcosim_sim.record.periods.PERIOD_ENDS`"),
    # One row per end, rejections included, in chronological order.
    "end.job": Column("<i4", "row of the job"),
    "end.time_s": Column("<f8", "time of the end, s"),
    "end.state": Column("<u1", "index into `hpcosim_sim.record.recording.STATES`"),
    "end.energy_j": Column("<f8", "energy attributed to the job, J; NaN: unknown"),
    # One row per change of a node's power state, in chronological order; all nodes begin as `on`.
    "power.time_s": Column("<f8", "time of the change, s"),
    "power.node": Column("<u4", "node number"),
    "power.state": Column("<u1", "index into `hpcosim_sim.record.recording.POWER_STATES`"),
    # One row per begin or end of a drain of a node, in chronological order.
    "drain.time_s": Column("<f8", "time of the change, s"),
    "drain.node": Column("<u4", "node number"),
    "drain.drained": Column("<u1", "1: the node accepts no new jobs from then on; 0: it does"),
    # One row per change of the power of all nodes in one state, in chronological order.
    "watts.time_s": Column("<f8", "time of the change, s"),
    "watts.state": Column("<u1", "index into `hpcosim_sim.physics.power.NODE_STATES`"),
    "watts.power_w": Column("<f8", "power of all nodes in this state from this time on, W"),
    # One row per explanation of a scheduler why a job waits, in chronological order.
    "explain.job": Column("<i4", "row of the job"),
    "explain.time_s": Column("<f8", "time of the explanation, s"),
    "explain.reason": Column("<u2", "index into the reasons"),
    "explain.expected_start_s": Column("<f8", "expected start, s; NaN: none"),
}
"""The columns of a frame, by name. Those with the same prefix have the same number of rows."""

NAMES = ("users", "groups", "partitions", "reasons")
"""Keys of `about` with lists of names. A frame has the names that are new in it."""


class Frame(NamedTuple):
    """What a run gained since the frame before.

    Attributes:
        about: facts as JSON values. Every frame has `now_s` (simulated time up to which it is
            complete, s) and the lists of `NAMES`. The first frame of a run also has `scenario`,
            `scheduler`, `seed`, `hpcosim` (version), `start_s` and `nodes`: `[[count, cores,
            group], ...]`, the number of nodes, the cores of each and the name of their group, in
            order of node numbers. The last frame has `ended_because`, `complete`, `metrics` and
            `warnings`.
        columns: an array for each name of `COLUMNS`, of its type.
    """

    about: Mapping[str, Any]
    columns: Columns


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    about: dict[str, Any]
    columns: list[tuple[str, str, int]]


def frame(about: Mapping[str, Any], columns: Mapping[str, Any]) -> Frame:
    """Return a frame of these columns; a missing column is empty.

    Args:
        about: see `Frame`; missing lists of names are empty.
        columns: sequences by names of `COLUMNS`.

    Raises:
        ValueError: a column is unknown, or columns of the same prefix differ in length.
    """
    if unknown := set(columns) - set(COLUMNS):
        raise ValueError(f"unknown columns: {', '.join(sorted(unknown))}")
    arrays = {
        name: np.asarray(columns.get(name, ()), dtype=column.type)
        for name, column in COLUMNS.items()
    }
    rows: dict[str, int] = {}
    for name, array in arrays.items():
        prefix = name.partition(".")[0]
        if rows.setdefault(prefix, len(array)) != len(array):
            raise ValueError(f"{name} has {len(array)} rows; expected {rows[prefix]}")
    return Frame({**{name: [] for name in NAMES}, **about}, arrays)


def append(frames: Iterable[Frame]) -> Frame:
    """Return the successive frames of a run as one frame; without frames, an empty one."""
    about: dict[str, Any] = {name: [] for name in NAMES}
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS}
    for each in frames:
        names = {name: [*about[name], *each.about.get(name, ())] for name in NAMES}
        about = {**about, **each.about, **names}
        for name, column in each.columns.items():
            parts[name].append(column)
    return frame(about, {name: np.concatenate(part) for name, part in parts.items() if part})


def encode_frame(frame: Frame, level: int = 6) -> bytes:
    """Return the encoded frame; `level` is that of zlib, from 0 (fast) to 9 (small)."""
    columns = [(name, frame.columns[name]) for name in COLUMNS]
    header = msgspec.json.encode(
        _Header(
            FORMAT,
            dict(frame.about),
            [(name, COLUMNS[name].type, len(column)) for name, column in columns],
        )
    )
    packer = zlib.compressobj(level)
    parts = [MAGIC, packer.compress(len(header).to_bytes(4, "little") + header)]
    parts += [packer.compress(_planes(column)) for _, column in columns]
    return b"".join([*parts, packer.flush()])


def decode_frame(data: bytes) -> Frame:
    """Return the frame that `encode_frame` encoded.

    Raises:
        FrameError: the bytes are no frame, are damaged, or have another format.
    """
    if data[:4] != MAGIC:
        raise FrameError(f"expected a frame, which begins with {MAGIC!r}; got {data[:4]!r}")
    try:
        unpacker = zlib.decompressobj()
        body = memoryview(unpacker.decompress(data[4:], MAX_BYTES))
        first = 4 + int.from_bytes(body[:4], "little")
        header = msgspec.json.decode(body[4:first], type=_Header)
    except (zlib.error, msgspec.DecodeError) as error:
        raise FrameError(f"the frame is damaged: {error}") from None
    if header.format != FORMAT:
        raise FrameError(f"the frame has format {header.format}; expected {FORMAT}")
    columns: dict[str, NDArray[Any]] = {}
    for name, kind, rows in header.columns:
        if name not in COLUMNS or kind != COLUMNS[name].type:
            raise FrameError(f"the frame is damaged: it has a column {name!r} of type {kind!r}")
        size = rows * np.dtype(kind).itemsize
        part = body[first : first + size]
        if rows < 0 or len(part) != size or not unpacker.eof:
            raise FrameError(f"the frame is damaged: column {name} is cut off")
        columns[name] = _elements(part, kind, rows)
        first += size
    return Frame(header.about, columns)


def _planes(column: NDArray[Any]) -> bytes:
    """Return the bytes of a column as they are encoded."""
    size = column.dtype.itemsize
    planes = column.view(np.uint8).reshape(-1, size).copy()
    planes[1:] ^= column.view(np.uint8).reshape(-1, size)[:-1]
    return planes.T.tobytes()


def _elements(part: memoryview, kind: str, rows: int) -> NDArray[Any]:
    """Return the column that `_planes` encoded."""
    planes = np.frombuffer(part, np.uint8).reshape(np.dtype(kind).itemsize, rows).T
    elements = np.bitwise_xor.accumulate(planes, axis=0, dtype=np.uint8)
    return np.ascontiguousarray(elements).view(kind).reshape(rows)


class JobPeriods(NamedTuple):
    """The computing periods of a run of the simulation, one element for each row of `start`.

    Attributes:
        end_s: end of the period, s; NaN: it lasts.
        why: index into `PERIOD_ENDS`; 0: it lasts, or the job was over.
        run: number of the run of a job that it belongs to, in no particular order; the periods of
            the same run have the same number.
        resumes: whether it continues a suspended run.
        run_start_s: start of its run, s.
        last: row of `start` with the last period of each job, by row of the job; -1: none.
    """

    end_s: Floats
    why: Ints
    run: Ints
    resumes: NDArray[np.bool_]
    run_start_s: Floats
    last: Ints

    @property
    def requeued(self) -> NDArray[np.bool_]:
        """Whether the job waits again after the period."""
        return self.why > SUSPENDED

    def computed_s(self, start_s: Floats, until_s: float) -> Floats:
        """Return the time that the run of each period has computed up to a time, s."""
        end_s = np.fmin(self.end_s, until_s)
        parts_s = np.maximum(end_s - start_s, 0.0)
        runs_s = np.zeros(len(parts_s))
        np.add.at(runs_s, self.run, parts_s)
        return runs_s[self.run]


def periods_of(frame: Frame) -> JobPeriods:
    """Return the computing periods of a run."""
    columns = frame.columns
    job, start_s = columns["start.job"].astype(np.int64), columns["start.time_s"]
    count = len(job)
    why = np.zeros(count, np.int64)
    why[columns["pause.start"]] = columns["pause.why"]
    last = np.full(len(columns["job.id"]), -1, np.int64)
    last[job] = np.arange(count)  # the last assignment counts
    over_s = np.full(len(last), np.nan)
    over_s[columns["end.job"]] = columns["end.time_s"]
    end_s = np.where(last[job] == np.arange(count), over_s[job], np.nan)
    end_s[columns["pause.start"]] = columns["pause.time_s"]
    order = np.argsort(job, kind="stable")
    follows = np.zeros(count, bool)  # in this order: the element before is of the same job
    follows[1:] = job[order[1:]] == job[order[:-1]]
    resumed = follows & (np.roll(why[order], 1) == SUSPENDED)
    run, resumes = np.zeros(count, np.int64), np.zeros(count, bool)
    run[order], resumes[order] = np.cumsum(~resumed) - 1, resumed
    run_start_s = start_s[order][~resumed][run]
    return JobPeriods(end_s, why, run, resumes, run_start_s, last)
