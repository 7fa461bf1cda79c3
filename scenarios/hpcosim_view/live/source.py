"""The source of one session: looks at its simulation, and reports to the hub without waiting."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from hpcosim_protocol import ServerStatus
from hpcosim_server import log
from hpcosim_server.service.pace import Pace, PaceState
from hpcosim_server.service.session import Opened
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_view.errors import PaceError
from hpcosim_view.live.messages import (
    ChangePace,
    Command,
    Deliver,
    Forget,
    FrameMade,
    SessionClosed,
    SessionCounted,
    SessionOpened,
    Stats,
    StatusNoted,
    Taken,
    Want,
    Watch,
    apply,
)
from hpcosim_view.run.frame import Frame

QUEUE = 8
"""Maximum number of frames of a session that the hub has not handled."""
RATE_WINDOW_S = 1.0
WORK = 5000
"""Limit of the work of a look: some 0.1 s, so that a late viewer does not hold the simulation."""
ROOM_S = 1.0  # between two checks whether there is room for a frame
FAILED = "the live view of this session failed; see the log"


MAX_CLOSED = 16
"""Number of closed sessions whose simulations stay for viewers."""


class FrameReader(Protocol):
    """Reads a running simulation; see `RecordingReader`."""

    is_behind: bool

    def frame(self, work: int | None = None) -> Frame:
        """Return what is new since the last call, limited to some work."""


class Source:
    """What the hub gets of a session.

    The thread of the simulation calls `look`, `close` and `fail`; `watch`, `want` and `note_taken`
    are for another thread and return at once. After the end of the session, a thread of its own
    makes the frames that are missing, if someone wants them.

    Args:
        label: public label of the session.
        reader: makes the reader of its simulation when the first frame is wanted.
        deliver: passes reports to the hub.

    Attributes:
        is_over: whether the session is over.
        is_complete: whether the hub has all of it, so that the source is of no more use.
    """

    def __init__(
        self,
        label: str,
        opened: Opened,
        pace: Pace,
        reader: Callable[[Opened], FrameReader],
        deliver: Deliver,
    ) -> None:
        self.is_over = self.is_complete = False
        self.pace = pace
        self._label, self._opened = label, opened
        self._new_reader, self._deliver = reader, deliver
        self._reader: FrameReader | None = None
        self._reading = threading.RLock()  # held while a frame is made
        self._round = -1
        self._stats = Stats()
        self._rates: deque[tuple[float, int]] = deque(maxlen=16)
        self._is_watched = self._is_wanted = False
        self._made = self._taken = 0  # each is changed by one thread
        self._has_room = threading.Event()
        self._finishing = threading.Lock()  # held by the thread that makes the last frames

    def announce(self, number: int) -> None:
        """Report the session from its begin, unless this was done on a connection."""
        with self._reading:
            if self._round == number:
                return
            self._round, self._reader = number, None
            self._is_watched = self._is_wanted = False
            self._made = self._taken = 0
            run, jobs = self._opened.run, self._opened.jobs
            about = (self._label, run.scenario, run.scheduler, jobs)
            self._deliver(SessionOpened(*about, self.pace.state, self.pace.fixed))
            if self.is_over:
                self._report_end()

    # In the thread of the simulation

    def look(self) -> bool:
        """Report the counters and, if someone watches, a frame.

        Returns:
            Whether the next look is due soon: the frame was limited, and the hub keeps up.
        """
        with self._reading:
            skips = self._is_due and not self._room
            self._stats = self._read_stats(self._opened.simulation, skips)
            self._deliver(SessionCounted(self._label, self._stats, self.pace.state))
            return self._is_due and not skips and self._report_frame()

    def close(self) -> None:
        """Report the end of the session."""
        with self._reading:
            stats = self._read_stats(self._opened.simulation, False)
            self._stats = stats._replace(messages_per_s=0.0)
            self.is_over = True
            self._report_end()
        self._finish_if_due()

    def fail(self) -> None:
        """Report that the session cannot be shown any more."""
        self.is_complete = True
        self._deliver(SessionClosed(self._label, FAILED, failed=True))

    # In another thread

    def watch(self, on: bool) -> None:
        """Make frames from now on, or stop."""
        self._is_watched = on
        self._finish_if_due()

    def want(self) -> None:
        """Make one frame; after the end of the session, all that are missing."""
        self._is_wanted = True
        self._finish_if_due()

    def note_taken(self) -> None:
        """Note that the hub has handled a frame."""
        self._taken += 1
        self._has_room.set()

    def wait_complete(self, timeout_s: float) -> None:
        """Wait until the frames that the hub wants of a closed session are made."""
        if self.is_over and self._finishing.acquire(timeout=max(0.0, timeout_s)):
            self._finishing.release()

    @property
    def _is_due(self) -> bool:
        return self._is_watched or self._is_wanted

    @property
    def _room(self) -> bool:
        return self._made - self._taken < QUEUE

    def _finish_if_due(self) -> None:
        """Start to make the last frames, unless a thread does."""
        if not (self.is_over and self._is_due) or self.is_complete:
            return
        if self._finishing.acquire(blocking=False):
            threading.Thread(target=self._finish, name="hpcosim-last-frames", daemon=True).start()

    def _finish(self) -> None:
        """Make the last frames: all of them, also if the viewer leaves."""
        at = self._round
        try:
            while not self.is_complete and self._round == at:
                if self._room:
                    with self._reading:
                        if self._round == at:
                            self._report_frame()
                else:
                    self._has_room.clear()
                    if not self._room:
                        self._has_room.wait(ROOM_S)
        except Exception as error:  # a bug of the live view
            log.exception("live_view_failed", session=self._label, error=str(error))
            self.fail()
        finally:
            self._finishing.release()
        self._finish_if_due()  # again, if the connection has changed

    def _report_end(self) -> None:
        self._deliver(SessionCounted(self._label, self._stats, self.pace.state))
        why = self._opened.run.ended_because or "the session is over"
        self._deliver(SessionClosed(self._label, why))

    def _report_frame(self) -> bool:
        """Make and report a frame; return whether it was limited."""
        if self._reader is None:
            self._reader = self._new_reader(self._opened)
        self._is_wanted = False
        new = self._reader.frame(WORK)
        is_behind = self._reader.is_behind
        self._is_wanted |= is_behind
        self._made += 1
        self.is_complete = self.is_over and not is_behind
        made = Frame({**new.about, "live": live_of(self._stats, self.pace.state)}, new.columns)
        self._deliver(FrameMade(self._label, made, is_behind, self.is_complete))
        return is_behind

    def _read_stats(self, simulation: Simulation, skips: bool) -> Stats:
        at_s, requests = time.monotonic(), simulation.requests
        while len(self._rates) > 1 and at_s - self._rates[1][0] >= RATE_WINDOW_S:
            self._rates.popleft()
        self._rates.append((at_s, requests))
        since_s, before = self._rates[0]
        rate = (requests - before) / max(at_s - since_s, 1e-3)
        return Stats(
            now_s=simulation.now_s,
            jobs_over=simulation.recording.over,
            requests=requests,
            decisions=simulation.decisions,
            rejected=simulation.rejected,
            skipped=self._stats.skipped + skips,
            messages_per_s=rate,
        )


def live_of(stats: Stats, pace: PaceState) -> dict[str, Any]:
    """Return the entry `live` of a frame's `about`."""
    return {
        "requests": stats.requests,
        "rejected": stats.rejected,
        "messages_per_s": round(stats.messages_per_s, 1),
        "speed": pace.speed,
        "paused": pace.paused,
    }


class Sources:
    """The sessions of a process. It is the `Observer` of its service.

    Attributes:
        connection: number of the connection to the hub; sessions are announced on each.
    """

    def __init__(self, reader: Callable[[Opened], FrameReader], deliver: Deliver) -> None:
        self.connection = 0
        self._reader, self._deliver = reader, deliver
        self._open: dict[str, Source] = {}
        self._all: dict[str, Source] = {}

    # In the thread of the simulations

    def opened(self, label: str, opened: Opened, pace: Pace) -> None:
        """See `Observer`."""
        source = Source(label, opened, pace, self._reader, self._deliver)
        self._open[label] = self._all[label] = source
        source.announce(self.connection)

    def ticked(self) -> bool:
        """See `Observer`."""
        has_more = False
        for label, source in list(self._open.items()):
            try:
                has_more |= source.look()
            except Exception as error:  # a bug of the live view must not end the simulation
                log.exception("live_view_failed", session=label, error=str(error))
                source.fail()
                del self._open[label]
        return has_more

    def noted(self, status: ServerStatus) -> None:
        """See `Observer`."""
        self._deliver(StatusNoted(status))

    def closed(self, label: str) -> None:
        """See `Observer`."""
        if label in self._open:
            self._open.pop(label).close()
        over = [label for label, source in list(self._all.items()) if source.is_over]
        for old in over[: max(0, len(over) - MAX_CLOSED)]:
            self._all.pop(old, None)

    # In another thread

    def obey(self, command: Command) -> None:
        """Carry out a command of the hub."""
        source = self._all.get(command.label)
        if source is None:
            return
        if isinstance(command, Watch):
            source.watch(command.on)
        elif isinstance(command, Want):
            source.want()
        elif isinstance(command, Taken):
            source.note_taken()
            if source.is_complete:
                self._all.pop(command.label, None)
        elif isinstance(command, Forget):
            self._all.pop(command.label, None)
        elif isinstance(command, ChangePace):
            try:
                apply(command.change, source.pace)
            except PaceError as error:  # the hub checks them
                log.error("pace_not_changed", session=command.label, error=str(error))

    def announce(self) -> None:
        """Report all sessions on a new connection to the hub."""
        self.connection += 1
        for source in list(self._all.values()):
            if not source.is_complete:
                source.announce(self.connection)

    def want_all(self) -> None:
        """Report what the hub does not have of closed sessions."""
        for source in list(self._all.values()):
            if source.is_over:
                source.want()

    def wait_complete(self, until_s: float) -> None:
        """Wait until all frames of closed sessions that the hub wants are reported.

        Args:
            until_s: time of `time.monotonic` at which the wait ends, s.
        """
        for source in list(self._all.values()):
            source.wait_complete(until_s - time.monotonic())
