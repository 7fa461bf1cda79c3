"""The client of a live view, against a small application of its own."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import zmq

import hpcosim_view.live.client
from hpcosim_view.errors import LiveRequestError, NoLiveViewError
from hpcosim_view.live.client import LiveView
from support.frames_by_hand import small_run
from support.live_app import LiveServer

TOKEN = "a-token-of-20-letters"


@pytest.fixture
def server() -> Iterator[LiveServer]:
    """Run a server with one session, `one`."""
    with LiveServer(token=TOKEN) as running:
        running.sessions["one"] = [small_run()]
        yield running


def view(server: LiveServer) -> LiveView:
    """Return a client of the server."""
    return LiveView(server.url, TOKEN, timeout_s=20)


def test_the_only_session_needs_no_name(server: LiveServer) -> None:
    """The session and its run so far are those of the server."""
    session = view(server).session()
    assert (session.label, session.scenario) == ("one", "small")
    run = view(server).run(session.label)
    assert run.columns["job.id"].tolist() == [1, 2, 3, 4, 5, 6]


def test_events_are_frames_until_the_end(server: LiveServer) -> None:
    """The events of a session are its frames and its end."""
    client = view(server)
    first, last = client.events("one")
    assert client.frame_of(first).about["users"][0] == "ann"
    assert last.kind == "end"


def test_a_change_of_pace_reaches_the_server(server: LiveServer) -> None:
    """The change is sent as JSON."""
    view(server).change_pace("one", {"paused": True})
    assert server.changes == [("one", {"paused": True})]


def test_a_session_must_exist_and_be_clear(server: LiveServer) -> None:
    """The error lists the sessions; a session that has ended is not meant."""
    with pytest.raises(
        LiveRequestError, match=r"no session 'two'; expected one of: one \(\w+, over\)$"
    ):
        view(server).session("two")
    server.sessions["three"] = [small_run(ended_because="")]
    assert view(server).session().label == "three"
    server.sessions["four"] = [small_run(ended_because="")]
    listed = r"three \(\w+, runs\), four \(\w+, runs\)$"
    with pytest.raises(LiveRequestError, match=f"2 sessions; name one with --session: {listed}"):
        view(server).session()
    server.sessions.clear()
    with pytest.raises(LiveRequestError, match="no scheduler has connected yet"):
        view(server).session()
    with pytest.raises(LiveRequestError, match="no such session"):
        view(server).run("x/../y?")


def test_a_token_is_asked_for(server: LiveServer) -> None:
    """The error says how to give the token, and whether it is missing or wrong."""
    for token, why in (("", "it needs a token"), ("other", "the token is wrong")):
        with pytest.raises(LiveRequestError, match=f"{why}; give the one that the server printed"):
            LiveView(server.url, token).sessions()


def test_a_token_may_be_in_the_url(server: LiveServer) -> None:
    """It is the URL that the server prints; no message shows the token."""
    client = LiveView(f"{server.url}/?token={TOKEN}", "another")
    assert client.session().label == "one"
    assert client.url == server.url
    wrong: list[Callable[[], object]] = [LiveView(f"{server.url}/?token=secret").sessions]
    rests = (
        "/x?token=secret",
        "/?x=1&token=secret",
        "/?secret",
        "/?token=secret%0A",
        "/?token=secret#x",
    )
    wrong += [partial(LiveView, server.url + rest) for rest in rests]
    wrong.append(partial(LiveView, server.url, "secret\n"))
    for call in wrong:
        with pytest.raises(LiveRequestError, match="token") as caught:
            call()
        assert "secret" not in str(caught.value)


def test_what_is_no_live_view_is_an_error_in_one_line(server: LiveServer) -> None:
    """Nothing that listens, another server and a redirect give one line each."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(NoLiveViewError, match="no live view answers: connection refused"):
        LiveView(address).sessions()
    server.answers["/api/sessions"] = (200, b"<html>")
    with pytest.raises(NoLiveViewError, match="it has no sessions"):
        view(server).sessions()
    server.answers["/api/sessions"] = (503, b'{"error": "the simulation is busy"}')
    with pytest.raises(NoLiveViewError, match=r"the simulation is busy$"):
        view(server).sessions()
    server.answers["/api/sessions"] = (302, b"")
    with pytest.raises(NoLiveViewError, match="status 302"):
        view(server).sessions()
    server.answers["/api/sessions/one/run"] = (200, b"HPCF and not a frame")
    with pytest.raises(NoLiveViewError, match="the frame is damaged"):
        view(server).run("one")


def test_a_server_that_is_silent_is_an_error(server: LiveServer) -> None:
    """The client waits no longer than its timeout."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NoLiveViewError, match="does not answer in time"):
            LiveView(url, timeout_s=0.05).sessions()


def test_the_port_of_schedulers_is_told_apart_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What greets in another protocol and waits is an error after a short time, with a hint."""
    monkeypatch.setattr(hpcosim_view.live.client, "FIRST_TIMEOUT_S", 0.1)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        port = router.bind_to_random_port("tcp://127.0.0.1")
        with pytest.raises(NoLiveViewError, match="the address of --http, not that for schedulers"):
            LiveView(f"http://127.0.0.1:{port}").sessions()


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://x:y", "http://x/y", "tcp://x:1"])
def test_a_malformed_url_is_an_error(url: str) -> None:
    """The error shows an example."""
    with pytest.raises(LiveRequestError, match=r"is no URL; expected http:"):
        LiveView(url)
