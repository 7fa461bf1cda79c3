"""The web server of the live view and peers that send half a request, or nonsense."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import httpx
import pytest

from hpcosim_view.live.address import HttpAddress, Page, open_page
from hpcosim_view.live.hub import Hub
from hpcosim_view.live.web_server import MAX_CONNECTIONS, EventHandler, WebServer
from support.logs import captured_log
from support.processes import SOON_S, eventually

HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@contextmanager
def serving(request_timeout_s: float) -> Iterator[Page]:
    """Run the web server of an empty hub."""
    page = open_page(HttpAddress("127.0.0.1", 0))
    with WebServer(Hub(), page, request_timeout_s=request_timeout_s):
        yield page


def peer_of(server: Page, data: bytes) -> socket.socket:
    """Return a connection that has sent some bytes."""
    parts = urlsplit(server.url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=SOON_S)
    connection.sendall(data)
    return connection


def is_closed(peer: socket.socket) -> bool:
    """Return whether the server closes the connection, after an answer or none."""
    try:
        while peer.recv(1024):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize(
    "data",
    [b"", HALF, b"POST /api/sessions/x/pace HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"],
)
def test_half_a_request_is_closed(data: bytes) -> None:
    """A connection without a whole request ends after the timeout."""
    with serving(0.2) as server, peer_of(server, data) as peer:
        assert is_closed(peer)


def test_a_whole_request_is_not_closed() -> None:
    """A connection with requests lives on after the timeout of each."""
    with serving(0.5) as server, httpx.Client(base_url=server.url) as client:
        for _ in range(3):
            assert client.get("/healthz").text == "ok\n"


@pytest.mark.slow
def test_peers_that_send_half_a_request_keep_no_other_out() -> None:
    """With all connections taken by halves of requests, a new one is served at once."""
    with serving(SOON_S) as server, ExitStack() as peers:
        for _ in range(MAX_CONNECTIONS + 20):
            peers.enter_context(peer_of(server, HALF))
        for _ in range(3):
            assert httpx.get(f"{server.url}healthz").text == "ok\n"


def test_messages_of_the_web_server_are_events_of_the_log() -> None:
    """Nonsense from a peer is logged as an event, not as plain text."""
    with captured_log() as events, serving(SOON_S) as server, peer_of(server, b"what?\r\n\r\n"):
        eventually(lambda: events)
    assert events[0]["event"] == "web_server"
    assert events[0]["message"] == "Invalid HTTP request received."


def test_a_message_is_logged_once_in_an_interval() -> None:
    """The next event tells how often the message was left out."""
    record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, "no", (), None)
    handler = EventHandler(interval_s=1000.0)
    with captured_log() as events:
        for _ in range(3):
            handler.emit(record)
        handler._due_s.clear()
        handler.emit(record)
    assert [event.get("omitted") for event in events] == [None, 2]
