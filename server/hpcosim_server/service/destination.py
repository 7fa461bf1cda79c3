"""Which process of a server answers a request: what the front and the workers read of each."""

from __future__ import annotations

import msgspec

from hpcosim_server.service.sessions import FIRST_WORKER, worker_of


class _About(msgspec.Struct):
    type: str = ""
    session: str = ""


_about = msgspec.msgpack.Decoder(_About)

OF_FRONT = ("hello", "get_status")
"""Types of the requests without a session that the front decides about."""


def destination(body: bytes) -> int | None:
    """Return the number of the worker of a request's session.

    Args:
        body: the request.

    Returns:
        The number; 0: the front decides; None: every process has the same reply, an error.
    """
    try:
        about = _about.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if about.session:
        return worker_of(about.session) or FIRST_WORKER
    return 0 if about.type in OF_FRONT else None
