"""The client's link over one socket, against sockets of libzmq."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from hpcosim_client.link import Place, SocketLink, place_of

WAIT_S = 20.0


@pytest.fixture
def router() -> Iterator[zmq.Socket[bytes]]:
    """A ROUTER of libzmq."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as found:
        found.linger = 0
        found.rcvtimeo = 20_000
        yield found


def linked(address: str) -> SocketLink:
    """Return a link to an address."""
    place = place_of(address)
    assert place is not None
    return SocketLink(place, WAIT_S)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000, 1_000_000])
def test_messages_of_any_size_pass_both_ways(router: zmq.Socket[bytes], size: int) -> None:
    """A ROUTER of libzmq gets the bytes that were sent, and its reply arrives unchanged."""
    link = linked(f"tcp://127.0.0.1:{router.bind_to_random_port('tcp://127.0.0.1')}")
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert _echoed(link, router, body) == body


def test_a_local_socket_connects_like_a_port(router: zmq.Socket[bytes], tmp_path: Path) -> None:
    """`ipc://PATH` names a local socket."""
    router.bind(f"ipc://{tmp_path}/a.sock")
    assert _echoed(linked(f"ipc://{tmp_path}/a.sock"), router, b"hello") == b"hello"


def test_a_message_waits_for_a_server_that_starts_later(
    router: zmq.Socket[bytes], tmp_path: Path
) -> None:
    """The message is sent when the server listens."""
    link = linked(f"ipc://{tmp_path}/a.sock")
    link.send(b"early")
    assert link.receive(0.05) is None
    router.bind(f"ipc://{tmp_path}/a.sock")
    answering = threading.Thread(target=_answer, args=(router,))
    answering.start()
    assert link.receive(WAIT_S) == b"early"
    answering.join()
    link.close()


def test_an_unanswered_message_is_sent_again_after_the_connection_is_lost(tmp_path: Path) -> None:
    """A server that starts again gets the message without a repetition by the caller."""
    address = f"ipc://{tmp_path}/a.sock"
    link = linked(address)
    with zmq.Context() as context:
        with context.socket(zmq.ROUTER) as first:
            first.linger, first.rcvtimeo = 0, 20_000
            first.bind(address)
            link.send(b"once")
            until_s = time.monotonic() + 20
            while not first.poll(0) and time.monotonic() < until_s:
                assert link.receive(0.05) is None  # it also carries the handshake on
            assert first.recv_multipart()[-1] == b"once"
        with context.socket(zmq.ROUTER) as second:
            second.linger, second.rcvtimeo = 0, 20_000
            second.bind(address)
            answering = threading.Thread(target=_answer, args=(second,))
            answering.start()
            assert link.receive(WAIT_S) == b"once"
            answering.join()
    link.close()


def test_no_reply_is_none_after_the_timeout(router: zmq.Socket[bytes], tmp_path: Path) -> None:
    """`receive` returns None if nothing came in time."""
    router.bind(f"ipc://{tmp_path}/a.sock")
    link = linked(f"ipc://{tmp_path}/a.sock")
    link.send(b"hello")
    assert link.receive(0.02) is None
    link.close()


def test_a_server_of_another_protocol_is_a_problem() -> None:
    """A web server, for example, is named, and the client goes on to wait."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        link = linked(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        link.send(b"hello")

        def answer() -> None:
            connection, _ = listener.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        answering = threading.Thread(target=answer)
        answering.start()
        assert link.receive(0.3) is None
        answering.join()
        link.close()
    what = "the server does not speak the wire protocol of this client: the peer does not speak"
    assert link.problem.startswith(what)


def test_a_problem_ends_with_the_next_message(tmp_path: Path) -> None:
    """A server with keys is named; a later one without, which answers, leaves no problem."""
    address = f"ipc://{tmp_path}/a.sock"
    link = linked(address)
    link.send(b"hello")
    with zmq.Context() as context:
        with context.socket(zmq.ROUTER) as other:
            other.curve_server = True
            _, other.curve_secretkey = zmq.curve_keypair()
            other.bind(address)
            assert link.receive(0.3) is None
            assert "it probably has keys" in link.problem
        with context.socket(zmq.ROUTER) as router:
            router.linger, router.rcvtimeo = 0, 20_000
            router.bind(address)
            assert _echoed(link, router, b"again") == b"again"
    assert link.problem == ""


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("tcp://127.0.0.1:80", Place("127.0.0.1", 80, b"")),
        ("tcp://[::1]:80", Place("::1", 80, b"")),
        ("ipc:///run/a.sock", Place("", 0, b"/run/a.sock")),
        ("ipc://@name", Place("", 0, b"\0name")),
        ("tcp://*:80", None),
        ("tcp://a;b:80", None),
        ("tcp://::1:80", None),
        ("tcp://localhost", None),
        ("tcp://localhost:0", None),
        ("tcp://localhost:65536", None),
        ("ipc://", None),
        ("ipc://" + 200 * "x", None),
        ("inproc://a", None),
        ("localhost:80", None),
    ],
)
def test_the_place_of_an_address(address: str, place: Place | None) -> None:
    """Addresses that the link does not know are left to libzmq, which explains what is wrong."""
    assert place_of(address) == place


def _answer(router: zmq.Socket[bytes]) -> None:
    """Send the next message back."""
    router.send_multipart(router.recv_multipart())


def _echoed(link: SocketLink, router: zmq.Socket[bytes], body: bytes) -> bytes | None:
    """Return what comes back of a message."""
    link.send(body)
    answering = threading.Thread(target=_answer, args=(router,))
    answering.start()
    found = link.receive(WAIT_S)
    answering.join()
    link.close()
    return found
