"""Servers with keys: the files, and who can connect."""

from __future__ import annotations

import os
import re
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
import zmq.auth

from hpcosim_client import Connection, ServerGoneError, Timeouts
from hpcosim_client.zmq_link import ZmqLink
from hpcosim_protocol.keys import (
    ClientKeys,
    KeyPair,
    KeysError,
    connect_with,
    make_keys,
    read_client_keys,
    read_server_keys,
)
from hpcosim_server.errors import BindError
from hpcosim_server.service.keys import Access, check_exposure
from hpcosim_server.wire.curve import Admitted, CurvePeers
from hpcosim_server.wire.listener import Bounds, close_listener, endpoint_of, key_of, listen
from hpcosim_server.wire.peers import Peers
from support.logs import captured_log
from support.processes import eventually

WAIT_S = 5.0


@contextmanager
def listening(folder: Path, **bounds: int) -> Iterator[tuple[CurvePeers, str]]:
    """Yield the connections of a server with the keys of a folder, and its address."""
    listener = listen("tcp://127.0.0.1:*")
    peers = CurvePeers(listener, read_server_keys(folder / "server"), Bounds(**bounds))
    try:
        yield peers, endpoint_of(listener)
    finally:
        peers.close()
        close_listener(listener)


@contextmanager
def connected(address: str, keys: ClientKeys | None) -> Iterator[ZmqLink]:
    """Yield a client's link."""
    link = ZmqLink(address, keys)
    try:
        yield link
    finally:
        link.close()


def test_secret_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    """Files with secret keys have mode 0600, and ZeroMQ reads them."""
    make_keys(tmp_path)
    for path in (tmp_path / "server/server.key_secret", tmp_path / "client/client.key_secret"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        public, secret = zmq.auth.load_certificate(path)
        assert zmq.curve_public(secret or b"") == public


def test_existing_keys_are_kept(tmp_path: Path) -> None:
    """A second client gets keys of its own; all earlier files stay as they were."""
    make_keys(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.key*")}
    assert make_keys(tmp_path) == []
    written = make_keys(tmp_path, "laptop")
    assert {path.name for path in written} == {"laptop.key", "client.key_secret", "server.key"}
    assert {path: path.read_bytes() for path in before} == before
    first = read_client_keys(tmp_path / "client")
    second = read_client_keys(tmp_path / "laptop")
    assert first.server == second.server
    assert first.own != second.own


@pytest.mark.parametrize("name", ["", "server", "../x", "a/b", ".x", "x" * 65, "a\n"])
def test_invalid_names_of_clients(name: str, tmp_path: Path) -> None:
    """The name of a client cannot lead out of the folder, nor be that of the server."""
    with pytest.raises(KeysError, match="expected a client's name"):
        make_keys(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\xff" * 500, b'public-key = "short"'])
def test_invalid_key_files(content: bytes, tmp_path: Path) -> None:
    """A file that is no certificate is an error with its path."""
    make_keys(tmp_path)
    path = tmp_path / "client/client.key_secret"
    path.write_bytes(content)
    with pytest.raises(KeysError, match=r"client\.key_secret: expected the lines public-key"):
        read_client_keys(tmp_path / "client")


def test_key_file_that_is_a_pipe(tmp_path: Path) -> None:
    """A pipe in place of a key is an error, not a wait for a writer."""
    os.mkfifo(tmp_path / "client.key_secret")
    with pytest.raises(KeysError, match="not a regular file"):
        read_client_keys(tmp_path)


def test_folder_above_the_keys_has_a_hint(tmp_path: Path) -> None:
    """A server that is given the folder of all keys is told which one is its own."""
    make_keys(tmp_path)
    with pytest.raises(KeysError, match=r"did you mean .*/server"):
        read_server_keys(tmp_path)


def test_admitted_client_gets_a_reply_and_is_known_by_its_key(tmp_path: Path) -> None:
    """The address of a client begins with its public key."""
    make_keys(tmp_path)
    keys = read_client_keys(tmp_path / "client")
    with listening(tmp_path) as (peers, address), connected(address, keys) as link:
        link.send(b"request")
        received = peers.receive(WAIT_S)
        assert received is not None
        sender, message = received
        assert key_of(sender) == keys.own.public
        assert message.frames == [b"request"]
        assert peers.send(sender, [b"reply"])
        assert link.receive(WAIT_S) == b"reply"


@pytest.mark.parametrize("whose", ["none", "other"])
def test_client_without_an_admitted_key_reaches_nothing(whose: str, tmp_path: Path) -> None:
    """Without keys, or with keys of its own making, a client's messages never arrive."""
    make_keys(tmp_path)
    keys = read_client_keys(tmp_path / "client")
    stranger = keys._replace(own=KeyPair(*zmq.curve_keypair())) if whose == "other" else None
    with (
        listening(tmp_path) as (peers, address),
        connected(address, keys) as friend,
        connected(address, stranger) as link,
    ):
        link.send(b"from a stranger")
        friend.send(b"from a friend")
        received = peers.receive(WAIT_S)
        assert received is not None
        assert received[1].frames == [b"from a friend"]
        assert peers.receive(0.2) is None


def test_client_does_not_talk_to_a_server_with_another_key(tmp_path: Path) -> None:
    """A server that does not have the secret key of the client's server.key gets no message."""
    make_keys(tmp_path / "a")
    make_keys(tmp_path / "b")
    keys = read_client_keys(tmp_path / "a/client", tmp_path / "b/client/server.key")
    with listening(tmp_path / "a") as (peers, address), connected(address, keys) as link:
        link.send(b"secret")
        assert peers.receive(0.3) is None


@pytest.mark.parametrize(
    ("whose", "cause"),
    [
        ("none", "the server closes connections of this client: it probably has keys"),
        ("not admitted", "the public key of its keys is not in the server's folder of clients"),
        ("other server", "it probably has another key than this client's server.key"),
    ],
)
def test_a_client_with_wrong_keys_is_told_the_cause(
    whose: str, cause: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning after a second, and the error at the end, name what is wrong with its keys."""
    make_keys(tmp_path / "a")
    make_keys(tmp_path / "b")
    server_key = tmp_path / "a/client/server.key"
    keys = {
        "none": None,
        "not admitted": read_client_keys(tmp_path / "b/client", server_key),
        "other server": read_client_keys(tmp_path / "a/client", tmp_path / "b/client/server.key"),
    }
    with (
        listening(tmp_path / "a") as (_, address),
        Connection(address, Timeouts(0.3, hello_s=1.1), keys=keys[whose]) as connection,
        pytest.raises(ServerGoneError, match=re.escape(cause)),
    ):
        connection.ping()
    (line,) = caplog.messages
    assert cause in line


def test_keys_for_a_server_without_keys_are_the_cause(tmp_path: Path) -> None:
    """A client with keys is told that the server has none."""
    make_keys(tmp_path)
    keys = read_client_keys(tmp_path / "client")
    listener = listen("tcp://127.0.0.1:*")
    peers = Peers(listener, Bounds())
    serving = threading.Thread(target=lambda: peers.receive(0.5))
    serving.start()
    with (
        Connection(endpoint_of(listener), Timeouts(0.1, hello_s=0.3), keys=keys) as connection,
        pytest.raises(ServerGoneError, match="the server has no keys, and this client has"),
    ):
        connection.ping()
    serving.join()
    peers.close()
    close_listener(listener)


def test_new_client_is_admitted_while_the_server_runs(tmp_path: Path) -> None:
    """The folder of clients is read again when it changes, in both directions."""
    make_keys(tmp_path)
    with listening(tmp_path) as (peers, address):
        make_keys(tmp_path, "late")
        keys = read_client_keys(tmp_path / "late")
        with connected(address, keys) as link:
            link.send(b"late")
            assert peers.receive(WAIT_S) is not None
        (tmp_path / "server/clients/late.key").unlink()
        with connected(address, keys) as link:
            link.send(b"removed")
            assert peers.receive(0.3) is None


@pytest.mark.parametrize("bad", ["link", "pipe", "folder", "empty", "loop"])
def test_a_bad_file_among_the_keys_locks_nobody_out(bad: str, tmp_path: Path) -> None:
    """It is logged once with its path and skipped, and the other keys are admitted."""
    make_keys(tmp_path)
    path = tmp_path / "server/clients/bad.key"
    make: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(tmp_path / "nothing"),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "empty": path.touch,
        "loop": lambda: path.symlink_to(path),
    }
    make[bad]()
    key = read_client_keys(tmp_path / "client").own.public
    with captured_log() as log:
        admitted = Admitted(tmp_path / "server/clients")
        assert all(admitted.callback("", key) for _ in range(3))
    (line,) = log
    assert line["event"] == "key_not_read"
    assert str(path) in line["error"]


def test_a_key_that_vanishes_between_listing_and_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other keys are admitted."""
    make_keys(tmp_path)
    make_keys(tmp_path, "gone")
    scandir = os.scandir

    @contextmanager
    def slow(folder: Path) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(folder) as entries:
            found = list(entries)
        (tmp_path / "server/clients/gone.key").unlink(missing_ok=True)
        yield found

    monkeypatch.setattr(os, "scandir", slow)
    admitted = Admitted(tmp_path / "server/clients")
    assert admitted.callback("", read_client_keys(tmp_path / "client").own.public)


def test_second_peer_with_the_routing_id_of_another_gets_nothing(tmp_path: Path) -> None:
    """A peer that claims the routing id of a connected one neither replaces nor joins it."""
    make_keys(tmp_path)
    keys = read_client_keys(tmp_path / "client")
    with listening(tmp_path) as (peers, address), zmq.Context() as context:
        sockets = [context.socket(zmq.DEALER) for _ in range(2)]
        for each in sockets:
            each.linger, each.routing_id = 0, b"mine"
            connect_with(each, keys)
        sockets[0].connect(address)
        sockets[0].send(b"hello")
        received = peers.receive(WAIT_S)
        assert received is not None
        sockets[1].connect(address)
        sockets[1].send(b"hello")
        assert peers.receive(0.3) is None
        assert peers.send(received[0], [b"reply"])
        assert sockets[0].poll(int(1000 * WAIT_S))
        assert not sockets[1].poll(0)
        for each in sockets:
            each.close()


def test_connections_that_end_are_told(tmp_path: Path) -> None:
    """A client that goes leaves no trace: its address is among the closed ones."""
    make_keys(tmp_path)
    keys = read_client_keys(tmp_path / "client")
    with listening(tmp_path) as (peers, address):
        with connected(address, keys) as link:
            link.send(b"request")
            received = peers.receive(WAIT_S)
            assert received is not None
        assert eventually(lambda: not peers.has_message and peers.closed)
        assert peers.closed == [received[0]]


def test_a_key_with_few_connections_is_let_in(tmp_path: Path) -> None:
    """However many connections one key keeps open, another key gets its equal share.

    As clients do, both repeat a request without a reply: until its first request is read, a
    connection counts for its host, and may give way to one of the other key.
    """
    make_keys(tmp_path)
    make_keys(tmp_path, "greedy")
    with listening(tmp_path, peers=4) as (peers, address), ExitStack() as stack:
        greedy, keys = (read_client_keys(tmp_path / name) for name in ("greedy", "client"))

        def is_heard(link: ZmqLink, request: bytes) -> bool:
            link.send(request)
            received = peers.receive(0.2)
            return received is not None and received[1].frames == [request]

        def has_reply(link: ZmqLink) -> bool:
            link.send(b"modest")
            while received := peers.receive(0.2):
                if received[1].frames == [b"modest"]:
                    peers.send(received[0], [b"reply"])
                    break
            return link.receive(0.2) == b"reply"

        for number in range(8):
            link = stack.enter_context(connected(address, greedy))
            assert eventually(partial(is_heard, link, b"greedy %d" % number))
        link = stack.enter_context(connected(address, keys))
        assert eventually(partial(has_reply, link))


def test_connections_that_say_nothing_give_way(tmp_path: Path) -> None:
    """Strangers that open connections and never end the handshake keep nobody out."""
    make_keys(tmp_path)
    with listening(tmp_path, peers=4, handshake_s=1000) as (peers, address), ExitStack() as stack:
        host, port = address.removeprefix("tcp://").split(":")
        for _ in range(20):
            stack.enter_context(socket.create_connection((host, int(port))))
        link = stack.enter_context(connected(address, read_client_keys(tmp_path / "client")))
        link.send(b"request")
        assert eventually(lambda: peers.receive(0.01))


def test_public_address_needs_keys(tmp_path: Path) -> None:
    """Without keys or --insecure, an address that other machines reach is refused."""
    listener = listen("tcp://*:*")
    try:
        endpoint = endpoint_of(listener)
        with pytest.raises(BindError, match="hpcosim keygen KEYS"):
            check_exposure(endpoint, Access())
        check_exposure(endpoint, Access(insecure=True))
        make_keys(tmp_path)
        check_exposure(endpoint, Access(read_server_keys(tmp_path / "server")))
    finally:
        close_listener(listener)
