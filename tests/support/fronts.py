"""A front and workers in this process, moved step by step, with real sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from hpcosim_protocol import (
    ClientMessage,
    Hello,
    ServerMessage,
    Welcome,
    decode_server_message,
    encode,
)
from hpcosim_protocol.zmtp import Decoder
from hpcosim_scenarios.running.library import Library
from hpcosim_server.service.control import Workers, control_pair
from hpcosim_server.service.front import Front
from hpcosim_server.service.server_processes import connected, private_socket, worker_bounds
from hpcosim_server.service.service import Service
from hpcosim_server.service.sessions import new_name
from hpcosim_server.service.socket_loop import ServeOptions, answer_one
from hpcosim_server.service.worker import WorkerDoor
from hpcosim_server.wire.listener import Bounds, close_listener, endpoint_of, listen
from hpcosim_server.wire.peers import Peers
from hpcosim_server.wire.post import Poller
from support.processes import SCENARIO
from support.raw_zmtp import RawPeer, frame

SOON_S = 20.0


class Workplace:
    """A worker.

    Args:
        house: the server.
        number: number of the worker.
        service: its service.
    """

    def __init__(self, house: House, number: int, service: Service) -> None:
        self.service = service
        self.control, theirs = control_pair()
        self._theirs = theirs
        connect = partial(connected, house.path)
        self.door = WorkerDoor(number, connect, theirs, service, worker_bounds(house.options))

    def step(self) -> None:
        """Answer a request, if there is one."""
        answer_one(self.door, self.service, 0.0)
        for envelope, reply in self.service.due():
            self.door.send(envelope, reply)

    def close(self) -> None:
        """Give all connections back, and end."""
        self.door.close()
        self._theirs.close()
        self.control.close()


class House:
    """A server of several processes in one.

    Args:
        folder: folder for the scenario.
        public: the listening socket for clients.
        private: that for workers.
        path: file of `private`.
        workers: number of workers.
    """

    def __init__(
        self, folder: Path, public: socket.socket, private: socket.socket, path: Path, workers: int
    ) -> None:
        self.path = path
        self.address = endpoint_of(public)
        self.options = ServeOptions(self.address, workers=workers)
        self._public, self._private = public, private
        scenario = folder / "small.yaml"
        scenario.write_text(SCENARIO.format(name="small", jobs=40))
        self._library = Library([scenario])
        self.workers = {number: self.new_worker(number) for number in range(1, workers + 1)}
        self.front, self.clients = self.new_front()
        self.until(lambda: not self.front.misses_workers)

    def new_worker(self, number: int) -> Workplace:
        """Return a worker."""
        service = Service(self._library.open, name=lambda: new_name(number))
        return Workplace(self, number, service)

    def new_front(self) -> tuple[Front, Peers]:
        """Return a front and the connections that it has."""
        self.control, self._theirs = control_pair()
        poller = Poller()
        clients = Peers(self._public, Bounds(), poller)
        expected = sorted(self.workers)
        began_s = time.monotonic()
        args = (clients, self._private, self._theirs, self.options, expected, began_s)
        return Front(poller, *args), clients

    def kill_front(self) -> None:
        """End the front."""
        self.front.close()
        self._theirs.close()
        self.control.close()

    def expect(self, *workers: int) -> None:
        """Tell the front which workers are there or about to be."""
        self.control.send(Workers(workers))

    def step(self, *, with_front: bool = True) -> None:
        """Let each process handle what is there."""
        if with_front:
            self.front.turn(0.0)
        for worker in self.workers.values():
            worker.step()

    def until(self, condition: Callable[[], object], *, with_front: bool = True) -> None:
        """Step until a condition holds."""
        until_s = time.monotonic() + SOON_S
        while not condition():
            assert time.monotonic() < until_s
            self.step(with_front=with_front)

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers.values():
            worker.close()
        self.kill_front()


class Guest:
    """A client that sends requests in any pieces.

    Args:
        house: the server.
    """

    def __init__(self, house: House) -> None:
        self._house = house
        self._peer = RawPeer(house.address)
        self._peer.socket.setblocking(False)
        self._decoder = Decoder(2**31, (b"ROUTER",))
        self.with_front = True

    def send(self, data: bytes) -> None:
        """Send bytes, while the server works."""
        rest = memoryview(data)
        while rest:
            with suppress(BlockingIOError):
                rest = rest[self._peer.socket.send(rest) :]
            self._house.step(with_front=self.with_front)

    def reply(self) -> ServerMessage:
        """Return the next reply."""
        found: list[bytes] = []

        def has_come() -> bool:
            with suppress(BlockingIOError):
                data = self._peer.socket.recv(2**18)
                assert data, "the server has closed the connection"
                self._decoder.feed(data)
            if message := self._decoder.next():
                found.append(message.frames[-1])
            return bool(found)

        self._house.until(has_come, with_front=self.with_front)
        return decode_server_message(found[0])

    def ask(self, message: ClientMessage) -> ServerMessage:
        """Return the reply to a request."""
        self.send(wired(message))
        return self.reply()

    def hello(self, nonce: str = "") -> str:
        """Open a session; return its name."""
        welcome = self.ask(Hello(versions=[1], client="guest", nonce=nonce))
        assert isinstance(welcome, Welcome), welcome
        return welcome.session

    def close(self) -> None:
        """Close the connection."""
        self._peer.close()


def wired(message: ClientMessage) -> bytes:
    """Return the bytes of a request on the wire."""
    return frame(encode(message))


@contextmanager
def open_house(folder: Path, workers: int = 2) -> Iterator[House]:
    """Yield a server of several processes in one."""
    with ExitStack() as stack:
        public = listen("tcp://127.0.0.1:*")
        stack.callback(close_listener, public)
        private, path = stack.enter_context(private_socket())
        house = House(folder, public, private, path, workers)
        stack.callback(house.close)
        yield house
