"""Connections that move between `Peers`, packets with connections, and clients with keys."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client.zmq_link import ZmqLink
from hpcosim_protocol.keys import make_keys, read_client_keys, read_server_keys
from hpcosim_protocol.zmtp import Decoder, encoded, ready
from hpcosim_server.service.front import Gate
from hpcosim_server.wire.curve import CurvePeers
from hpcosim_server.wire.listener import Bounds, close_listener, endpoint_of, key_of, listen
from hpcosim_server.wire.peer import MovedConnection
from hpcosim_server.wire.peers import Peers
from hpcosim_server.wire.post import INLINE_BYTES, Packet, Poller, Post
from support.examples import examples
from support.raw_zmtp import MORE, frame

SOON_S = 20.0
ADDRESS = b"client"
MOST_BYTES = 1000


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, which may do something."""
    until_s = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < until_s


# Peers

ENVELOPES = st.lists(st.binary(max_size=40), max_size=3)
BODIES = st.binary(max_size=300) | st.integers(MOST_BYTES + 1, 3 * MOST_BYTES).map(bytes)
TOO_LONG = st.just(frame(b"", MORE) * 9 + frame(b"dropped"))


@given(
    sent=st.lists(st.builds(lambda e, b: b"".join(encoded([*e, b])), ENVELOPES, BODIES) | TOO_LONG),
    cuts=st.lists(st.integers(1, 400), min_size=1),
    moves=st.lists(st.booleans(), min_size=1),
)
@examples(60)
def test_messages_are_the_same_wherever_their_connection_moves(
    sent: list[bytes], cuts: list[int], moves: list[bool]
) -> None:
    """A stream is cut anywhere, and moves between two processes at any time."""
    stream = b"".join(sent)
    reference = Decoder(MOST_BYTES)
    reference.feed(ready(b"DEALER") + stream)
    expected = list(iter(reference.next, None))
    theirs, ours = socket.socketpair()
    here, there = (Peers(None, Bounds(message_bytes=MOST_BYTES)) for _ in range(2))
    assert here.adopt(MovedConnection(ours, ADDRESS))
    found, turn = [], 0
    while stream:
        theirs.send(stream[: cuts[turn % len(cuts)]])
        stream = stream[cuts[turn % len(cuts)] :]
        if came := here.receive(0.0):
            found.append(came[1])
        if moves[turn % len(moves)]:
            moved = here.release(ADDRESS)
            assert moved is not None
            here, there = there, here
            assert here.adopt(moved)
        turn += 1
    tries = [here.receive(0.0) for _ in range(len(expected) + 3)]  # some complete no message
    found += [came[1] for came in tries if came]
    assert found == expected
    theirs.close()
    for peers in (here, there):
        peers.close()


def test_what_is_not_sent_moves_along() -> None:
    """A client that does not read gets all replies in their order later."""
    theirs, ours = socket.socketpair()
    here, there = Peers(), Peers()
    here.adopt(MovedConnection(ours, ADDRESS))
    bodies = [bytes([number]) * 300_000 for number in range(5)]
    for body in bodies[:3]:
        assert here.send(ADDRESS, [body])
    moved = here.release(ADDRESS)
    assert moved is not None
    assert there.adopt(moved)
    for body in bodies[3:]:
        assert there.send(ADDRESS, [body])
    expected = b"".join(frame(body) for body in bodies)
    got = bytearray()
    theirs.setblocking(False)

    def has_come() -> bool:
        there.receive(0.0)
        with suppress(BlockingIOError):
            got.extend(theirs.recv(2**18))
        return len(got) == len(expected)

    until(has_come)
    assert got == expected
    theirs.close()
    here.close()
    there.close()


def test_a_parked_connection_is_not_read_and_closed_when_its_client_goes() -> None:
    """Its messages are there when it is unparked."""
    theirs, ours = socket.socketpair()
    peers = Peers()
    peers.adopt(MovedConnection(ours, ADDRESS))
    assert peers.park(ADDRESS)
    theirs.send(frame(b"later") + frame(b"last"))
    assert peers.receive(0.05) is None
    assert peers.unpark(ADDRESS)
    for body in (b"later", b"last"):
        found = peers.receive(SOON_S)
        assert found is not None
        assert found[1].frames == [body]
        peers.park(ADDRESS)
        assert peers.receive(0.0) is None
        peers.unpark(ADDRESS)
    peers.park(ADDRESS)
    theirs.close()
    until(lambda: peers.receive(0.01) is None and not len(peers))
    assert peers.closed == [ADDRESS]
    assert not peers.park(ADDRESS)
    peers.close()


def test_peers_without_room_close_what_they_should_adopt() -> None:
    """The bound of connections holds for adopted ones; an address is taken once."""
    theirs, ours = socket.socketpair()
    again, other = socket.socketpair()
    peers = Peers(None, Bounds(peers=1, settled_s=1000.0))
    assert peers.adopt(MovedConnection(ours, ADDRESS))
    assert not peers.adopt(MovedConnection(again, ADDRESS))
    assert not peers.adopt(MovedConnection(other, b"other"))
    peers.close()
    theirs.close()


# Packets


@pytest.fixture
def posts() -> Iterator[tuple[Post, Post, Poller]]:
    """Two ends of a connection for packets, and what waits for them."""
    poller = Poller()
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one, other = (Post(end, poller, lambda _: None) for end in ends)
    yield one, other, poller
    one.close()
    other.close()
    poller.close()


Posts = tuple[Post, Post, Poller]


def packets_of(post: Post, poller: Poller, count: int) -> list[Packet]:
    """Return so many packets."""
    found: list[Packet] = []

    def has_come() -> bool:
        poller.wait(0.0)
        if packet := post.receive():
            found.append(packet)
        return len(found) == count

    until(has_come)
    return found


def test_packets_of_any_size_arrive_in_order(posts: Posts) -> None:
    """Large ones travel as files; none waits for a process that does not read."""
    one, other, poller = posts
    sizes = [1, INLINE_BYTES, INLINE_BYTES + 1, 2**22, 5] * 8
    for number, size in enumerate(sizes):
        assert one.send(bytes([number % 256]) * size)
    found = packets_of(other, poller, len(sizes))
    expected = [(number % 256, size) for number, size in enumerate(sizes)]
    assert [(packet.data[0], len(packet.data)) for packet in found] == expected
    assert (one.sent, other.received) == (len(sizes), len(sizes))


def test_a_packet_brings_a_connection(posts: Posts) -> None:
    """It works as before, whatever the size of the packet."""
    one, other, poller = posts
    for size in (3, INLINE_BYTES + 1):
        theirs, ours = socket.socketpair()
        one.send(bytes(size), ours)
        (packet,) = packets_of(other, poller, 1)
        assert packet.connection is not None
        theirs.send(b"hello")
        assert packet.connection.recv(10) == b"hello"
        packet.connection.close()
        theirs.close()


def test_connections_that_wait_for_an_end_that_is_gone_are_closed(posts: Posts) -> None:
    """Their clients see it."""
    one, _, _ = posts
    clients = []
    for _ in range(400):  # more than the kernel keeps
        theirs, ours = socket.socketpair()
        clients.append(theirs)
        assert one.send(bytes(1000), ours)
    before = len(os.listdir("/proc/self/fd"))
    one.close()
    posts[1].close()
    for client in clients:
        client.settimeout(SOON_S)
        assert client.recv(1) == b""
        client.close()
    assert len(os.listdir("/proc/self/fd")) <= before - 402


# Clients with keys


def test_a_client_with_a_key_has_an_ordinary_connection(tmp_path: Path) -> None:
    """Messages of any size go both ways, and its address tells its key."""
    make_keys(tmp_path)
    listener = listen("tcp://127.0.0.1:*")
    poller = Poller()
    inside = Peers(None, Bounds(), poller)
    gate = Gate(CurvePeers(listener, read_server_keys(tmp_path / "server")), inside, poller)
    keys = read_client_keys(tmp_path / "client")
    link = ZmqLink(endpoint_of(listener), keys)
    replies: list[bytes] = []

    def echoed() -> bool:
        gate.pump()
        if found := inside.receive(0.01):
            address, message = found
            assert key_of(address) == keys.own.public
            inside.send(address, [*message.frames[:-1], message.frames[-1] + b"!"])
        if reply := link.receive(0.01):
            replies.append(reply)
        return bool(replies)

    for body in (b"small", bytes(3_000_000)):
        link.send(body)
        until(echoed)
        assert replies.pop() == body + b"!"
    link.send(bytes(17 * 2**20))
    until(echoed)
    assert b"message_too_large" in replies.pop()
    link.close()
    gate.close(1.0)
    inside.close()
    poller.close()
    close_listener(listener)
