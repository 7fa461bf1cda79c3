"""The HTTP address of a live view."""

from __future__ import annotations

import errno
import ipaddress
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import NamedTuple

from hpcosim_server.service.observer import LiveProcess, Watch
from hpcosim_server.service.pace import Speed
from hpcosim_view.errors import HttpAddressError, HttpBindError, LiveExtraError

EXAMPLE = "127.0.0.1:8080"
MAX_PORT = 65535
MIN_TOKEN = 16
NAME_TIMEOUT_S = 1.0
_TOKEN = re.compile(r"[A-Za-z0-9_.~-]+")


NEEDED = ("prometheus_client", "starlette", "uvicorn")


class HttpAddress(NamedTuple):
    """Host and port of a live view.

    Attributes:
        host: host name or IP address, without brackets.
        port: port; 0: a free one.
    """

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for all addresses of this machine."""
        return self.host in ("0.0.0.0", "::")  # noqa: S104

    def url(self, names: Sequence[str] = ()) -> str:
        """Return the URL of the page.

        Args:
            names: names of this machine; the first is the host if the address has none of its own.
        """
        host = names[0] if self.is_wildcard and names else self.host
        return f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"


def http_address(text: str) -> HttpAddress:
    """Return the address in a text such as `127.0.0.1:8080` or `[::1]:8080`.

    Raises:
        HttpAddressError: the text is no address.
    """
    bare = text.removeprefix("http://").rstrip("/")
    host, separator, port = bare.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        separator = ""
    if not (separator and host and port.isascii() and port.isdecimal()):
        raise HttpAddressError(f"{text!r}: expected HOST:PORT, such as {EXAMPLE}")
    if int(port[:6]) > MAX_PORT:
        raise HttpAddressError(f"{text!r}: a port is at most {MAX_PORT}")
    return HttpAddress(host, int(port))


def machine_names(timeout_s: float = NAME_TIMEOUT_S) -> tuple[str, ...]:
    """Return the names by which others may reach this machine, the fully qualified one first.

    Args:
        timeout_s: longest wait for the name service, s; after it, only the short name is returned.
    """
    found: list[str] = []
    asking = threading.Thread(target=lambda: found.append(socket.getfqdn()), daemon=True)
    asking.start()
    asking.join(timeout_s)
    names = dict.fromkeys(name.lower() for name in (*found, socket.gethostname()))
    return tuple(name for name in names if name and not name.startswith(("localhost", "ip6-")))


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(24)


def check_token(token: str) -> str:
    """Return a token that may stand in a URL and a header.

    Raises:
        HttpAddressError: it is too short or has other characters.
    """
    if len(token) < MIN_TOKEN or not _TOKEN.fullmatch(token):
        raise HttpAddressError(
            f"live.token: expected at least {MIN_TOKEN} letters, digits, -, _, . or ~; "
            "without the option there is no token on 127.0.0.1, and a random one elsewhere"
        )
    return token


def listen(address: HttpAddress) -> tuple[socket.socket, HttpAddress]:
    """Return a listening socket and its address with the selected port.

    Raises:
        HttpBindError: the address is in use, or not one of this machine.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listening = socket.create_server((address.host, address.port), family=family, backlog=64)
        # asyncio knows no protocol of it, and leaves its connections to Nagle's algorithm: 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while attempting")[0]
        what = f"cannot listen at {address.host}:{address.port}: {why}; {_hint(error)}"
        raise HttpBindError(what) from None
    return listening, address._replace(port=listening.getsockname()[1])


class Page(NamedTuple):
    """Where the page is served. It outlives the process that serves it.

    Attributes:
        token: the token that every request needs; empty: none.
        names: names of this machine.
        secret: makes the value of the cookie from the token.
    """

    socket: socket.socket
    address: HttpAddress
    token: str
    names: Sequence[str]
    secret: bytes

    @property
    def url(self) -> str:
        """URL of the page, with the token."""
        url = self.address.url(self.names)
        return f"{url}?token={self.token}" if self.token else url


def open_page(address: HttpAddress, token: str = "") -> Page:
    """Return a page with a listening socket.

    Args:
        address: where to listen.
        token: the token that every request needs; empty: none.

    Raises:
        HttpBindError: the server cannot listen at the address.
    """
    listening, address = listen(address)
    names = () if address.is_loopback else machine_names()
    return Page(listening, address, token, names, secrets.token_bytes(32))


def _hint(error: OSError) -> str:
    """Return how to mend an address at which the server cannot listen."""
    unknown = error.errno is None or error.errno < 0  # the name service has numbers of its own
    if unknown or error.errno == errno.EADDRNOTAVAIL:
        return "give an address of this machine: 127.0.0.1, or 0.0.0.0 for all of them"
    return "choose another port with --http HOST:PORT"


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
    from hpcosim_view.live.page_process import sources_of
    from hpcosim_view.live.web_server import DRAIN_S, WebServer
    from hpcosim_view.run.recording import RecordingReader

    hub, page = Hub(on_viewed), _page(address, token)
    with WebServer(hub, page) as server:
        sources = sources_of(hub, server.loop, RecordingReader)
        yield LiveView(Watch(sources, speed), page.url, lambda: hub.is_viewed)
        sources.wait_complete(time.monotonic() + DRAIN_S)


class LivePageOfWorkers(NamedTuple):
    """A live page for a server of several processes."""

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
