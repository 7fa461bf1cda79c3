"""A server of several processes in one: the real front and workers, and real sockets between them.

Connections really move between the front and the workers, as file descriptors. The processes share
one thread; the simulator decides which of them makes its next step, so a run depends on its seed.
"""

from __future__ import annotations

import math
import random
import socket
from collections.abc import Callable
from functools import partial

from hpcosim_protocol import Hello
from hpcosim_scenarios.running.library import Library
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.control import Control, Workers, WorkersWanted, control_pair
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.recovery import restore
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Opened
from support.fault.disk import SimulatedDisk
from support.fault.fleet_processes import (
    FRONT,
    WORKERS,
    FleetFront,
    FleetProcess,
    FleetWorker,
)
from support.fault.host import IDLE_S, JOURNALS, OUT, RESULTS_RETRY_S
from support.fault.plan import HEALED_S, FleetPlan, Window
from support.fault.recorder import Recorder
from support.fault.simulator import Simulator
from support.fault.totals import Parts, SimulatedTotals

TICK_S = 1.0
"""Longest time between two steps of a process, s."""
STEP_S = 0.002
"""Mean time from an event to the step that handles it, s."""
SLOW_S = 8.0
"""Longest time of a slow request, s."""


class Fleet(Recorder):
    """The supervisor, and the processes that it forks.

    Args:
        simulator: the simulated time.
        plan: what goes wrong: `server_crashes` kill the front (client 0) or workers.
        chance: draws the order of steps and the times of kills.
        library: the scenarios.
        disk: the disk of results and journals.

    Attributes:
        processes: the processes by number.
        numbers: the workers that are there or are about to be.
        excess: sentences about what must not be.
        kills: number of kills of the front, and of workers.
    """

    def __init__(
        self,
        simulator: Simulator,
        plan: FleetPlan,
        chance: random.Random,
        library: Library,
        disk: SimulatedDisk,
    ) -> None:
        super().__init__(simulator)
        self.simulator, self.plan = simulator, plan
        self.limits = Limits(
            idle_s=IDLE_S, jobs=1000, results_retry_s=RESULTS_RETRY_S, sessions=plan.max_sessions
        )
        self.kills = {"front": 0, "worker": 0}
        self.excess: list[str] = []
        self.numbers = [1]
        self.processes: dict[int, FleetProcess] = {}
        self._chance, self._library, self._disk = chance, library, disk
        self._names = 0
        self._ends: dict[int, Control] = {}
        self._parts: Parts = {}
        self.public = _listener(socket.SOCK_STREAM)
        self.private = _listener(socket.SOCK_SEQPACKET)
        self.start(1)
        self.start(FRONT)
        for crash in plan.server_crashes:
            simulator.at(crash.at_s, partial(self._crash, crash))

    def clock_s(self) -> float:
        """Return the time, s."""
        return self.simulator.now_s

    def connect(self) -> socket.socket:
        """Return a connection of a worker to the front."""
        return _connected(self.private)

    def connect_client(self) -> socket.socket:
        """Return a connection of a client."""
        return _connected(self.public)

    def work_s(self) -> float:
        """Return how long a request takes, s."""
        if self.simulator.now_s < HEALED_S and self._chance.random() < self.plan.slow:
            return self._chance.uniform(0.0, SLOW_S)
        return self._chance.expovariate(1.0 / STEP_S)

    # The supervisor

    def start(self, number: int, *, again: bool = False) -> None:
        """Start a process."""
        if number not in self.numbers and number != FRONT:
            return
        mine, theirs = control_pair()
        self._ends[number] = mine
        if number == FRONT:
            self.processes[number] = FleetFront(self, theirs)
        else:
            self.processes[number] = self._new_worker(number, theirs, again=again)
        self._schedule(self.processes[number], TICK_S)
        self.settle()

    def _new_worker(self, number: int, control: Control, *, again: bool) -> FleetWorker:
        plan, self.starts = self.plan, self.starts + 1
        journals = None
        if plan.journal:
            journals = Journals(JOURNALS, plan.journal, self._disk, self.clock_s)
        service = Service(
            self._open,
            self.limits,
            OUT,
            clock=self.clock_s,
            name=partial(self._name, number),
            journals=journals,
            totals=SimulatedTotals(self._parts, number),
        )
        if journals is not None and again:
            restore(service, journals, of_worker=number, counted=True)
        return FleetWorker(self, number, control, service)

    def _open(self, hello: Hello) -> Opened:
        return self.watched(self._library.open(hello), hello.nonce)

    def _name(self, number: int) -> str:
        self._names += 1
        name = f"{self._names:08x}{self._chance.getrandbits(64):016x}{number:04x}"
        self.executed[-1].name = name
        self.simulator.note(f"worker {number}: opens session {self._names}")
        return name

    def _supervise(self) -> None:
        for control in list(self._ends.values()):
            while (report := control.report()) is not None:
                if isinstance(report, WorkersWanted):
                    self._grow(report.workers)

    def _grow(self, workers: int) -> None:
        for number in range(1, WORKERS + 1):
            if len(self.numbers) >= min(workers, WORKERS):
                break
            if number not in self.numbers:
                self.numbers.append(number)
                self.simulator.after(self._chance.uniform(0.0, 0.5), partial(self.start, number))
        self._order_front()

    def _order_front(self) -> None:
        if FRONT in self._ends:
            self._ends[FRONT].send(Workers(list(self.numbers)))

    def left(self, worker: FleetWorker) -> None:
        """Note that a worker without sessions has ended."""
        self.simulator.note(f"worker {worker.number}: ends")
        self._forget(worker)
        self.numbers.remove(worker.number)
        self._order_front()

    # Kills

    def maybe_kill(self, process: FleetProcess) -> None:
        """Kill a process between two of its steps, now and then."""
        if self.simulator.now_s < HEALED_S and self._chance.random() < self.plan.kills:
            self.kill(process, self._chance.uniform(0.0, 1.0))

    def kill(self, process: FleetProcess, away_s: float) -> None:
        """Kill a process, and fork it again."""
        is_front = process.number == FRONT
        self.kills["front" if is_front else "worker"] += 1
        self.simulator.note(f"{'front' if is_front else f'worker {process.number}'}: is killed")
        process.kill()
        self._forget(process)
        if isinstance(process, FleetWorker) and not self.plan.journal:
            for session in process.service._open:
                self.note_closed(session.label)
        again = partial(self.start, process.number, again=True)
        self.simulator.after(away_s, again)

    def _crash(self, crash: Window) -> None:
        if process := self.processes.get(crash.client % (WORKERS + 1)):
            self.kill(process, crash.for_s)

    def _forget(self, process: FleetProcess) -> None:
        del self.processes[process.number]
        self._parts.pop(process.number, None)
        self._ends.pop(process.number).close()

    def close(self) -> None:
        """Kill all processes."""
        for process in list(self.processes.values()):
            process.kill()
            self._forget(process)
        self.public.close()
        self.private.close()

    # Steps

    def settle(self) -> None:
        """Let the processes with something to do make a step soon."""
        self._supervise()
        self._check()
        for process in list(self.processes.values()):
            if not process.busy and process.has_more:
                self._schedule(process, self._chance.expovariate(1.0 / STEP_S))

    def _schedule(self, process: FleetProcess, delay_s: float) -> None:
        due_s = self.simulator.now_s + delay_s
        if due_s < process.due_s:
            process.due_s = due_s
            self.simulator.after(delay_s, partial(self._step, process, due_s))

    def _step(self, process: FleetProcess, due_s: float) -> None:
        if not process.alive or process.due_s != due_s:
            return
        process.due_s = math.inf
        if not process.busy:
            self.maybe_kill(process)
            if process.alive:
                process.step()
        if process.alive:
            self._schedule(process, TICK_S)
        self.after_step()
        self.settle()

    after_step: Callable[[], None] = staticmethod(lambda: None)
    """Reads the replies of clients."""

    def _check(self) -> None:
        """Check that no session or hello has two workers."""
        names: set[str] = set()
        nonces: set[str] = set()
        for process in self.processes.values():
            if isinstance(process, FleetWorker):
                for session in process.service._open:
                    if session.name in names or session.hello.nonce in nonces:
                        self.excess.append(f"session {int(session.label, 16)} has two workers")
                    names.add(session.name)
                    nonces.update({session.hello.nonce} - {""})  # strangers may have none
        restores = self.plan.journal and self.kills["worker"]  # restored ones are never refused
        if len(names) > self.plan.max_sessions and not restores:
            self.excess.append(f"{len(names)} sessions are open")


def _listener(kind: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, kind)
    listener.setblocking(False)
    listener.bind("")  # the kernel chooses an abstract address
    listener.listen(64)
    return listener


def _connected(listener: socket.socket) -> socket.socket:
    end = socket.socket(socket.AF_UNIX, listener.type)
    try:
        end.setblocking(False)
        end.connect(listener.getsockname())
    except OSError:
        end.close()
        raise
    return end
