"""The guard in front of all pages: who may connect, and what a page may do."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Sequence
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
REFUSAL = "a token is needed: open the URL that the server printed, or send it as Bearer token\n"


class Guard:
    """Checks host, token and origin of each request, and adds the security headers.

    Args:
        app: the application.
        host: the host at which the server listens.
        port: its port.
        token: the token that every request needs; empty: none.
        names: names of this machine.
        secret: makes the value of the cookie from the token; None: a random one.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        token: str,
        names: Sequence[str] = (),
        secret: bytes | None = None,
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._cookie = f"hpcosim_{port}"
        # Browsers send the cookies of one port of a host to all its ports, so other servers can see
        # this one. It opens no other server with the same token, and not this one after a restart.
        self._value = hmac.digest(secret or secrets.token_bytes(32), self._token, "sha256").hex()
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
        if not self._token:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if given and scope["path"] == "/" and self._is_token(given):
            reply = RedirectResponse("/", 303)
            reply.set_cookie(self._cookie, self._value, httponly=True, samesite="strict")
            return reply
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie, "")
        is_cookie = hmac.compare_digest(cookie.encode("utf-8", "replace"), self._value.encode())
        if is_cookie or (scheme.lower() == "bearer" and self._is_token(bearer)):
            return None
        return PlainTextResponse(REFUSAL, 401, {"www-authenticate": "Bearer"})

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

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
