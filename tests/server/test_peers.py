"""Connections of a server: bounds, turns, and peers that misbehave."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from hpcosim_server.errors import BindError
from hpcosim_server.wire.listener import Bounds, close_listener, endpoint_of, listen
from hpcosim_server.wire.peers import Peers
from support.raw_zmtp import MORE, RawPeer, frame

SOON_S = 30.0


class Hall:
    """A listening socket with its connections, and clients."""

    def __init__(self, **bounds: Any) -> None:
        self.listener = listen("tcp://127.0.0.1:*")
        self.peers = Peers(self.listener, Bounds(**bounds))
        self.address = endpoint_of(self.listener)
        self.raw: list[RawPeer] = []

    def join(self, identity: bytes = b"") -> RawPeer:
        """Return a new client whose handshake is over."""
        peer = RawPeer(self.address, identity)
        self.raw.append(peer)
        count = len(self.peers)
        self.until(lambda: len(self.peers) > count)
        return peer

    def until(self, condition: Callable[[], bool]) -> list[list[bytes]]:
        """Read until a condition holds; return the frames that came."""
        came = []
        until_s = time.monotonic() + SOON_S
        while not condition():
            assert time.monotonic() < until_s
            if found := self.peers.receive(0.01):
                came.append(found[1].frames)
        return came

    def next(self) -> tuple[bytes, list[bytes]]:
        """Return the next message and the address of its sender."""
        until_s = time.monotonic() + SOON_S
        while time.monotonic() < until_s:
            if found := self.peers.receive(0.1):
                return found[0], found[1].frames
        raise AssertionError("no message came")


@pytest.fixture
def new_hall() -> Iterator[Callable[..., Hall]]:
    """A function that opens a listening socket with bounds."""
    halls: list[Hall] = []

    def new(**bounds: Any) -> Hall:
        halls.append(Hall(**bounds))
        return halls[-1]

    yield new
    for hall in halls:
        for peer in hall.raw:
            peer.close()
        hall.peers.close()
        close_listener(hall.listener)


@pytest.mark.parametrize("kind", [zmq.REQ, zmq.DEALER])
def test_sockets_of_libzmq_send_and_receive(new_hall: Callable[..., Hall], kind: int) -> None:
    """Small and large messages go both ways."""
    hall = new_hall()
    with zmq.Context() as context, context.socket(kind) as client:
        client.linger = 0
        client.rcvtimeo = int(1000 * SOON_S)
        client.connect(hall.address)
        for body in (b"", b"x" * 300, bytes(3_000_000)):
            client.send(body)
            address, frames = hall.next()
            assert frames[-1] == body
            assert hall.peers.send(address, [*frames[:-1], body + b"!"])
            assert poll_both(hall, client) == body + b"!"


def poll_both(hall: Hall, client: zmq.Socket[bytes]) -> bytes:
    """Return what a client receives while the server writes."""
    hall.peers.flush(SOON_S)
    return client.recv()


def test_each_peer_has_its_turn(new_hall: Callable[..., Hall]) -> None:
    """One message of each peer is read after one of each other."""
    hall = new_hall()
    eager, modest = hall.join(), hall.join()
    eager.send(frame(b"many") * 100)
    hall.next()
    modest.send(frame(b"one"))
    came = [hall.next()[1][0] for _ in range(50)]
    assert b"one" in came


def test_a_peer_that_breaks_the_bounds_is_closed(new_hall: Callable[..., Hall]) -> None:
    """A message of endless frames ends its connection, and no other."""
    hall = new_hall()
    bad, good = hall.join(), hall.join()
    bad.send(frame(b"", MORE) * 1000)
    hall.until(lambda: len(hall.peers) == 1)
    good.send(frame(b"good"))
    assert hall.next()[1] == [b"good"]


def test_a_reply_goes_to_the_connection_of_its_request(new_hall: Callable[..., Hall]) -> None:
    """Peers that claim the same routing identity get their own replies."""
    hall = new_hall()
    peers = [hall.join(b"same") for _ in range(3)]
    for number, peer in enumerate(peers):
        peer.send(frame(b"%d" % number))
        address, frames = hall.next()
        hall.peers.send(address, frames)
    for number, peer in enumerate(peers):
        assert peer.socket.recv(1000).endswith(frame(b"%d" % number))


def test_a_peer_that_does_not_read_loses_messages(new_hall: Callable[..., Hall]) -> None:
    """The bytes that wait for it are bounded, and others get theirs."""
    hall = new_hall(queued_messages=4, queued_bytes=2**24)
    deaf, other = hall.join(), hall.join()
    deaf.send(frame(b"a"))
    address, _ = hall.next()
    body = bytes(2**20)
    sent = sum(hall.peers.send(address, [body]) for _ in range(100))
    assert 4 <= sent < 100
    assert hall.peers.lost == 100 - sent
    other.send(frame(b"b"))
    there, frames = hall.next()
    assert hall.peers.send(there, frames)


def test_the_bytes_of_all_peers_are_bounded(new_hall: Callable[..., Hall]) -> None:
    """The connection with the most waiting bytes is closed."""
    hall = new_hall(total_bytes=2**22)
    greedy, modest = hall.join(), hall.join()
    modest.send(frame(bytes(50_000))[:-1])
    greedy.socket.settimeout(0.01)
    begun = frame(bytes(2**23))[:-1]
    while len(hall.peers) == 2:
        begun = begun[sent_of(greedy, begun) :]
        hall.peers.receive(0.0)
    modest.send(b"\0")
    assert len(hall.next()[1][0]) == 50_000


def sent_of(peer: RawPeer, data: bytes) -> int:
    """Send some bytes; return their number."""
    try:
        return peer.socket.send(data)
    except TimeoutError:
        return 0


def test_connections_without_handshake_or_messages_are_closed(
    new_hall: Callable[..., Hall],
) -> None:
    """Each timeout closes its own kind of connection."""
    hall = new_hall(handshake_s=0.2, idle_s=1000.0)
    greeted = hall.join()
    greeted.send(frame(b"here"))
    assert hall.next()[1] == [b"here"]
    with socket.create_connection(greeted.socket.getpeername()):
        hall.until(lambda: len(hall.peers) == 2)
        hall.until(lambda: len(hall.peers) == 1)
    greeted.send(frame(b"still here"))
    assert hall.next()[1] == [b"still here"]


def test_a_silent_connection_gives_way(new_hall: Callable[..., Hall]) -> None:
    """When all connections are taken, the one that was silent for longest is closed."""
    hall = new_hall(peers=2, settled_s=0.0)
    first, second = hall.join(), hall.join()
    second.send(frame(b"waits for a reply"))
    hall.next()
    third = RawPeer(hall.address)
    hall.raw.append(third)
    third.send(frame(b"new"))
    assert hall.next()[1] == [b"new"]
    assert first.is_closed()
    assert len(hall.peers) == 2


def test_a_full_house_of_busy_peers_refuses_the_next(new_hall: Callable[..., Hall]) -> None:
    """No connection that is in use is closed for a new one."""
    hall = new_hall(peers=1, settled_s=1000.0)
    first = hall.join()
    late = RawPeer(hall.address)
    hall.raw.append(late)
    first.send(frame(b"first"))
    assert hall.next()[1] == [b"first"]
    hall.peers.receive(0.1)
    assert late.is_closed()


def test_a_host_with_few_connections_is_let_in(new_hall: Callable[..., Hall]) -> None:
    """However many connections one host keeps busy, another host gets its equal share."""
    hall = new_hall(peers=4, settled_s=1000.0)
    greedy = [hall.join() for _ in range(4)]
    for peer in greedy:
        peer.send(frame(b"busy"))
        hall.next()
    others = [RawPeer(hall.address, source=f"127.0.0.{n}") for n in (2, 2, 3)]
    hall.raw += others
    for other in others:
        other.send(frame(b"in"))
    for _ in others:
        assert hall.next()[1] == [b"in"]
    assert all(peer.is_closed() for peer in greedy[:3])
    assert len(hall.peers) == 4


@pytest.mark.parametrize(
    "address",
    [
        "tcp://127.0.0.1",
        "tcp://:1",
        "tcp://127.0.0.1:65536",
        "tcp://127.0.0.1:x",
        "x://y",
        "ipc://",
    ],
)
def test_an_address_that_is_malformed_is_an_error(address: str) -> None:
    """The error names the address."""
    with pytest.raises(BindError, match=f"cannot listen at {address}"):
        listen(address)


def test_a_second_server_at_an_address_is_an_error(tmp_path: Path) -> None:
    """The first one keeps the address; the file of a dead one is replaced."""
    address = f"ipc://{tmp_path}/x.sock"
    first = listen(address)
    with pytest.raises(BindError, match="in use"):
        listen(address)
    first.close()  # without removing its file
    close_listener(listen(address))
    assert not list(tmp_path.iterdir())


def test_an_address_is_told_with_its_port() -> None:
    """A free port, an abstract name and a path are named as a client needs them."""
    for address in ("tcp://127.0.0.1:*", "tcp://localhost:*", "ipc://@hpcosim-test"):
        listener = listen(address)
        endpoint = endpoint_of(listener)
        close_listener(listener)
        if address.endswith("*"):
            assert int(endpoint.removeprefix("tcp://127.0.0.1:")) > 0
        else:
            assert endpoint == address
