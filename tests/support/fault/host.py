"""The host of the server: the real service between a simulated network, clock and disk."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hpcosim_protocol import Hello
from hpcosim_scenarios.running.library import Library
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.observer import Watch
from hpcosim_server.service.pace import Pace
from hpcosim_server.service.recovery import restore
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Opened
from support.fault.disk import ServerKilled, SimulatedDisk
from support.fault.network import is_in
from support.fault.plan import HEALED_S, Plan, Window
from support.fault.recorder import Executed, Recorder
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


Send = Callable[[bytes, bytes], None]
"""Sends a reply: address and content."""


class Host(Recorder):
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
        ended_s: when each start but the last ended, s.
        waiting: the messages that are received, but not read.
        excess: limits that were exceeded, one sentence each.
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
        super().__init__(simulator)
        self.waiting: deque[tuple[bytes, bytes]] = deque()
        self.excess: list[str] = []
        self.ended_s: list[float] = []
        self.journals: Journals | None = None
        self._plan = plan
        self._chance = chance
        self._library = library
        self._disk = disk
        self._send = send
        self._up = False
        self._busy = False
        self._serves = False  # and does not restore sessions
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
            self.note_heard(data)
            self.waiting.append((identity, data))
            self._next()

    def clock_s(self) -> float:
        """Return the time on the server's clock, s."""
        return self._simulator.now_s + self._ahead_s

    # The server

    def _start(self) -> None:
        plan = self._plan
        self._up, self._busy, self._serves = True, False, False
        self.starts += 1
        if plan.journal:
            self.journals = Journals(JOURNALS, plan.journal, self._disk, self.clock_s)
        self.service = Service(
            self._open,
            self._limits(),
            OUT,
            watch=Watch(_Unseeing(), plan.paced) if plan.paced else None,
            clock=self.clock_s,
            name=self._name,
            journals=self.journals,
        )
        self.service._admission.available = self._available
        if self.journals is not None:
            restore(self.service, self.journals)
        self._ahead_s, self._serves = 0.0, True
        self._tick(self.starts)

    def _limits(self) -> Limits:
        plan = self._plan
        return Limits(
            idle_s=IDLE_S,
            jobs=1000,
            results_retry_s=RESULTS_RETRY_S,
            sessions=plan.max_sessions,
            total_jobs=plan.total_jobs,
            events_per_s=plan.events_per_s,
        )

    def _available(self) -> float:
        """Return the memory of the machine, bytes."""
        is_low = any(is_in(each, self._simulator.now_s) for each in self._plan.low_memory)
        return 0.0 if is_low else math.inf

    def _check_limits(self) -> None:
        sessions = list(self.service._open)
        jobs = sum(each.opened.jobs for each in sessions)
        if len(sessions) > self._plan.max_sessions:
            self.excess.append(f"{len(sessions)} sessions are open")
        if jobs > self._plan.total_jobs:
            self.excess.append(f"{jobs} jobs are in open sessions")

    def _has_no_memory(self) -> bool:
        healed = self._simulator.now_s >= HEALED_S
        return not healed and self._chance.random() < self._plan.no_memory

    def _open(self, hello: Hello) -> Opened:
        opened = self.watched(self._library.open(hello), hello.nonce, self._before)
        self._take_time()
        return opened

    def _before(self, executed: Executed) -> None:
        if self._serves and self._has_no_memory():
            executed.starved = True
            raise MemoryError
        self._take_time()

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

    # Its loop

    def _next(self) -> None:
        if self._up and not self._busy and self.waiting:
            self._guarded(self._answer)

    def _answer(self) -> None:
        identity, data = self.waiting.popleft()
        reply = self.service.answer(data, (identity,))
        self.note_reply(data, reply)
        self._check_limits()
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
        self.note_killed(self.service._open)
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
