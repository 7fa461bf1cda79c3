"""What the sessions of a simulated server did, over all starts of its processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hpcosim_server.service.session import Opened, Session
from support.fault.simulator import Simulator


class _Head(msgspec.Struct):
    type: str
    session: str = ""
    seq: int = 0


_HEAD = msgspec.msgpack.Decoder(_Head)


@dataclass(slots=True)
class Executed:
    """A session as the engine saw it.

    Attributes:
        opened: the simulation.
        start: number of the start of the server, from 0.
        nonce: nonce of the hello that opened it.
        opened_s: when it was opened, s.
        name: secret name of the session.
        seqs: `seq` of each request that was carried out, in order.
        closed_s: when it was closed, s.
        heard_s: when the last message for the session reached the server, s; 0: none did.
        starved: whether it ended because a request got no memory.
    """

    opened: Opened
    start: int
    nonce: str
    opened_s: float
    name: str = ""
    seqs: list[int] = field(default_factory=list)
    closed_s: float = math.inf
    heard_s: float = 0.0
    starved: bool = False


class Recorder:
    """Records what the engine and the clients see of each session.

    Args:
        simulator: the simulated time.

    Attributes:
        executed: the sessions of all starts; a session that is restored is there again.
        replies: different replies to each request that was carried out, by session and `seq`.
        starts: number of starts.
    """

    def __init__(self, simulator: Simulator) -> None:
        self.executed: list[Executed] = []
        self.replies: dict[tuple[str, int], set[bytes]] = {}
        self.starts = 0
        self._simulator = simulator

    def watched(
        self, opened: Opened, nonce: str, before: Callable[[Executed], None] = lambda _: None
    ) -> Opened:
        """Return the simulation of a session whose requests are recorded.

        Args:
            opened: the simulation.
            nonce: nonce of the hello.
            before: called before each request.
        """
        executed = Executed(opened, self.starts, nonce, self._simulator.now_s)
        self.executed.append(executed)
        simulation: Any = opened.simulation
        advance = simulation.advance

        def counted(*args: Any, seq: int, **kwargs: Any) -> Any:
            before(executed)
            executed.seqs.append(seq)
            return advance(*args, seq=seq, **kwargs)

        simulation.advance = counted
        return opened

    def latest(self, label: str) -> Executed:
        """Return the last execution of a session, by its name or its label."""
        return next(each for each in reversed(self.executed) if each.name.startswith(label))

    def note_closed(self, label: str) -> None:
        """Note that a session is over."""
        self.latest(label).closed_s = self._simulator.now_s

    def note_killed(self, left: Iterable[Session]) -> None:
        """Note that the server is killed; it may be about to log that other sessions are over."""
        names = {session.name for session in left}
        for session in self.executed:
            is_open = session.start == self.starts and session.closed_s == math.inf
            if session.name and is_open and session.name not in names:
                session.closed_s = self._simulator.now_s

    def note_restored(self, label: str) -> None:
        """Note that the session that was opened last is one of an earlier start."""
        before = self.latest(label)
        now = self.executed[-1]
        now.name, now.heard_s = before.name, self._simulator.now_s
        self._simulator.note(f"server: restores session {int(label, 16)} at {len(now.seqs)}")

    def note_heard(self, data: bytes) -> None:
        """Note the session of a message that has arrived."""
        for session in self.executed:
            is_open = session.name and session.closed_s == math.inf
            if is_open and session.name.encode() in data:
                session.heard_s = self._simulator.now_s

    def note_reply(self, data: bytes, reply: bytes) -> None:
        """Note the reply to a request."""
        with suppress(msgspec.DecodeError):
            if reply and _HEAD.decode(reply).type in ("events", "simulation_ended"):
                request = _HEAD.decode(data)
                self.replies.setdefault((request.session, request.seq), set()).add(reply)
