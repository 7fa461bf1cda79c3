"""The web application: the page, the sessions, their frames and their pace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hpcosim_view.live.control import pace_change
from hpcosim_view.live.errors import PaceError
from hpcosim_view.live.events import EventStream
from hpcosim_view.live.feed import Feed
from hpcosim_view.live.guard import Guard
from hpcosim_view.live.hub import MAX_VIEWERS, Hub
from hpcosim_view.live.metrics import registry_of
from hpcosim_view.runs import printable

MAX_BODY_BYTES = 4096
RUN_TIMEOUT_S = 5.0
"""Longest wait of `/run` for a simulation that is busy, s."""
TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
_FILE = re.compile(r"[a-z][a-z0-9_]*\.(html|js|css)")


class LiveApp:
    """The pages of a hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._registry = registry_of(hub)

    def routes(self) -> list[Route]:
        """Return the routes."""
        session = "/api/sessions/{label}"
        return [
            Route("/", self.page),
            Route("/healthz", self.health),
            Route("/metrics", self.metrics),
            Route("/api/sessions", self.sessions),
            Route(f"{session}/frames", self.frames),
            Route(f"{session}/run", self.run),
            Route(f"{session}/pace", self.pace, methods=["POST"]),
            Route("/{file}", self.file),
        ]

    async def page(self, _: Request) -> Response:
        """Return the page."""
        return _web_file("live.html")

    async def file(self, request: Request) -> Response:
        """Return a module or style sheet of the page."""
        return _web_file(request.path_params["file"])

    async def health(self, _: Request) -> Response:
        """Return whether the server opens sessions and can write what it has to."""
        problems = self._hub.problems()
        return PlainTextResponse(
            "".join(f"{each}\n" for each in problems or ["ok"]), 503 if problems else 200
        )

    async def metrics(self, _: Request) -> Response:
        """Return the figures for Prometheus."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    async def sessions(self, _: Request) -> Response:
        """Return the sessions, the oldest first."""
        self._hub.note_view()
        return JSONResponse({"sessions": [_described(feed) for feed in self._hub.feeds.values()]})

    async def frames(self, request: Request) -> Response:
        """Return the frames of a session as server-sent events."""
        feed = await self._feed(request)
        if self._hub.viewers >= MAX_VIEWERS:
            raise HTTPException(503, f"{MAX_VIEWERS} viewers are connected, the maximum")
        text = request.headers.get("last-event-id", "")
        number = int(text) if re.fullmatch(r"[0-9]{1,15}", text) else 0
        return EventStream(self._hub.events(feed, number))

    async def run(self, request: Request) -> Response:
        """Return one frame with the session so far."""
        feed = await self._feed(request)
        data = await feed.whole(RUN_TIMEOUT_S)
        if not data:
            raise HTTPException(503, "the simulation is busy; try again", {"retry-after": "1"})
        return Response(data, media_type="application/octet-stream")

    async def pace(self, request: Request) -> Response:
        """Change the pace of a session."""
        feed = await self._feed(request)
        try:
            feed.change_pace(pace_change(await _body(request)))
        except PaceError as error:
            raise HTTPException(400, str(error)) from None
        return JSONResponse(feed.live())

    async def _feed(self, request: Request) -> Feed:
        feed = await self._hub.find(request.path_params["label"])
        if feed is None:
            raise HTTPException(404, "no such session; /api/sessions lists them")
        return feed


def make_app(
    hub: Hub,
    host: str,
    port: int,
    token: str = "",
    names: Sequence[str] = (),
    secret: bytes | None = None,
) -> ASGIApp:
    """Return the application of a hub, behind its guard.

    Args:
        hub: the hub.
        host: the host at which the server listens.
        port: its port.
        token: the token that every request needs; empty: none.
        names: names of this machine.
        secret: makes the value of the cookie from the token; None: a random one.
    """
    handlers = {HTTPException: _refusal, ClientDisconnect: _nothing}
    app = Starlette(routes=LiveApp(hub).routes(), exception_handlers=handlers)
    return Guard(app, host, port, token, names, secret)


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _nothing(_: Request, __: Exception) -> Response:
    """Return an empty reply for a client that left within its request."""
    return Response(status_code=400)


def _described(feed: Feed) -> dict[str, object]:
    return {
        "label": feed.label,
        "scenario": printable(feed.scenario),
        "scheduler": printable(feed.scheduler),
        "now_s": feed.stats.now_s,
        "jobs": feed.jobs,
        "jobs_over": feed.stats.jobs_over,
        "ended_because": feed.over,
        **feed.live(),
    }


def _web_file(name: str) -> Response:
    match = _FILE.fullmatch(name)
    path = resources.files("hpcosim_view") / "web" / name
    if match is None or not path.is_file():
        raise HTTPException(404, "no such page")
    return Response(path.read_bytes(), media_type=TYPES[match[1]])


async def _body(request: Request) -> bytes:
    """Return the body of a request with JSON, which is small."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415, "expected Content-Type: application/json")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(413, f"expected a body of at most {MAX_BODY_BYTES} bytes")
    return body
