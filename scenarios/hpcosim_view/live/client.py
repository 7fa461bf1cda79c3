"""Client of a live view: its sessions, their frames, and their pace."""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from http.client import HTTPException, HTTPResponse
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

import msgspec
import numpy as np

from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.record.periods import FIRST_FINAL
from hpcosim_sim.record.recording import POWER_STATES, STATES
from hpcosim_view.errors import FrameError, LiveRequestError, NoLiveViewError
from hpcosim_view.run.frame import MAX_BYTES, NAMES, Frame, decode_frame
from hpcosim_workloads.table import PLACEMENTS

EXAMPLE = "http://127.0.0.1:8080"
TOKEN_VARIABLE = "HPCOSIM_HTTP_TOKEN"  # noqa: S105 - the name of a variable
TIMEOUT_S = 30.0
"""Longest wait for the next bytes of a reply, s; a live view sends some every few seconds."""
FIRST_TIMEOUT_S = 5.0
"""Longest wait for the list of sessions, which a live view has at hand, s."""
MAX_LISTED = 20  # sessions
MAX_JSON_BYTES = 16 * 2**20
MAX_MESSAGE = 300  # characters
_TOKEN = r"[A-Za-z0-9_.~-]*"  # noqa: S105 - the form of tokens, see `address.check_token`
_QUERY = re.compile(rf"(?:token=({_TOKEN}))?")


MAX_NODES = 10_000_000


class LiveSession(msgspec.Struct, frozen=True):
    """A session of a live view.

    Attributes:
        label: public label.
        scenario: name of the scenario.
        scheduler: name of the policy.
        now_s: simulated time, s.
        ended_because: reason for its end; empty: it goes on.
    """

    label: str
    scenario: str = ""
    scheduler: str = ""
    now_s: float = 0.0
    ended_because: str = ""


class _Sessions(msgspec.Struct):
    sessions: list[LiveSession]


class Event(NamedTuple):
    """A server-sent event.

    Attributes:
        kind: `message` (a frame), `restart`, `end` or `closing`.
    """

    kind: str
    data: bytes


class LiveView:
    """A live view at a URL.

    Args:
        url: URL of the page, such as `http://127.0.0.1:8080`, with or without `?token=TOKEN`.
        token: the token of the server, if it is not in the URL; empty: none.
        timeout_s: longest wait for the next bytes of a reply, s.

    Raises:
        LiveRequestError: the URL or the token is malformed.
    """

    def __init__(self, url: str, token: str = "", timeout_s: float = TIMEOUT_S) -> None:
        self.url, token_in_url = _checked(url)  # messages show the URL, never the token
        self._token = token_in_url or token
        if not re.fullmatch(_TOKEN, self._token):
            raise LiveRequestError("--token: a token has only letters, digits, -, _, . and ~")
        self._timeout_s = timeout_s
        # Without proxies: a live view is on this machine or near it. Without redirects: these
        # would send the token elsewhere.
        self._opener: OpenerDirector = build_opener(ProxyHandler({}), _NoRedirect())

    def sessions(self) -> list[LiveSession]:
        """Return the sessions, the oldest first."""
        with closing(self._open("/api/sessions", first=True)) as reply:
            data = self._read(reply, MAX_JSON_BYTES)
        try:
            return msgspec.json.decode(data, type=_Sessions).sessions
        except msgspec.DecodeError:
            raise self._no_live_view("it has no sessions") from None

    def session(self, label: str = "") -> LiveSession:
        """Return a session.

        Args:
            label: its label; empty: the only one, or the only one that goes on.

        Raises:
            LiveRequestError: there is no such session, or there are several.
        """
        sessions = self.sessions()
        if label:
            found = [each for each in sessions if each.label == label]
            if not found:
                what = f"no session {_short(label)!r}; expected one of: {_listed(sessions)}"
                raise LiveRequestError(f"{self.url}: {what}")
            return found[0]
        if not sessions:
            what = "no scheduler has connected yet; start one, or open the page of `run --watch`"
            raise LiveRequestError(f"{self.url}: {what}")
        going = [each for each in sessions if not each.ended_because] or sessions
        if len(going) > 1:
            what = f"there are {len(going)} sessions; name one with --session: {_listed(going)}"
            raise LiveRequestError(f"{self.url}: {what}")
        return going[0]

    def run(self, label: str) -> Frame:
        """Return a session so far."""
        with closing(self._open(_path(label, "run"))) as reply:
            frame = self._frame(self._read(reply, MAX_BYTES))
        try:
            check_run(frame)
        except FrameError as error:
            raise self._no_live_view(str(error)) from None
        return frame

    def change_pace(self, label: str, change: Mapping[str, Any]) -> None:
        """Change the pace of a session."""
        body = json.dumps(change).encode()
        self._open(_path(label, "pace"), body).close()

    def events(self, label: str) -> Iterator[Event]:
        """Yield the events of a session, from its begin, until its end or that of the server.

        Raises:
            NoLiveViewError: the server has gone away.
        """
        with closing(self._open(_path(label, "frames"))) as reply:
            kind, data, size = "message", [], 0
            while line := self._line(reply):
                field, _, value = line.rstrip(b"\r\n").partition(b":")
                value = value.removeprefix(b" ")
                if field == b"event":
                    kind = value.decode("utf-8", "replace")
                elif field == b"data":
                    size += len(value)
                    if size > MAX_BYTES:
                        raise self._no_live_view("an event is too large")
                    data.append(value)
                elif not field and not value:
                    if data:
                        yield Event(kind, b"\n".join(data))
                    kind, data, size = "message", [], 0

    def frame_of(self, event: Event) -> Frame:
        """Return the frame in an event."""
        try:
            return self._frame(b64decode(event.data, validate=True))
        except ValueError:
            raise self._no_live_view("an event has no frame") from None

    def _frame(self, data: bytes) -> Frame:
        try:
            return decode_frame(data)
        except FrameError as error:
            raise self._no_live_view(str(error)) from None

    def _open(self, path: str, body: bytes | None = None, *, first: bool = False) -> HTTPResponse:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            request = Request(self.url + path, body, headers)  # noqa: S310 - http or https
            timeout_s = min(self._timeout_s, FIRST_TIMEOUT_S) if first else self._timeout_s
            reply: HTTPResponse = self._opener.open(request, timeout=timeout_s)
        except HTTPError as error:
            with closing(error):
                raise self._refused(error) from None
        except (OSError, HTTPException, ValueError) as error:
            is_other = first and not isinstance(error, URLError)  # something listens there
            hint = "; expected the address of --http, not that for schedulers" if is_other else ""
            raise self._no_live_view(_reason(error) + hint) from None
        return reply

    def _read(self, reply: HTTPResponse, limit: int) -> bytes:
        try:
            data = reply.read(limit + 1)
        except (OSError, HTTPException) as error:
            raise self._no_live_view(_reason(error)) from None
        if len(data) > limit:
            raise self._no_live_view("the reply is too large")
        return data

    def _line(self, reply: HTTPResponse) -> bytes:
        try:
            return reply.readline(MAX_BYTES)
        except (OSError, HTTPException, ValueError) as error:
            raise self._no_live_view(_reason(error)) from None

    def _refused(self, error: HTTPError) -> LiveRequestError | NoLiveViewError:
        if error.code == 401:
            why = "the token is wrong" if self._token else "it needs a token"
            what = f"{why}; give the one that the server printed by --token or {TOKEN_VARIABLE}"
            return LiveRequestError(f"{self.url}: {what}")
        if error.code == 503:  # busy, for a while
            return NoLiveViewError(f"{self.url}: {_short(_message(error))}")
        if error.code not in (400, 403, 415, 421) and _path("", "") not in error.url:
            return self._no_live_view(f"status {error.code}")
        return LiveRequestError(f"{self.url}: {_short(_message(error))} (status {error.code})")

    def _no_live_view(self, why: str) -> NoLiveViewError:
        start = "`hpcosim run --watch` and `hpcosim serve --http` start a live view"
        return NoLiveViewError(f"{self.url}: no live view answers: {_short(why)}; {start}")


class _NoRedirect(HTTPRedirectHandler):
    """Does not follow redirects."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        """Return no new request, so that the redirect is an error."""


def _checked(url: str) -> tuple[str, str]:
    """Return a URL without query and the slash at its end, and the token of its query or none."""
    bare = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(bare)
        ok = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        query = _QUERY.fullmatch(parts.query)
    except ValueError:
        ok = False
    bare, mark, _ = bare.partition("?")
    if not ok or not query or parts.path not in ("", "/") or parts.fragment:
        shown = _short(url.partition("?")[0] + mark + ("..." if mark else ""))
        raise LiveRequestError(
            f"--server: {shown!r} is no URL; expected {EXAMPLE} or {EXAMPLE}/?token=TOKEN"
        )
    return bare.rstrip("/"), query[1] or ""


def _path(label: str, what: str) -> str:
    return f"/api/sessions/{quote(label, safe='')}/{what}" if label else "/api/sessions/"


def _message(error: HTTPError) -> str:
    """Return what a server says about a request that it refuses."""
    try:
        text = error.read(MAX_JSON_BYTES).decode("utf-8", "replace")
    except (OSError, HTTPException):
        return str(error.reason)
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return str(found.get("error", text)) if isinstance(found, dict) else text


def _reason(error: Exception) -> str:
    if isinstance(error, URLError):
        return _reason(error.reason) if isinstance(error.reason, Exception) else str(error.reason)
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    return str(getattr(error, "strerror", None) or error or type(error).__name__).lower()


def _listed(sessions: Sequence[LiveSession]) -> str:
    """Return the labels of sessions with their schedulers and whether they run."""
    texts = []
    for each in sessions[:MAX_LISTED]:
        state = "over" if each.ended_because else "runs"
        texts.append(f"{_short(each.label)} ({_short(each.scheduler)}, {state})")
    return ", ".join(texts + ["..."] * (len(sessions) > MAX_LISTED)) or "(none)"


def _short(text: str) -> str:
    """Return a text from a server as one printable line that is not too long."""
    shown = "".join(each if each.isprintable() else "?" for each in text.strip())
    return shown if len(shown) <= MAX_MESSAGE else f"{shown[:MAX_MESSAGE]}..."


class _About(msgspec.Struct):
    """The facts that views need."""

    scenario: str
    scheduler: str
    seed: int
    start_s: float
    now_s: float
    nodes: list[tuple[int, int, str]]
    users: list[str]
    groups: list[str]
    partitions: list[str]
    reasons: list[str]


def check_run(frame: Frame) -> None:
    """Check that a frame is a whole run so far: facts, and indices that exist.

    Raises:
        FrameError: it is not.
    """
    try:
        about = msgspec.convert(frame.about, _About)
    except msgspec.ValidationError as error:
        raise FrameError(f"the run is damaged: {error}") from None
    if not (math.isfinite(about.now_s) and 0 <= about.start_s <= about.now_s):
        raise FrameError("the run is damaged: expected times from 0, the start before the end")
    nodes = sum(count for count, _, _ in about.nodes)
    if nodes > MAX_NODES or any(count < 0 or cores < 0 for count, cores, _ in about.nodes):
        raise FrameError(f"the run is damaged: expected at most {MAX_NODES} nodes")
    columns = frame.columns
    for name, (least, below) in _ranges(frame, about, nodes).items():
        column = columns[name]
        if len(column) and not (least <= column.min() and column.max() < below):
            raise FrameError(f"the run is damaged: {name}: expected from {least} to {below - 1}")
    if columns["start.boxes"].sum(dtype=np.int64) != len(columns["box.first"]):
        raise FrameError("the run is damaged: start.boxes: expected the number of boxes")
    if (columns["box.first"] > columns["box.last"]).any():
        raise FrameError("the run is damaged: box.first: expected at most box.last")


def _ranges(frame: Frame, about: _About, nodes: int) -> Mapping[str, tuple[int, int]]:
    """Return the least value, and the one above the greatest, of columns with indices."""
    jobs = len(frame.columns["job.id"])
    names = {key: len(getattr(about, key)) for key in NAMES}
    cores = sum(count * cores for count, cores, _ in about.nodes)
    return {
        **{f"{of}.job": (0, jobs) for of in ("start", "end", "explain")},
        **{f"job.{key[:-1]}": (-1, names[key]) for key in ("users", "groups", "partitions")},
        "job.placement": (0, len(PLACEMENTS)),
        "box.first": (0, cores),
        "box.last": (0, cores),
        "end.state": (0, len(STATES)),
        "pause.start": (0, len(frame.columns["start.job"])),
        "pause.why": (1, FIRST_FINAL),
        "power.node": (0, nodes),
        "drain.node": (0, nodes),
        "drain.drained": (0, 2),
        "power.state": (0, len(POWER_STATES)),
        "watts.state": (0, len(NODE_STATES)),
        "explain.reason": (0, names["reasons"]),
    }
