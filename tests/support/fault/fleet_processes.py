"""The processes of a simulated server of several: the real front and workers.

Each makes a step when the simulator says so.
"""

from __future__ import annotations

import math
import select
from functools import partial
from typing import TYPE_CHECKING, Any

from hpcosim_server.service.control import Control
from hpcosim_server.service.front import Front
from hpcosim_server.service.service import Service
from hpcosim_server.service.socket_loop import ServeOptions
from hpcosim_server.service.worker import WorkerDoor
from hpcosim_server.wire.listener import Bounds
from hpcosim_server.wire.peer import Peer
from hpcosim_server.wire.peers import Peers
from hpcosim_server.wire.post import Poller, Post

if TYPE_CHECKING:
    from support.fault.fleet import Fleet

GATHER_S = 1.0
"""Time in which the workers find a new front, before it hears clients, s."""
WORKERS = 4
FRONT = 0
BOUNDS = Bounds(idle_s=10_000.0)


class FleetProcess:
    """A process: the front, or a worker.

    Args:
        fleet: the server.
        number: number of the worker; `FRONT`.
        control: its end of the connection to the supervisor.

    Attributes:
        alive: whether it runs.
        busy: whether it computes.
        poller: what it waits for.
    """

    poller: Poller

    def __init__(self, fleet: Fleet, number: int, control: Control) -> None:
        self.alive, self.busy = True, False
        self.number = number
        self.fleet = fleet
        self.control = control
        self.due_s = math.inf

    def step(self) -> None:
        """Do what there is to do."""
        raise NotImplementedError

    @property
    def has_more(self) -> bool:
        """Whether there is something to do now."""
        poll = select.poll()
        poll.register(self.poller._epoll.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def kill(self) -> None:
        """End as by SIGKILL: all descriptors are closed, and nothing else happens."""
        self.alive = False
        for handler in list(self.poller._handlers.values()):
            owner = getattr(handler, "__self__", None)
            if isinstance(owner, Post):
                owner.close()
            elif isinstance(handler, partial) and isinstance(handler.args[0], Peer):
                handler.args[0].socket.close()
        self.poller.close()
        self.control.close()


class FleetFront(FleetProcess):
    """The front."""

    def __init__(self, fleet: Fleet, control: Control) -> None:
        super().__init__(fleet, FRONT, control)
        self.poller = Poller()
        self.peers = Peers(None, BOUNDS, self.poller, fleet.clock_s)
        options = ServeOptions("", limits=fleet.limits, workers=WORKERS)
        self.front = Front(
            self.poller,
            self.peers,
            fleet.private,
            control,
            options,
            fleet.numbers,
            0.0,
            fleet.clock_s,
        )
        self._listens_s = fleet.clock_s() + GATHER_S
        self._listens = False

    def step(self) -> None:
        """See `FleetProcess`; see `serving.run_front`, too."""
        if not self._listens and (
            not self.front.misses_workers or self.fleet.clock_s() >= self._listens_s
        ):
            self._listens = True
            self.peers.listen(self.fleet.public)
        self.front.turn(0.0)

    @property
    def has_more(self) -> bool:
        """See `FleetProcess`."""
        return bool(self.peers._turns) or self.front._routes.changed or super().has_more


class FleetWorker(FleetProcess):
    """A worker.

    Attributes:
        service: its service.
        door: its connections.
    """

    def __init__(self, fleet: Fleet, number: int, control: Control, service: Service) -> None:
        super().__init__(fleet, number, control)
        self.service = service
        self.door = WorkerDoor(number, fleet.connect, control, service, BOUNDS, fleet.clock_s)
        self.poller = self.door._poller
        self.peers = self.door._peers

    def step(self) -> None:
        """See `FleetProcess`; see `socket_loop.answer_all`, too."""
        request = self.door.receive(0.0)
        if request is None:
            self._look_after()
            return
        self.fleet.maybe_kill(self)
        if not self.alive:
            return
        self.fleet.note_heard(request.body)
        reply = self.service.answer(request.body, request.envelope)
        self.fleet.note_reply(request.body, reply)
        self.busy = True
        delay_s = self.fleet.work_s()
        self.fleet.simulator.after(delay_s, partial(self._reply, request.envelope, reply))

    def _reply(self, envelope: Any, reply: bytes) -> None:
        self.busy = False
        if self.alive:
            self.fleet.maybe_kill(self)
        if self.alive:
            if reply:
                self.door.send(envelope, reply)
            self._look_after()
            self.fleet.settle()

    def _look_after(self) -> None:
        for envelope, reply in self.service.due() if self.service.held else ():
            self.door.send(envelope, reply)
        self.service.tidy()
        if self.door.stopped:
            self.service.stop(self.door.stopped)
            self.door.close()
            self.alive = False
            self.control.close()
            self.fleet.left(self)

    @property
    def has_more(self) -> bool:
        """See `FleetProcess`."""
        has_turn = bool(self.peers._turns or self.door._arrived or self.door._parked)
        return has_turn or super().has_more
