"""A small live view for tests of its clients: the paths of the real one, with frames of a test."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from hpcosim_view.run.frame import Frame, append, encode_frame


class LiveServer:
    """A server in a thread of its own.

    Args:
        token: the token that requests need; empty: none.

    Attributes:
        url: its URL.
        sessions: the frames of each session, by label; a session whose last frame has
            `ended_because` is over.
        changes: label and body of each change of pace.
        answers: status and body of the replies to other paths, or instead of those here.
    """

    def __init__(self, token: str = "") -> None:
        self.sessions: dict[str, list[Frame]] = {}
        self.changes: list[tuple[str, Any]] = []
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.grown = threading.Condition()
        self.closing = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self, token))
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def add(self, label: str, frame: Frame) -> None:
        """Add a frame to a session; viewers receive it."""
        with self.grown:
            self.sessions.setdefault(label, []).append(frame)
            self.grown.notify_all()

    def stop(self) -> None:
        """Stop the server and disconnect its viewers."""
        with self.grown:
            self.closing = True
            self.grown.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def described(self) -> Mapping[str, Any]:
        """Return the reply to `/api/sessions`."""
        about = {label: append(frames).about for label, frames in self.sessions.items()}
        facts = ("scenario", "scheduler", "now_s", "ended_because")
        return {
            "sessions": [
                {"label": label, **{key: each.get(key, "") for key in facts}}
                for label, each in about.items()
            ]
        }


def _handler_of(live: LiveServer, token: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            if token and self.headers["Authorization"] != f"Bearer {token}":
                self._send(401, b"a token is needed")
            elif self.path in live.answers:
                self._send(*live.answers[self.path])
            elif self.path == "/api/sessions":
                self._send(200, json.dumps(live.described()).encode())
            else:
                self._session(*self.path.removeprefix("/api/sessions/").partition("/")[::2])

        def do_POST(self) -> None:
            label = self.path.split("/")[3]
            body = self.rfile.read(int(self.headers["Content-Length"]))
            live.changes.append((label, json.loads(body)))
            self._send(200, b"{}")

        def _session(self, label: str, what: str) -> None:
            if label not in live.sessions:
                self._send(404, b'{"error": "no such session"}')
            elif what == "run":
                self._send(200, encode_frame(append(live.sessions[label])))
            else:
                self._stream(label)

        def _stream(self, label: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            sent = 0
            while not live.closing:
                with live.grown:
                    frames = live.sessions[label][sent:]
                    if not frames:
                        live.grown.wait(0.05)
                        continue
                for frame in frames:
                    sent += 1
                    data = b64encode(encode_frame(frame))
                    self.wfile.write(b"retry: 1000\n\nid: %d\ndata: %s\n\n" % (sent, data))
                if frames[-1].about.get("ended_because"):
                    self.wfile.write(b'event: end\ndata: "over"\n\n')
                    return

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
            self.wfile.write(body)

    return Handler
