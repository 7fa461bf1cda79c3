"""Start of a live view for a server or a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import NamedTuple

from hpcosim_live.address import HttpAddress, check_token, new_token
from hpcosim_live.errors import LiveExtraError
from hpcosim_server.service.observer import Watch
from hpcosim_server.service.pace import Speed

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
    from hpcosim_live.hub import Hub
    from hpcosim_live.web_server import WebServer
    from hpcosim_results.recording import RecordingReader

    if token:
        check_token(token)
    elif not address.is_loopback:
        token = new_token()
    hub = Hub(RecordingReader, on_viewed)
    with WebServer(hub, address, token) as server:
        yield LiveView(Watch(hub, speed), server.url, lambda: hub.is_viewed)


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
