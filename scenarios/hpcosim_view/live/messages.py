"""Messages between sessions and the hub that shows them.

Sessions send reports, and the hub sends commands. In one process they are passed on as objects;
between processes each is a message of msgpack, see `encode_report`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType

from hpcosim_protocol import ServerStatus
from hpcosim_server.service.pace import Pace, PaceState
from hpcosim_view.errors import PaceError
from hpcosim_view.run.frame import COLUMNS, Frame, frame

EXAMPLE = '{"speed": 3600}, {"speed": null}, {"paused": true} or {"step": 1}'


LENGTH_BYTES = 4
MOST_BYTES = 2**31 - 1


class Stats(NamedTuple):
    """Counters of a session.

    Attributes:
        now_s: simulated time, s.
        jobs_over: number of jobs that have ended or were rejected.
        requests: number of requests of the scheduler.
        decisions: number of its decisions.
        rejected: number of rejected decisions.
        skipped: number of frames that were put off because viewers are slow; the next frame has
            their content.
        messages_per_s: requests in the last second of wall time.
    """

    now_s: float = 0.0
    jobs_over: int = 0
    requests: int = 0
    decisions: int = 0
    rejected: int = 0
    skipped: int = 0
    messages_per_s: float = 0.0

    def plus(self, other: Stats) -> Stats:
        """Return the sums of the counts."""
        return Stats(
            jobs_over=self.jobs_over + other.jobs_over,
            requests=self.requests + other.requests,
            decisions=self.decisions + other.decisions,
            rejected=self.rejected + other.rejected,
            skipped=self.skipped + other.skipped,
        )


class WorkerConnected(Struct, frozen=True, tag="connected"):
    """The first report of a worker on a connection.

    Attributes:
        worker: number of the worker.
    """

    worker: int


class WorkerRestored(Struct, frozen=True, tag="restored"):
    """A worker has restored its sessions: it has no others than those that it has reported."""


class SessionOpened(Struct, frozen=True, tag="opened"):
    """A session is there, or is sent again from its begin.

    Attributes:
        label: public label of the session.
        scenario: name of its scenario.
        scheduler: name of its scheduler.
        jobs: number of jobs in its workload.
        pace: settings of its pace.
        fixed: why viewers cannot change its pace; empty: they can.
    """

    label: str
    scenario: str
    scheduler: str
    jobs: int
    pace: PaceState
    fixed: str


class SessionCounted(Struct, frozen=True, tag="counted"):
    """The counters and the pace of a session."""

    label: str
    stats: Stats
    pace: PaceState


class FrameMade(Struct, frozen=True):
    """A frame of a session.

    Attributes:
        label: public label of the session.
        frame: what the session gained since the frame before.
        is_behind: whether the frame was limited: the session has more.
        is_last: whether the session is over and the frame completes it.
    """

    label: str
    frame: Frame
    is_behind: bool
    is_last: bool


class SessionClosed(Struct, frozen=True, tag="closed"):
    """A session is over.

    Attributes:
        label: public label of the session.
        why: reason for its end.
        failed: whether the session cannot be shown any more.
    """

    label: str
    why: str
    failed: bool = False


class StatusNoted(Struct, frozen=True, tag="status"):
    """The status of the server."""

    status: ServerStatus


class PaceChange(Struct, frozen=True, forbid_unknown_fields=True):
    """A change of the pace; exactly one field is given.

    Attributes:
        speed: simulated seconds per wall-clock second; None: as fast as possible.
        paused: whether to pause.
        step: number of batches of events to run while paused.
    """

    speed: float | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET
    step: int | UnsetType = UNSET


class Watch(Struct, frozen=True, tag="watch"):
    """Make frames of a session from now on, or stop."""

    label: str
    on: bool


class Want(Struct, frozen=True, tag="want"):
    """Make one frame of a session; if it is over, all that are missing."""

    label: str


class Taken(Struct, frozen=True, tag="taken"):
    """A frame of a session has been handled: there is room for another."""

    label: str


class Forget(Struct, frozen=True, tag="forget"):
    """No viewer will see a closed session again."""

    label: str


class ChangePace(Struct, frozen=True, tag="pace"):
    """Change the pace of a session."""

    label: str
    change: PaceChange


Report = (
    WorkerConnected
    | WorkerRestored
    | SessionOpened
    | SessionCounted
    | FrameMade
    | SessionClosed
    | StatusNoted
)
Command = Watch | Want | Taken | Forget | ChangePace
Deliver = Callable[[Report], None]
"""Passes a report to the hub, without waiting."""
Obey = Callable[[Command], None]
"""Passes a command to the sessions, without waiting."""


class _PackedFrame(Struct, frozen=True, tag="frame"):
    """A frame between processes: the bytes of each column that is not empty."""

    label: str
    about: dict[str, Any]
    columns: dict[str, bytes]
    is_behind: bool
    is_last: bool


_Packed = (
    WorkerConnected
    | WorkerRestored
    | SessionOpened
    | SessionCounted
    | _PackedFrame
    | SessionClosed
    | StatusNoted
)
_reports: msgspec.msgpack.Decoder[_Packed] = msgspec.msgpack.Decoder(_Packed)
_commands: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


def encode_report(report: Report) -> bytes:
    """Return the bytes of a report."""
    if not isinstance(report, FrameMade):
        return msgspec.msgpack.encode(report)
    columns = {name: col.tobytes() for name, col in report.frame.columns.items() if len(col)}
    about = dict(report.frame.about)
    packed = _PackedFrame(report.label, about, columns, report.is_behind, report.is_last)
    return msgspec.msgpack.encode(packed)


def decode_report(data: bytes) -> Report:
    """Return the report in some bytes.

    Raises:
        msgspec.MsgspecError: they are none.
        ValueError: columns of the same prefix differ in length.
    """
    packed = _reports.decode(data)
    if not isinstance(packed, _PackedFrame):
        return packed
    columns = {
        name: np.frombuffer(data, COLUMNS[name].type)
        for name, data in packed.columns.items()
        if name in COLUMNS
    }
    made = frame(packed.about, columns)
    return FrameMade(packed.label, made, packed.is_behind, packed.is_last)


def encode_command(command: Command) -> bytes:
    """Return the bytes of a command."""
    return msgspec.msgpack.encode(command)


def decode_command(data: bytes) -> Command:
    """Return the command in some bytes.

    Raises:
        msgspec.MsgspecError: they are none.
    """
    return _commands.decode(data)


def pace_change(body: bytes) -> PaceChange:
    """Return the change in a request.

    Raises:
        PaceError: the request is invalid.
    """
    try:
        change = msgspec.json.decode(body, type=PaceChange)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PaceError(f"{error}; expected {EXAMPLE}") from None
    if sum(value is not UNSET for value in (change.speed, change.paused, change.step)) != 1:
        raise PaceError(f"expected one of {EXAMPLE}")
    apply(change, Pace())
    return change


def apply(change: PaceChange, pace: Pace) -> None:
    """Change a pace.

    Raises:
        PaceError: a value is out of range, or the pace cannot be changed.
    """
    try:
        if not isinstance(change.speed, UnsetType):
            pace.change_speed(change.speed)
        elif not isinstance(change.paused, UnsetType):
            pace.pause() if change.paused else pace.resume()
        elif not isinstance(change.step, UnsetType):
            pace.step(change.step)
    except ValueError as error:
        raise PaceError(str(error)) from None


def changed(state: PaceState, change: PaceChange) -> PaceState:
    """Return the settings of a pace after a change."""
    if not isinstance(change.speed, UnsetType):
        return state._replace(speed=change.speed)
    paused = True if isinstance(change.paused, UnsetType) else change.paused
    return state._replace(paused=paused)


def framed(data: bytes) -> bytes:
    """Return a message with its length.

    Raises:
        ValueError: it is too long.
    """
    if len(data) > MOST_BYTES:
        raise ValueError(f"expected a message of at most {MOST_BYTES} bytes, got {len(data)}")
    return len(data).to_bytes(LENGTH_BYTES) + data


async def read_message(stream: asyncio.StreamReader) -> bytes:
    """Return the next message of a stream.

    Raises:
        asyncio.IncompleteReadError: the stream has ended.
    """
    return await stream.readexactly(int.from_bytes(await stream.readexactly(LENGTH_BYTES)))


def receive_message(connection: socket.socket) -> bytes:
    """Return the next message of a blocking socket.

    Raises:
        ConnectionError: it is closed.
    """
    return _receive(connection, int.from_bytes(_receive(connection, LENGTH_BYTES)))


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(2**20, size - len(parts)))
        if not part:
            raise ConnectionResetError("the other process has closed the connection")
        parts += part
    return bytes(parts)
