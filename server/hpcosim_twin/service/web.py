"""The web service of a twin: questions, the queue, the record, metrics, and a page for people."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import resources
from typing import Any, NamedTuple

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hpcosim_protocol.errors import HpcosimError
from hpcosim_server import log
from hpcosim_sim.record.versions import hpcosim_version
from hpcosim_twin.answers.questions import KINDS, AnyQuestion, QueueQuestion, RecordQuestion
from hpcosim_twin.answers.record import Record
from hpcosim_twin.answers.typical import TypicalWaits
from hpcosim_twin.cluster.follow import Follower
from hpcosim_twin.cluster.observation import ForecastError
from hpcosim_twin.service.access import Viewer, Visible
from hpcosim_twin.service.desk import BusyError, Desk, NoPictureError, WorkerError
from hpcosim_view.live.address import Page
from hpcosim_view.live.app import TYPES, USER, Guard, json_body
from hpcosim_view.live.web_server import bounded_server, library_messages_logged

MAX_QUESTION_BYTES = 1 << 16
MAX_CONNECTIONS = 2048
TICK_S = 1.0
"""Time between two looks at the follower's picture, s."""
STALE_S = 300.0
"""Age of a picture from which on the service is not healthy, s."""
_FILE = re.compile(r"[a-z][a-z0-9_]*\.(html|js|css)")
FILES = ("twin.html", "twin.js", "twin.css")
SHARED_FILES = ("report.css",)
"""Files of the page that are those of the live view."""

_decoder: msgspec.json.Decoder[AnyQuestion] = msgspec.json.Decoder(AnyQuestion)


class Twin(NamedTuple):
    """The parts of a running twin.

    Attributes:
        visible: what the users of tokens see who are no operators.
    """

    follower: Follower
    desk: Desk
    record: Record
    typical: TypicalWaits
    visible: Visible = "own"

    async def ask(self, question: AnyQuestion, scope: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer to the user of a request; see `Desk.ask`."""
        return await self.desk.ask(question, Viewer(scope[USER], self.visible))


def decoded(data: bytes | str) -> AnyQuestion:
    """Return a question of JSON.

    Raises:
        ForecastError: it is none.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ForecastError(f"expected a question as in /openapi.json: {error}") from None


class TwinApp:
    """The routes of a twin."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin
        self._registry = CollectorRegistry()
        self._registry.register(TwinCollector(twin))

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/", self.page),
            Route("/ask", self.ask, methods=["POST"]),
            Route("/queue", self.queue),
            Route("/record", self.record),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
            Route("/openapi.json", self.openapi),
            Route("/{file}", self.file),
        ]

    async def ask(self, request: Request) -> Response:
        """Answer the question in the body."""
        body = await json_body(request, MAX_QUESTION_BYTES)
        try:
            question = decoded(body)
        except ForecastError as error:
            raise HTTPException(400, str(error)) from None
        return await self._answer(request, question)

    async def queue(self, request: Request) -> Response:
        """Answer when the waiting jobs start."""
        return await self._answer(request, QueueQuestion())

    async def record(self, request: Request) -> Response:
        """Answer how good the answers were."""
        return await self._answer(request, RecordQuestion())

    async def health(self, _: Request) -> Response:
        """Return whether the picture is fresh."""
        problems = list(self._problems())
        return PlainTextResponse(
            "".join(f"{each}\n" for each in problems or ["ok"]), 503 if problems else 200
        )

    async def metrics(self, _: Request) -> Response:
        """Return the figures for Prometheus."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    async def openapi(self, _: Request) -> Response:
        """Return the description of the service."""
        return JSONResponse(openapi())

    async def page(self, _: Request) -> Response:
        """Return the page for people."""
        return _file("twin.html")

    async def file(self, request: Request) -> Response:
        """Return a file of the page."""
        return _file(request.path_params["file"])

    async def _answer(self, request: Request, question: AnyQuestion) -> Response:
        answer = await self._twin.ask(question, request.scope)
        return Response(msgspec.json.encode(answer), media_type="application/json")

    def _problems(self) -> Iterator[str]:
        follower = self._twin.follower
        if follower.snapshot is None:
            yield f"no picture of the cluster yet: {follower.failure or 'it is being read'}"
        elif follower.age_s > STALE_S:
            yield f"the picture is {follower.age_s:.0f} s old: {follower.failure}"


def application(
    twin: Twin, page: Page, users: Mapping[str, str], more: Sequence[Route] = ()
) -> ASGIApp:
    """Return the application of a twin, behind its guard.

    Args:
        page: where it is served.
        users: name of the user of each token.
        more: further routes.
    """
    routes = [*more, *TwinApp(twin).routes()]
    app = Starlette(routes=routes, exception_handlers=_HANDLERS)
    return Guard(app, page.address.host, page.address.port, users, page.names, page.secret)


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _left(_: Request, __: Exception) -> Response:
    """Return an empty reply for a client that left within its request."""
    return Response(status_code=400)


async def _failure(_: Request, error: Exception) -> Response:
    headers = {}
    status = 422
    if isinstance(error, BusyError):
        status, headers = 429, {"retry-after": str(error.retry_after_s)}
    elif isinstance(error, NoPictureError | WorkerError):
        status, headers = 503, {"retry-after": "10"}
    return JSONResponse({"error": str(error)}, status, headers)


_HANDLERS: Any = {HTTPException: _refusal, ClientDisconnect: _left, HpcosimError: _failure}


def _file(name: str) -> Response:
    match = _FILE.fullmatch(name)
    if match is None or name not in (*FILES, *SHARED_FILES):
        raise HTTPException(404, "no such page; see /openapi.json")
    package = "hpcosim_view" if name in SHARED_FILES else "hpcosim_twin"
    path = resources.files(package) / "web" / name
    return Response(path.read_bytes(), media_type=TYPES[match[1]])


def openapi() -> dict[str, Any]:
    """Return the OpenAPI description, made from the types of the questions."""
    _, schemas = msgspec.json.schema_components(
        tuple(KINDS.values()), ref_template="#/components/schemas/{name}"
    )
    refs = {name: f"#/components/schemas/{kind.__name__}" for name, kind in KINDS.items()}
    question = {
        "oneOf": [{"$ref": ref} for ref in refs.values()],
        "discriminator": {"propertyName": "ask", "mapping": refs},
    }
    answer = {"description": "the answer", "content": {"application/json": {"schema": {}}}}
    error = {
        "description": "why there is no answer",
        "content": {
            "application/json": {
                "schema": {"type": "object", "properties": {"error": {"type": "string"}}}
            }
        },
    }
    replies = {"200": answer, **dict.fromkeys(("400", "422", "429", "503"), error)}
    plain = {"200": {"description": "text", "content": {"text/plain": {}}}}

    def get(summary: str, responses: Mapping[str, Any]) -> dict[str, Any]:
        return {"get": {"summary": summary, "responses": responses}}

    return {
        "openapi": "3.1.0",
        "info": {"title": "hpcosim twin", "version": hpcosim_version()},
        "security": [{"token": []}],
        "paths": {
            "/ask": {
                "post": {
                    "summary": "Answer a question. Times are Unix times in seconds; null: never.",
                    "requestBody": {
                        "required": True,
                        "content": {"application/json": {"schema": question}},
                    },
                    "responses": replies,
                }
            },
            "/queue": get("When do the waiting jobs start?", replies),
            "/record": get("How good have the answers been until now?", replies),
            "/health": get("Is the picture of the cluster fresh?", plain),
            "/metrics": get("Figures for Prometheus", plain),
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


class TwinCollector(Collector):
    """Reads the figures of a twin when they are asked for; nothing is simulated for them."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin

    def collect(self) -> Iterator[Metric]:
        """Yield the figures."""
        follower, desk = self._twin.follower, self._twin.desk
        build = InfoMetricFamily("hpcosim_build", "Version of hpcosim")
        build.add_metric([], {"version": hpcosim_version()})
        yield build
        counts = follower.counts
        if follower.snapshot is not None:
            what = "Age of the picture of the cluster"
            yield GaugeMetricFamily("hpcosim_twin_picture_age_seconds", what, follower.age_s)
            yield from self._of_queue()
        for name, what, value in (
            ("polls", "Readings of changes", counts.polls),
            ("checks", "Full readings", counts.checks),
            ("read_failures", "Readings that could not be done", counts.failures),
            ("clock_jumps", "Readings older than the one before", counts.clock_jumps),
            ("turned_away", "Questions that were too many", desk.turned_away),
        ):
            yield CounterMetricFamily(f"hpcosim_twin_{name}", what, value)
        found = CounterMetricFamily(
            "hpcosim_twin_differences",
            "Differences from the controller that were found and repaired",
            labels=["kind"],
        )
        for kind, number in list(counts.differences.items()):
            found.add_metric([kind], number)
        yield found
        asked = CounterMetricFamily("hpcosim_twin_questions", "Questions", labels=["ask"])
        for tag, number in list(desk.asked.items()):
            asked.add_metric([tag], number)
        yield asked
        what = "Questions that wait for an answer"
        yield GaugeMetricFamily("hpcosim_twin_questions_waiting", what, desk.waiting)
        yield from self._of_record()
        yield from self._twin.typical.metrics()

    def _of_queue(self) -> Iterator[Metric]:
        assert self._twin.follower.snapshot is not None
        state = self._twin.follower.snapshot.observation.state
        jobs = GaugeMetricFamily(
            "hpcosim_twin_jobs", "Jobs of a partition by state", labels=["partition", "state"]
        )
        counts: dict[tuple[str, str], int] = {
            (name, each): 0 for name in state.partitions for each in ("pending", "running")
        }
        for job in state.jobs.values():
            if job.state in ("pending", "running"):
                for name in job.partition.split(","):
                    counts[name, job.state] = counts.get((name, job.state), 0) + 1
        for labels, number in counts.items():
            jobs.add_metric(labels, number)
        yield jobs
        lost = sum(not node.is_available for node in state.nodes.values())
        yield GaugeMetricFamily("hpcosim_twin_nodes", "Nodes", len(state.nodes))
        yield GaugeMetricFamily("hpcosim_twin_nodes_unavailable", "Nodes down or drained", lost)

    def _of_record(self) -> Iterator[Metric]:
        now_s = 0.0
        if self._twin.follower.snapshot is not None:
            now_s = self._twin.follower.snapshot.observation.state.at_s
        found = self._twin.record.summary(now_s)
        what = "Answers whose jobs have started"
        yield GaugeMetricFamily("hpcosim_twin_record_answers", what, found["started"])
        if found["median_error_s"] is not None:
            yield GaugeMetricFamily(
                "hpcosim_twin_record_median_error_seconds",
                "Median absolute error of the answers",
                found["median_error_s"],
            )
        coverage = GaugeMetricFamily(
            "hpcosim_twin_record_coverage",
            "Share of the starts within the range of a probability",
            labels=["probability"],
        )
        for probability, share in found["coverage"].items():
            if share is not None:
                coverage.add_metric([probability], share)
        yield coverage


async def serve(
    twin: Twin,
    page: Page,
    app: ASGIApp,
    running: AbstractAsyncContextManager[None],
    is_over: Callable[[], bool],
    forecast_s: float,
    clock: Callable[[], float],
) -> None:
    """Serve a twin until it is over.

    Args:
        running: a context that is open while it serves.
        forecast_s: time between two forecasts of all waiting jobs for the record, s.
        clock: returns the time of the followed cluster, s.
    """
    server = bounded_server(app, connections=MAX_CONNECTIONS)
    with library_messages_logged():
        async with running, _running(_looking(twin, forecast_s, clock)):
            serving = asyncio.create_task(server.serve([page.socket]))
            while not is_over() and not serving.done():
                await asyncio.sleep(0.1)
            server.should_exit = True
            await serving


@asynccontextmanager
async def _running(coroutine: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(coroutine)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _looking(twin: Twin, forecast_s: float, clock: Callable[[], float]) -> None:
    """Compare answers with starts, and forecast for the record, as time passes."""
    due_s, version = clock(), 0
    while True:
        found = twin.follower.snapshot
        if found is not None and found.version != version:
            version = found.version
            twin.record.observe(found.observation.state)
        if found is not None and clock() >= due_s:
            due_s = clock() + forecast_s
            try:
                await twin.desk.own(QueueQuestion())
                await twin.typical.update(twin.desk, found.observation)
            except HpcosimError as error:
                log.warning("twin_forecast_failed", error=str(error))
        await asyncio.sleep(TICK_S)
