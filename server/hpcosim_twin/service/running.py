"""Runs a twin: follows a cluster, and serves its answers, until it is told to end."""

from __future__ import annotations

import asyncio
import resource
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, closing, nullcontext
from functools import partial
from pathlib import Path

import msgspec
from starlette.routing import Route

from hpcosim_server import log
from hpcosim_twin.answers.record import Record
from hpcosim_twin.answers.typical import TypicalWaits
from hpcosim_twin.cluster.follow import Follower, FollowSettings
from hpcosim_twin.cluster.sources import Source
from hpcosim_twin.fits.cluster import ClusterCalibration, prepared, read_calibration
from hpcosim_twin.service.access import TOKENS, Visible, read_tokens
from hpcosim_twin.service.desk import Desk, DeskSettings
from hpcosim_twin.service.web import Twin, application, serve
from hpcosim_view.live.address import HttpAddress, check_extra, open_page

STATE, RECORD = "state.json", "record.jsonl"
"""Files of a twin in its folder, beside `TOKENS`."""


class TwinSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a twin runs.

    Attributes:
        folder: its files; created if it is missing.
        calibration: file of `hpcosim calibrate`; None: there is none.
        forecast_s: time between two forecasts of all waiting jobs for the record, s.
    """

    address: HttpAddress
    folder: Path
    visible: Visible = "own"
    calibration: Path | None = None
    forecast_s: float = 600.0
    follow: FollowSettings = FollowSettings()
    desk: DeskSettings = DeskSettings()


def run_twin(
    source: Source,
    settings: TwinSettings,
    is_over: Callable[[], bool],
    tell: Callable[[str, Path], object],
) -> None:
    """Run a twin until it is over.

    Args:
        is_over: returns whether it is over; called again and again.
        tell: called with the URL and the file of tokens when it is served.

    Raises:
        OSError: a file cannot be read or written.
        HpcosimError: the address cannot be used, or a file has another form than expected.
    """
    check_extra()
    _allow_connections()
    folder = settings.folder
    users = read_tokens(folder / TOKENS)
    found = None if settings.calibration is None else read_calibration(settings.calibration)
    page = open_page(settings.address)
    with page.socket, closing(_record(folder, found)) as record, ThreadPoolExecutor(1) as thread:
        follower = Follower(source, settings.follow, folder / STATE)
        look = None if found is None else partial(prepared, found=found)
        desk = Desk(follower, record, settings.desk, look)
        twin = Twin(follower, desk, record, TypicalWaits(), settings.visible)
        over = threading.Event()
        following = thread.submit(follower.run, over)

        def ends() -> bool:
            return following.done() or is_over()

        try:
            routes, running = _mcp(twin)
            app = application(twin, page, users, routes)
            tell(page.address.url(page.names), folder / TOKENS)
            with desk:
                coroutine = serve(
                    twin, page, app, running, ends, settings.forecast_s, source.clock_s
                )
                asyncio.run(coroutine)
        finally:
            over.set()
        following.result()


def _record(folder: Path, found: ClusterCalibration | None) -> Record:
    return Record(folder / RECORD, prior=() if found is None else found.scores)


def _mcp(twin: Twin) -> tuple[list[Route], AbstractAsyncContextManager[None]]:
    """Return the route of MCP, and the context that it needs, if the extra `mcp` is installed."""
    try:
        from hpcosim_twin.service.mcp import mcp_service
    except ImportError:
        log.info("twin_without_mcp", hint="pip install 'hpcosim[mcp]' serves /mcp")
        return [], nullcontext()
    found = mcp_service(twin.ask)
    return [found.route], found.running


def _allow_connections() -> None:
    """Allow as many open files as the system permits: each connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
