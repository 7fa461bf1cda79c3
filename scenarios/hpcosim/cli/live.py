"""Options of the live view, for a server and for a run."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

if TYPE_CHECKING:
    from hpcosim_scenarios.running import Transport
    from hpcosim_scenarios.running.status import StatusReader, WatchedRun
    from hpcosim_server.service.observer import LiveProcess, Watch
    from hpcosim_server.service.status import Status

PANEL = "Live view"
TOKEN_VARIABLE = "HPCOSIM_HTTP_TOKEN"  # noqa: S105 - the name of a variable
LOOPBACK = "127.0.0.1:0"


def _http(text: str | None) -> str | None:
    from hpcosim_view.errors import HttpAddressError
    from hpcosim_view.live.address import http_address

    if text is not None:
        try:
            http_address(text)
        except HttpAddressError as error:
            raise typer.BadParameter(str(error)) from None
    return text


def _speed(text: str | None) -> str | None:
    if text is not None:
        speed_of(text)
    return text


def speed_of(text: str | None) -> float | Literal["auto"] | None:
    """Return the speed in a text: a number, `auto` or `max`; None is `max`."""
    from hpcosim_server.service.pace import MAX_SPEED, MIN_SPEED

    text = text and text.lower()
    if text in (None, "max"):
        return None
    if text == "auto":
        return "auto"
    try:
        speed = float(text or "")
    except ValueError:
        speed = 0.0
    if not MIN_SPEED <= speed <= MAX_SPEED:
        what = f"expected a number from {MIN_SPEED:g} to {MAX_SPEED:g}, auto or max, got {text!r}"
        raise typer.BadParameter(what)
    return speed


Http = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        callback=_http,
        rich_help_panel=PANEL,
        help="Serve a page that shows the sessions while they run. Use 127.0.0.1 as host; "
        "other addresses need a token. Port 0: a free one. Default: none.",
    ),
]
Speed = Annotated[
    str | None,
    typer.Option(
        metavar="SPEED",
        callback=_speed,
        rich_help_panel=PANEL,
        help="Simulated seconds per second; auto: a run takes about a minute; max: as fast as "
        "possible. The page can change it.",
    ),
]
Realtime = Annotated[
    float | None,
    typer.Option(
        metavar="FACTOR",
        min=1e-6,
        max=1e12,
        help="Simulated seconds per second. The time in which the scheduler decides passes in the "
        "simulation, so the results depend on it and differ from run to run. "
        "Default: as fast as possible, and deciding takes no simulated time.",
    ),
]
WatchRun = Annotated[
    bool,
    typer.Option(
        "--watch",
        rich_help_panel=PANEL,
        help="Show the run in the browser while it runs, and wait for the browser or Enter to "
        "start. --speed is auto by default.",
    ),
]


class ServedLive(NamedTuple):
    """The live view of a server; empty: there is none.

    Attributes:
        watch: the observer of a server of one process.
        process: the live page of a server of several processes.
    """

    watch: Watch | None = None
    process: LiveProcess | None = None


@contextmanager
def serving_live(
    http: str | None,
    token: str | None,
    speed: str | None,
    tell: Callable[[Status], None] | None,
    *,
    has_workers: bool = False,
) -> Iterator[ServedLive]:
    """Serve the live view of a server for the `with` block.

    Args:
        token: the token of the settings; None: that of `TOKEN_VARIABLE`, if there is one.
    """
    if http is None:
        from hpcosim_scenarios.errors import ScenariosError

        if speed is not None:
            raise ScenariosError("--speed needs --http HOST:PORT")
        if token is not None:
            raise ScenariosError("live.token needs --http HOST:PORT")
        yield ServedLive()
        return
    from hpcosim_scenarios.running.status import log_as_json
    from hpcosim_server.service.status import LivePage
    from hpcosim_view.live.address import http_address, live_page, live_view

    log_as_json()
    token = token or os.environ.get(TOKEN_VARIABLE, "")
    address, pace = http_address(http), speed_of(speed)
    if has_workers:
        with live_page(address, token, pace) as opened:
            _tell_page(opened.url, token, tell)
            yield ServedLive(process=opened.process)
        return
    url = ""

    def viewed() -> None:
        if tell is not None:
            tell(LivePage(url, viewed=True))

    with live_view(address, token, pace, viewed) as view:
        url = view.url
        _tell_page(url, token, tell)
        yield ServedLive(watch=view.watch)


def _tell_page(url: str, token: str, tell: Callable[[Status], None] | None) -> None:
    """Tell where the page is; a given token stays out of the log."""
    from hpcosim_server import log
    from hpcosim_server.service.status import LivePage

    if tell is not None:
        tell(LivePage(url))
    log.info("live_page", url=url.partition("?")[0] if token else url)


@contextmanager
def watched_run(
    speed: str | None, transport: Transport, realtime: float | None = None
) -> Iterator[WatchedRun]:
    """Yield how `hpcosim run --watch` watches its run."""
    from hpcosim_scenarios.running.status import WatchedRun
    from hpcosim_view.live.address import HttpAddress, check_extra, live_view, new_token

    check_extra()
    speed, token = speed or ("max" if realtime else "auto"), new_token()
    if transport == "inproc":
        with live_view(HttpAddress("127.0.0.1", 0), token, speed_of(speed)) as view:

            def ready() -> None:
                wait_for_start(view.url, view.is_viewed)

            yield WatchedRun(watch=view.watch, before_run=ready)
        return

    def page_ready(status: StatusReader) -> None:
        while status.page is None and not status.is_over:
            status.read(0.1)
        if status.page is not None:
            wait_for_start(status.page.url, lambda: _is_viewed(status))

    options = ("--http", LOOPBACK) if realtime else ("--http", LOOPBACK, "--speed", speed)
    yield WatchedRun(options, {TOKEN_VARIABLE: token}, page_ready)


def _is_viewed(status: StatusReader) -> bool:
    """Return whether a page has opened or the server has ended."""
    status.read(0.0)
    return status.is_over or status.failure is not None or bool(status.page and status.page.viewed)


def wait_for_start(url: str, is_viewed: Callable[[], bool]) -> None:
    """Print the URL of the page; wait until it is open, or for Enter on a terminal."""
    typer.echo(f"live view: {url}", err=True)
    if not sys.stdin.isatty():
        return
    typer.echo("open it in a browser to start the run, or press Enter", err=True)
    while not is_viewed():
        if select.select([sys.stdin], [], [], 0.1)[0]:
            sys.stdin.readline()
            return
