"""The HTTP address of a live view."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket
from typing import NamedTuple

from hpcosim_live.errors import HttpAddressError, HttpBindError

EXAMPLE = "127.0.0.1:8080"
MAX_PORT = 65535
MIN_TOKEN = 16
_TOKEN = re.compile(r"[A-Za-z0-9_.~-]+")


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
    def url(self) -> str:
        """The URL of the page, with a host that a browser on this machine can open."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
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
            f"--http-token: expected at least {MIN_TOKEN} letters, digits, -, _, . or ~; "
            "without the option a random token is generated"
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
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        what = f"cannot listen at {address.host}:{address.port}: {why}"
        raise HttpBindError(f"{what}; choose another port with --http HOST:PORT") from None
    return listening, address._replace(port=listening.getsockname()[1])
