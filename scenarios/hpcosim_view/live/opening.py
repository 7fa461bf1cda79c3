"""Start of a live view for a server or a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import NamedTuple

from hpcosim_server.service.observer import LiveProcess, Watch
from hpcosim_server.service.pace import Speed
from hpcosim_view.errors import LiveExtraError
from hpcosim_view.live.address import HttpAddress, Page, check_token, new_token, open_page

NEEDED = ("prometheus_client", "starlette", "uvicorn")


class LiveView(NamedTuple):
    """A live view that is served.

    Attributes:
        watch: its observer with the pace of sessions, for the service.
        url: URL of the page, with the token.
        is_viewed: whether a page has opened.
    """

    watch: Watch
    url: str
    is_viewed: Callable[[], bool]


@contextmanager
def live_view(
    address: HttpAddress,
    token: str = "",
    speed: Speed = None,
    on_viewed: Callable[[], None] = lambda: None,
) -> Iterator[LiveView]:
    """Serve a live view for the `with` block. At its end viewers may read on for some seconds.

    Args:
        address: where to listen.
        token: token that each request needs; empty: none on the loopback interface, a random one
            elsewhere.
        speed: speed of each new session.
        on_viewed: called once, when the first page has opened, in another thread.

    Raises:
        HttpAddressError: the token is invalid.
        HttpBindError: the server cannot listen at the address.
        LiveExtraError: a package of the extra `live` is missing.
    """
    check_extra()
    from hpcosim_view.live.hub import Hub
    from hpcosim_view.live.in_thread import sources_of
    from hpcosim_view.live.web_server import DRAIN_S, WebServer
    from hpcosim_view.run.recording import RecordingReader

    hub, page = Hub(on_viewed), _page(address, token)
    with WebServer(hub, page) as server:
        sources = sources_of(hub, server.loop, RecordingReader)
        yield LiveView(Watch(sources, speed), page.url, lambda: hub.is_viewed)
        sources.wait_complete(time.monotonic() + DRAIN_S)


class LivePageOfWorkers(NamedTuple):
    """A live page for a server of several processes.

    Attributes:
        process: runs it, for the supervisor.
        url: URL of the page, with the token.
    """

    process: LiveProcess
    url: str


@contextmanager
def live_page(
    address: HttpAddress, token: str = "", speed: Speed = None
) -> Iterator[LivePageOfWorkers]:
    """Open a live page for the supervisor of a server, which runs it in a process of its own.

    Args:
        address: where to listen.
        token: token that each request needs; see `live_view`.
        speed: speed of each new session.

    Raises:
        HttpAddressError, HttpBindError, LiveExtraError: see `live_view`.
    """
    check_extra()
    from hpcosim_view.live.page_process import page_process

    page = _page(address, token)
    with page.socket, page_process(page, speed) as process:
        yield LivePageOfWorkers(process, page.url)


def _page(address: HttpAddress, token: str) -> Page:
    """Return the page at an address, with its token."""
    if token:
        check_token(token)
    elif not address.is_loopback:
        token = new_token()
    return open_page(address, token)


def check_extra() -> None:
    """Check that the packages of the extra `live` are installed.

    Raises:
        LiveExtraError: one is missing.
    """
    for name in NEEDED:
        try:
            import_module(name)
        except ImportError:
            what = f"the live view needs {name.replace('_', '-')}: pip install 'hpcosim[live]'"
            raise LiveExtraError(what) from None
