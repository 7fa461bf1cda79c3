"""The host of the server: the real service between a simulated network, clock and disk."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from hpcosim_protocol import Hello
from hpcosim_scenarios.running.library import Library
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.observer import Watch
from hpcosim_server.service.pace import Pace
from hpcosim_server.service.restore import restore
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Opened
from support.fault.disk import ServerKilled, SimulatedDisk
from support.fault.plan import HEALED_S, Plan, Window
from support.fault.simulator import Simulator

IDLE_S = 40.0
RESULTS_RETRY_S = 20.0  # shorter than some times in which the disk is full
"""Idle timeout of the simulated servers, s."""
TICK_S = 1.0
"""Interval in which a server looks after its sessions when no message arrives, s."""
WORK_S = 0.0005
"""Time in which a server answers a request, s."""
SLOW_S = 10.0
"""Longest time of a slow request, s."""
AGAIN_S = 1.0
"""Time in which a server that was killed at an operation of its disk is away, s."""
SHUTDOWN_S = 1.0
"""Time in which a server that got SIGTERM tells its clients, s."""
OUT, JOURNALS = Path("results"), Path("journals")


class _Head(msgspec.Struct):
    type: str
    session: str = ""
    seq: int = 0


_HEAD = msgspec.msgpack.Decoder(_Head)

Send = Callable[[bytes, bytes], None]
"""Sends a reply: address and content."""


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
    """

    opened: Opened
    start: int
    nonce: str
    opened_s: float
    name: str = ""
    seqs: list[int] = field(default_factory=list)
    closed_s: float = math.inf
    heard_s: float = 0.0


class Host:
    """Runs the service, one message at a time, as its socket loop does.

    Args:
        simulator: the simulated time.
        plan: what goes wrong.
        chance: draws how long requests take.
        library: the scenarios.
        disk: the disk of results and journals.
        send: sends a reply.

    Attributes:
        service: the service that runs, or ran last.
        journals: its journals; None: it keeps none.
        starts: number of starts of the server.
        ended_s: when each start but the last ended, s.
        replies: different replies to each request that was carried out, by session and `seq`.
        executed: the sessions of all starts; a session that is restored is there again.
        waiting: the messages that are received, but not read.
    """

    def __init__(
        self,
        simulator: Simulator,
        plan: Plan,
        chance: random.Random,
        library: Library,
        disk: SimulatedDisk,
        send: Send,
    ) -> None:
        self.executed: list[Executed] = []
        self.replies: dict[tuple[str, int], set[bytes]] = {}
        self.waiting: deque[tuple[bytes, bytes]] = deque()
        self.starts = 0
        self.ended_s: list[float] = []
        self.journals: Journals | None = None
        self._simulator = simulator
        self._plan = plan
        self._chance = chance
        self._library = library
        self._disk = disk
        self._send = send
        self._up = False
        self._busy = False
        self._ahead_s = 0.0  # of the clock while a request is carried out
        self._names = 0
        self._guarded(self._start)
        for crash in plan.server_crashes:
            simulator.at(crash.at_s, partial(self._crash, crash))
        for term in plan.server_terms:
            simulator.at(term.at_s, partial(self._terminate, term))
        for stop in plan.server_stops:
            simulator.at(stop.at_s, partial(self._pause, stop))

    def arrive(self, identity: bytes, data: bytes) -> None:
        """Receive a message. While the server is down, it is lost."""
        if self._up:
            self._note_heard(data)
            self.waiting.append((identity, data))
            self._next()

    def clock_s(self) -> float:
        """Return the time on the server's clock, s."""
        return self._simulator.now_s + self._ahead_s

    def latest(self, label: str) -> Executed:
        """Return the last execution of a session, by its name or its label."""
        return next(each for each in reversed(self.executed) if each.name.startswith(label))

    def note_closed(self, label: str) -> None:
        """Note that a session is over."""
        self.latest(label).closed_s = self._simulator.now_s

    def note_restored(self, label: str) -> None:
        """Note that the session that was opened last is one of an earlier start."""
        before = self.latest(label)
        now = self.executed[-1]
        now.name, now.heard_s = before.name, self._simulator.now_s
        self._simulator.note(f"server: restores session {int(label, 16)} at {len(now.seqs)}")

    # The server

    def _start(self) -> None:
        plan = self._plan
        self._up, self._busy = True, False
        self.starts += 1
        if plan.journal:
            self.journals = Journals(JOURNALS, plan.journal, self._disk, self.clock_s)
        self.service = Service(
            self._open,
            Limits(idle_s=IDLE_S, jobs=1000, results_retry_s=RESULTS_RETRY_S),
            OUT,
            watch=Watch(_Unseeing(), plan.paced) if plan.paced else None,
            clock=self.clock_s,
            name=self._name,
            journals=self.journals,
        )
        if self.journals is not None:
            restore(self.service, self.journals)
        self._ahead_s = 0.0
        self._tick(self.starts)

    def _open(self, hello: Hello) -> Opened:
        opened = self._library.open(hello)
        executed = Executed(opened, self.starts, hello.nonce, self._simulator.now_s)
        self.executed.append(executed)
        simulation: Any = opened.simulation
        advance = simulation.advance

        def counted(*args: Any, seq: int, **kwargs: Any) -> Any:
            executed.seqs.append(seq)
            self._take_time()
            return advance(*args, seq=seq, **kwargs)

        simulation.advance = counted
        self._take_time()
        return opened

    def _name(self) -> str:
        self._names += 1
        name = f"{self._names:08x}{self._chance.getrandbits(96):024x}0000"
        self.executed[-1].name = name
        self._simulator.note(f"server: opens session {self._names}")
        return name

    def _take_time(self) -> None:
        healed = self._simulator.now_s >= HEALED_S
        slow = not healed and self._chance.random() < self._plan.slow
        self._ahead_s += self._chance.uniform(0.0, SLOW_S) if slow else WORK_S

    def _note_heard(self, data: bytes) -> None:
        for session in self.executed:
            is_open = session.name and session.closed_s == math.inf
            if is_open and session.name.encode() in data:
                session.heard_s = self._simulator.now_s

    def _note_reply(self, data: bytes, reply: bytes) -> None:
        with suppress(msgspec.DecodeError):
            if reply and _HEAD.decode(reply).type in ("events", "simulation_ended"):
                request = _HEAD.decode(data)
                self.replies.setdefault((request.session, request.seq), set()).add(reply)

    # Its loop

    def _next(self) -> None:
        if self._up and not self._busy and self.waiting:
            self._guarded(self._answer)

    def _answer(self) -> None:
        identity, data = self.waiting.popleft()
        reply = self.service.answer(data, (identity,))
        self._note_reply(data, reply)
        self._busy = True
        self._simulator.after(self._ahead_s, partial(self._sent, self.starts, identity, reply))

    def _sent(self, start: int, identity: bytes, reply: bytes) -> None:
        if start != self.starts or not self._up:
            return  # killed between the work and the reply
        self._ahead_s = 0.0
        if reply:
            self._send(identity, reply)
        self._guarded(self._look_after)
        self._busy = False
        self._next()

    def _look_after(self) -> None:
        if self.service.held:
            for envelope, reply in self.service.due():
                self._send(envelope[0], reply)
        self.service.tidy()

    def _tick(self, start: int) -> None:
        if start != self.starts or not self._up:
            return
        if not self._busy:
            self._guarded(self._look_after)
        wait_s = min(TICK_S, max(0.02, self.service.held.wait_s()))
        self._simulator.after(wait_s, partial(self._tick, start))

    # Its faults

    def _guarded(self, action: Callable[[], object]) -> None:
        """Do something that may use the disk, and so kill the server."""
        try:
            action()
        except ServerKilled:
            self._die(AGAIN_S)

    def _crash(self, crash: Window) -> None:
        if not self._up:
            return
        if crash.for_s > AGAIN_S and self._plan.journal:
            self._disk.kills = self._chance.random() < 0.5
        if not self._disk.kills:
            self._die(crash.for_s)

    def _die(self, away_s: float) -> None:
        power_fails = self._plan.power_fails
        self._simulator.note(f"server: {'loses power' if power_fails else 'is killed'}")
        if power_fails:
            self._disk.lose_power()
        self._leave(away_s)

    def _terminate(self, term: Window) -> None:
        if self._up and not self._busy:
            self._simulator.note("server: gets SIGTERM")
            for envelope, reply in self.service.held.all():
                self._send(envelope[0], reply)
            self._guarded(self._stop)
            self._simulator.after(SHUTDOWN_S, partial(self._exit, self.starts, term.for_s))

    def _stop(self) -> None:
        self.service.stop("stopped by SIGTERM")

    def _exit(self, start: int, away_s: float) -> None:
        if self._up and start == self.starts:
            self._leave(away_s)

    def _leave(self, away_s: float) -> None:
        self._up, self._ahead_s, self._disk.kills = False, 0.0, False
        self.waiting.clear()
        self.ended_s.append(self._simulator.now_s)
        self._simulator.after(away_s, partial(self._guarded, self._restart))

    def _restart(self) -> None:
        self._simulator.note("server: starts again")
        self._start()

    def _pause(self, stop: Window) -> None:
        if self._up and not self._busy:
            self._simulator.note(f"server: stopped for {stop.for_s:g} s")
            self._busy = True
            self._simulator.after(stop.for_s, partial(self._continue, self.starts))

    def _continue(self, start: int) -> None:
        if start == self.starts and self._up:
            self._busy = False
            self._next()


class _Unseeing:
    """An observer that looks at nothing."""

    def opened(self, label: str, opened: Opened, pace: Pace) -> None:
        """See `Observer`."""

    def ticked(self) -> bool:
        """See `Observer`."""
        return False

    def noted(self, status: object) -> None:
        """See `Observer`."""

    def closed(self, label: str) -> None:
        """See `Observer`."""
