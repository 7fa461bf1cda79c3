"""The web application: the page, the sessions, their frames and their pace."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import NamedTuple, get_args
from urllib.parse import parse_qs

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request, cookie_parser
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hpcosim_protocol import ServerStatus
from hpcosim_server.service.status import Cause
from hpcosim_server.service.vitals import MB
from hpcosim_sim.record.versions import hpcosim_version
from hpcosim_view.errors import PaceError
from hpcosim_view.live.hub import MAX_VIEWERS, EventStream, Feed, Hub
from hpcosim_view.live.messages import pace_change
from hpcosim_view.run.extracts import printable

# The figures under `/metrics`, in the text format of Prometheus.

TOTALS = {
    "requests": "Requests of schedulers",
    "decisions": "Decisions of schedulers",
    "rejected": "Rejected decisions",
    "jobs_over": "Jobs that have ended or were rejected",
}
"""Fields of `Stats` that are summed over all sessions."""


class HubCollector(Collector):
    """Reads the figures of a hub when they are asked for."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._build = InfoMetricFamily("hpcosim_build", "Version of hpcosim")
        self._build.add_metric([], {"version": hpcosim_version()})

    def collect(self) -> Iterator[Metric]:
        """Yield the figures."""
        hub, feeds = self._hub, list(self._hub.feeds.values())
        yield self._build
        yield CounterMetricFamily("hpcosim_sessions", "Sessions opened", hub.sessions)
        open_now = sum(not feed.over for feed in feeds)
        yield GaugeMetricFamily("hpcosim_sessions_open", "Open sessions", open_now)
        for field, meaning in TOTALS.items():
            total = sum(getattr(stats, field) for stats in (hub.retired, *(f.stats for f in feeds)))
            yield CounterMetricFamily(f"hpcosim_{field}", meaning, total)
        yield GaugeMetricFamily("hpcosim_viewers", "Viewers of sessions", hub.viewers)
        skipped = hub.retired.skipped + sum(feed.stats.skipped for feed in feeds)
        what = "Frames put off because the queue was full; the next frame has their content"
        yield CounterMetricFamily("hpcosim_frames_skipped", what, skipped)
        size = sum(feed.history.size_bytes for feed in feeds)
        yield GaugeMetricFamily("hpcosim_history_bytes", "Memory of frames for viewers", size)
        if hub.status is not None:
            yield from _of_server(hub.status, healthy=not hub.problems())
        yield from self._of_sessions()

    def _of_sessions(self) -> Iterator[Metric]:
        """Yield the figures of the open sessions; those of closed ones are only in the totals."""
        about = InfoMetricFamily("hpcosim_session", "Names of an open session", labels=["session"])
        now = GaugeMetricFamily(
            "hpcosim_session_simulated_seconds", "Simulated time", labels=["session"]
        )
        counters = {
            field: CounterMetricFamily(f"hpcosim_session_{field}", meaning, labels=["session"])
            for field, meaning in TOTALS.items()
        }
        for feed in list(self._hub.feeds.values()):
            if feed.over:
                continue
            names = {"scenario": feed.scenario, "scheduler": feed.scheduler}
            about.add_metric([feed.label], {key: printable(text) for key, text in names.items()})
            now.add_metric([feed.label], feed.stats.now_s)
            for field, counter in counters.items():
                counter.add_metric([feed.label], getattr(feed.stats, field))
        yield from (about, now, *counters.values())


def _of_server(status: ServerStatus, *, healthy: bool) -> Iterator[Metric]:
    """Yield the figures of the status of the server."""
    yield GaugeMetricFamily("hpcosim_healthy", "1: as /healthz says; 0: it is not", healthy)
    what = "Processes for sessions"
    yield GaugeMetricFamily("hpcosim_workers", what, status.workers)
    what = "Memory of these processes"
    yield GaugeMetricFamily("hpcosim_memory_bytes", what, MB * status.memory_mb)
    for name, what, value in (
        ("sessions_refused", "Sessions that were not opened", status.sessions_refused),
        ("journals_failed", "Journals that could not be written", status.journals_failed),
        ("process_restarts", "Processes started again after a failure", status.restarts),
        ("messages_lost", "Messages to peers that did not read", status.messages_lost),
    ):
        yield CounterMetricFamily(f"hpcosim_{name}", what, value)
    failures = CounterMetricFamily("hpcosim_failures", "Failures by cause", labels=["cause"])
    for cause in get_args(Cause):
        failures.add_metric([cause], status.failures.get(cause, 0))
    yield failures


def registry_of(hub: Hub) -> CollectorRegistry:
    """Return a registry with the figures of a hub."""
    registry = CollectorRegistry()
    registry.register(HubCollector(hub))
    return registry


# The guard in front of all pages: who may connect, and what a page may do.

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]/@]+)(?::\d{1,5})?")
USER = "hpcosim.user"
"""Key of the scope of a request under which the user of its token is."""
REFUSAL = "a token is needed: open the URL that the server printed, or send it as Bearer token\n"


class _Token(NamedTuple):
    text: bytes
    cookie: str
    user: str


class Guard:
    """Checks host, token and origin of each request, and adds the security headers.

    Args:
        host: the host at which the server listens.
        users: name of the user of each token, by token; the application finds it in the scope
            under `USER`. Every request needs one of the tokens; empty: none.
        names: names of this machine.
        secret: makes the value of the cookie from the token; None: a random one.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        users: Mapping[str, str],
        names: Sequence[str] = (),
        secret: bytes | None = None,
    ) -> None:
        self._app = app
        self._cookie = f"hpcosim_{port}"
        # Browsers send the cookies of one port of a host to all its ports, so other servers can see
        # this one. It opens no other server with the same token, and not this one after a restart.
        secret = secret or secrets.token_bytes(32)
        self._tokens = [
            _Token(token.encode(), hmac.digest(secret, token.encode(), "sha256").hex(), user)
            for token, user in users.items()
        ]
        own = (socket.gethostname(), *names, host)
        self._hosts = ("localhost", *dict.fromkeys(name.lower() for name in own if name))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if scope["type"] != "http":
            return
        refused = self._refused(scope, Headers(scope=scope))
        await (refused or self._app)(scope, receive, send_with_headers)

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the reply to a request that is not let in."""
        if not self._knows(headers.get("host", "")):
            names = ", ".join(name for name in self._hosts if not _is_ip(name))
            what = f"the header Host names another server; expected an IP address or {names}"
            return PlainTextResponse(what + "\n", 421)
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host"):
            return PlainTextResponse("requests of other web sites are rejected\n", 403)
        if not self._tokens:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if given and scope["path"] == "/" and (token := self._token(given)):
            reply = RedirectResponse("/", 303)
            reply.set_cookie(self._cookie, token.cookie, httponly=True, samesite="strict")
            return reply
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie, "")
        found = self._token(bearer if scheme.lower() == "bearer" else "", cookie)
        if found is None:
            return PlainTextResponse(REFUSAL, 401, {"www-authenticate": "Bearer"})
        scope[USER] = found.user
        return None

    def _token(self, given: str, cookie: str = "") -> _Token | None:
        """Return the token that is given, or that a cookie stands for; None: neither is known."""
        text, value = given.encode("utf-8", "replace"), cookie.encode("utf-8", "replace")
        found = None
        for each in self._tokens:  # all of them, so that the time says nothing
            is_cookie = hmac.compare_digest(value, each.cookie.encode())
            if is_cookie or hmac.compare_digest(text, each.text):
                found = each
        return found

    def _knows(self, host: str) -> bool:
        """Return whether a host is one that no other web site can take (DNS rebinding)."""
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match[1].strip("[]").lower()
        return name in self._hosts or _is_ip(name)


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


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
            feed.change_pace(pace_change(await json_body(request)))
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
        host: the host at which the server listens.
        token: the token that every request needs; empty: none.
        names: names of this machine.
        secret: makes the value of the cookie from the token; None: a random one.
    """
    handlers = {HTTPException: _refusal, ClientDisconnect: _nothing}
    app = Starlette(routes=LiveApp(hub).routes(), exception_handlers=handlers)
    return Guard(app, host, port, {token: ""} if token else {}, names, secret)


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


async def json_body(request: Request, most_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the body of a request with JSON, which is small."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415, "expected Content-Type: application/json")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise HTTPException(413, f"expected a body of at most {most_bytes} bytes")
    return body
