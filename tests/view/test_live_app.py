"""The web application of the live view: pages, sessions, pace, metrics and its guard."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from hpcosim_protocol import ServerStatus
from hpcosim_scenarios.running.library import Library
from hpcosim_server.service.observer import Watch
from hpcosim_server.service.service import Service
from hpcosim_view.live.app import MAX_BODY_BYTES, make_app
from hpcosim_view.live.hub import Hub
from hpcosim_view.live.page_process import sources_of
from hpcosim_view.run.frame import decode_frame
from hpcosim_view.run.recording import RecordingReader
from support.live_sessions import Player, scenario_in

TOKEN = "0123456789abcdefghij"
Check = Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]


class Stage:
    """A hub with a session `player`, and a client of its application."""

    def __init__(self, folder: Path, token: str = "") -> None:
        self.hub = Hub()
        self._folder, self._token = folder, token
        self.player: Player

    def run(self, check: Check) -> None:
        """Run a check in an event loop with a client that has an open session."""

        async def checked() -> None:
            sources = sources_of(self.hub, asyncio.get_running_loop(), RecordingReader)
            library = Library([scenario_in(self._folder)])
            self._service = Service(library.open, watch=Watch(sources))
            self.player = Player(self._service)
            await asyncio.sleep(0)  # the hub adds the session
            app = make_app(self.hub, "127.0.0.1", 8080, self._token)
            transport = httpx.ASGITransport(app)
            hooks = {"request": [settled]}
            async with httpx.AsyncClient(
                transport=transport, base_url=BASE, event_hooks=hooks
            ) as client:
                await check(client)

        asyncio.run(checked())

    def look(self) -> None:
        """Look at the session, as the service does four times a second."""
        observer = self._service._observer
        assert observer is not None
        observer.ticked()

    def tidy(self) -> None:
        """Let the service do its work between requests."""
        self._service.tidy()

    @property
    def session(self) -> str:
        """The path of the session."""
        return f"/api/sessions/{self.player.label}"


BASE = "http://127.0.0.1:8080"


async def settled(_: httpx.Request) -> None:
    """Let the hub handle the reports that were made before a request."""
    await asyncio.sleep(0)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A hub without a token."""
    return Stage(tmp_path)


def test_the_list_of_sessions_has_labels_but_no_secret_names(stage: Stage) -> None:
    """The list tells the progress of a session by its public label."""

    async def check(client: httpx.AsyncClient) -> None:
        reply = await client.get("/api/sessions")
        (session,) = reply.json()["sessions"]
        assert session["label"] == stage.player.label
        assert (session["scenario"], session["jobs_over"], session["paused"]) == ("live", 0, False)
        assert stage.player.name not in reply.text
        assert stage.hub.is_viewed

    stage.run(check)


def test_run_is_the_whole_run_so_far(stage: Stage) -> None:
    """One frame has the run from its begin to now, again and again."""

    async def check(client: httpx.AsyncClient) -> None:
        ticking = asyncio.create_task(stage.player.tick_forever())
        rows = []
        for _ in range(3):
            stage.player.play(5)
            reply = await client.get(f"{stage.session}/run")
            frame = decode_frame(reply.content)
            rows.append(len(frame.columns["job.id"]))
            assert frame.about["now_s"] == stage.player.simulation.now_s
            assert len(frame.columns["start.job"]) > 0
        assert rows == sorted(rows)
        assert rows[-1] == len(stage.player.simulation.recording)
        ticking.cancel()

    stage.run(check)


def test_run_of_a_session_that_ended_without_viewers_is_complete(stage: Stage) -> None:
    """A viewer that comes after the end gets everything."""

    async def check(client: httpx.AsyncClient) -> None:
        stage.player.play()
        frame = decode_frame((await client.get(f"{stage.session}/run")).content)
        assert frame.about["complete"] is True
        assert len(frame.columns["end.job"]) == 30

    stage.run(check)


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ('{"speed": 3600}', (3600.0, False)),
        ('{"speed": null}', (None, False)),
        ('{"paused": true}', (None, True)),
        ('{"step": 1}', (None, True)),
    ],
)
def test_a_request_changes_the_pace(stage: Stage, body: str, state: object) -> None:
    """Speed, pause and step change the pace of the session."""

    async def check(client: httpx.AsyncClient) -> None:
        reply = await client.post(f"{stage.session}/pace", content=body, headers=JSON)
        assert reply.status_code == 200
        assert stage.hub.feeds[stage.player.label].pace == state
        assert (reply.json()["speed"], reply.json()["paused"]) == state

    stage.run(check)


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("", "Input data was truncated"),
        ("[]", "Expected `object`"),
        ("{}", "expected one of"),
        ('{"speed": 1, "paused": true}', "expected one of"),
        ('{"speed": 0}', "expected a speed from"),
        ('{"speed": "fast"}', "Expected `float | null`"),
        ('{"speed": 1e999}', "out of range"),
        ('{"step": 0}', "expected from 1 to 1000 steps"),
        ('{"stop": 1}', "unknown field"),
        ('{"paused": "\\ud800"}', "expected"),
    ],
)
def test_a_bad_pace_is_explained(stage: Stage, body: str, what: str) -> None:
    """A request with another content is status 400 with the reason, and changes nothing."""

    async def check(client: httpx.AsyncClient) -> None:
        reply = await client.post(f"{stage.session}/pace", content=body, headers=JSON)
        assert reply.status_code == 400
        assert what in reply.json()["error"]
        assert stage.hub.feeds[stage.player.label].pace == (None, False)

    stage.run(check)


def test_a_large_body_or_another_type_is_rejected(stage: Stage) -> None:
    """A body has a maximum size and must be declared as JSON, which no form of a page can."""

    async def check(client: httpx.AsyncClient) -> None:
        path = f"{stage.session}/pace"
        large = b" " * (MAX_BODY_BYTES + 1)
        assert (await client.post(path, content=large, headers=JSON)).status_code == 413
        assert (await client.post(path, content=b"{}")).status_code == 415
        assert (await client.get(path)).status_code == 405

    stage.run(check)


@pytest.mark.parametrize("path", ["frames", "run"])
def test_an_unknown_session_is_not_found(stage: Stage, path: str) -> None:
    """A label that does not exist is status 404."""

    async def check(client: httpx.AsyncClient) -> None:
        reply = await client.get(f"/api/sessions/nobody/{path}")
        assert reply.status_code == 404
        assert "no such session" in reply.json()["error"]

    stage.run(check)


@pytest.mark.parametrize(
    "path", ["/package.json", "/../errors.py", "/%2e%2e/errors.py", "/x.js", "/.js", "/a/b.js"]
)
def test_only_files_of_the_page_are_served(stage: Stage, path: str) -> None:
    """Other paths are not found, also those that leave the folder."""

    async def check(client: httpx.AsyncClient) -> None:
        assert (await client.get(path)).status_code == 404

    stage.run(check)


def test_the_page_and_its_modules_have_a_strict_policy(stage: Stage) -> None:
    """Every module that the page imports is served, and every reply has the security headers."""

    async def check(client: httpx.AsyncClient) -> None:
        types = {"/": "text/html", "/live_main.js": "text/javascript", "/report.css": "text/css"}
        for path, kind in types.items():
            reply = await client.get(path)
            assert reply.status_code == 200
            assert reply.headers["content-type"].startswith(kind)
            policy = reply.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert reply.headers["x-content-type-options"] == "nosniff"

    stage.run(check)


def test_names_have_no_control_characters(stage: Stage) -> None:
    """Names of schedulers cannot change the direction of text or the lines of the figures."""

    async def check(client: httpx.AsyncClient) -> None:
        (feed,) = stage.hub.feeds.values()
        feed.scheduler = 'a\u202eb\n"c\x1b'
        (session,) = (await client.get("/api/sessions")).json()["sessions"]
        assert session["scheduler"] == 'a?b?"c?'
        assert 'scheduler="a?b?\\"c?"' in (await client.get("/metrics")).text

    stage.run(check)


def test_figures_of_a_session_are_those_of_its_label_until_it_closes(stage: Stage) -> None:
    """Names are in an info metric; a closed session is only in the totals."""

    async def check(client: httpx.AsyncClient) -> None:
        label = stage.player.label
        stage.player.play(5)
        stage.look()
        text = (await client.get("/metrics")).text
        requests = float(stage.player.simulation.requests)
        assert f'hpcosim_session_requests_total{{session="{label}"}} {requests}' in text
        assert f'hpcosim_session_simulated_seconds{{session="{label}"}} ' in text
        names = 'scenario="live",scheduler="player"'
        assert f'hpcosim_session_info{{{names},session="{label}"}} 1.0' in text
        assert re.search(r'^hpcosim_build_info{version="[0-9].*"} 1.0$', text, re.MULTILINE)
        stage.player.play()
        text = (await client.get("/metrics")).text
        assert label not in text
        assert "hpcosim_requests_total" in text

    stage.run(check)


def test_metrics_count_what_happened(stage: Stage) -> None:
    """Prometheus gets the counters of all sessions, and health is a plain reply."""

    async def check(client: httpx.AsyncClient) -> None:
        stage.player.play()
        text = (await client.get("/metrics")).text
        assert "hpcosim_sessions_total 1.0" in text
        assert "hpcosim_jobs_over_total 30.0" in text
        assert f"hpcosim_requests_total {float(stage.player.simulation.requests)}" in text
        assert "hpcosim_viewers 0.0" in text
        assert (await client.get("/healthz")).text == "ok\n"

    stage.run(check)


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({"state": "draining"}, "draining"),
        ({"journal": "failing"}, "journals cannot be written"),
        ({"results": "failing"}, "results cannot be written"),
    ],
)
def test_health_is_bad_while_the_server_ends_or_cannot_write(
    stage: Stage, told: dict[str, Any], problem: str
) -> None:
    """Health checks get 503 and the reason, and metrics say so."""

    async def check(client: httpx.AsyncClient) -> None:
        stage.hub.note_status(ServerStatus(server="s", failures={"client_left": 3}, **told))
        health = await client.get("/healthz")
        assert (health.status_code, health.text) == (503, f"{problem}\n")
        text = (await client.get("/metrics")).text
        assert "hpcosim_healthy 0.0" in text
        assert 'hpcosim_failures_total{cause="client_left"} 3.0' in text

    stage.run(check)


def test_metrics_have_the_status_of_the_server(stage: Stage) -> None:
    """The service tells its status between requests."""

    async def check(client: httpx.AsyncClient) -> None:
        stage.tidy()
        text = (await client.get("/metrics")).text
        for line in (
            "hpcosim_healthy 1.0",
            "hpcosim_workers 1.0",
            "hpcosim_sessions_refused_total 0.0",
            "hpcosim_journals_failed_total 0.0",
            "hpcosim_messages_lost_total 0.0",
            'hpcosim_failures_total{cause="results_not_written"} 0.0',
        ):
            assert line in text.splitlines()
        assert re.search(r"^hpcosim_memory_bytes [0-9.e+]+$", text, re.MULTILINE)

    stage.run(check)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("localhost:1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8080", 421),
        ("127.0.0.1@evil.example", 421),
        ("", 421),
    ],
)
def test_other_host_names_are_rejected(stage: Stage, host: str, status: int) -> None:
    """A web site that names this server by DNS rebinding gets nothing."""

    async def check(client: httpx.AsyncClient) -> None:
        assert (await client.get("/healthz", headers={"host": host})).status_code == status

    stage.run(check)


def test_names_of_the_machine_are_accepted_and_told() -> None:
    """The machine may be named in full or short; the message says so."""

    async def check() -> None:
        app = make_app(Hub(), "0.0.0.0", 8080, "", ("Front.example.org", "front"))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE) as client:
            for host in ("front.example.org:8080", "FRONT:8080", "localhost"):
                assert (await client.get("/healthz", headers={"host": host})).status_code == 200
            refused = await client.get("/healthz", headers={"host": "evil.example"})
            assert "front.example.org, front" in refused.text

    asyncio.run(check())


@pytest.mark.parametrize(
    ("origin", "status"),
    [(BASE, 200), ("http://evil.example", 403), ("null", 403), ("http://127.0.0.1:9", 403)],
)
def test_other_web_sites_cannot_change_the_pace(stage: Stage, origin: str, status: int) -> None:
    """A request that a browser sends for another web site is rejected."""

    async def check(client: httpx.AsyncClient) -> None:
        headers = {**JSON, "origin": origin}
        path = f"{stage.session}/pace"
        reply = await client.post(path, content='{"paused": true}', headers=headers)
        assert reply.status_code == status

    stage.run(check)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"authorization": f"bearer {TOKEN}"}, 200),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401),
        ({"authorization": f"Bearer {TOKEN[:-1]}"}, 401),
        ({"cookie": f"hpcosim_8080={TOKEN}"}, 401),
        ({"cookie": "hpcosim_8080="}, 401),
    ],
)
def test_a_token_is_needed(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    """With a token, each request needs it as Bearer token; it is no cookie."""

    async def check(client: httpx.AsyncClient) -> None:
        for path in ("/", "/healthz", "/api/sessions", "/live_main.js"):
            assert (await client.get(path, headers=headers)).status_code == status

    Stage(tmp_path, TOKEN).run(check)


def test_the_url_with_the_token_sets_a_cookie_and_hides_the_token(tmp_path: Path) -> None:
    """The page opens by one URL with the token, which then leaves the address bar."""

    async def check(client: httpx.AsyncClient) -> None:
        wrong = await client.get("/?token=other")
        assert wrong.status_code == 401
        reply = await client.get(f"/?token={TOKEN}")
        assert (reply.status_code, reply.headers["location"]) == (303, "/")
        cookie = reply.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert TOKEN not in reply.headers["set-cookie"]
        assert (await client.get("/")).status_code == 200
        (name,) = client.cookies
        assert name == "hpcosim_8080"
        client.cookies = httpx.Cookies({"hpcosim_9090": client.cookies[name]})
        assert (await client.get("/")).status_code == 401

    Stage(tmp_path, TOKEN).run(check)
