"""Hellos that a bridge refuses."""

from __future__ import annotations

from hpcosim_protocol import Hello
from hpcosim_server.service.requests import error_reply
from hpcosim_slurm.bridge.course import Course


def refusal_of(hello: Hello, course: Course, *, is_connected: bool) -> bytes:
    """Return the encoded error for a hello that cannot open a session; empty: it can.

    Args:
        hello: a hello without the name of a session.
        course: the state of the bridge.
        is_connected: whether the scheduler of the open session is connected.
    """
    if (session := course.session) is not None and is_connected:
        what = (
            f"the bridge serves one scheduler at a time; {session.hello.client!r} is connected "
            f"(session {session.label})"
        )
        return error_reply("too_many_sessions", what)
    if hello.scenario not in ("", course.site.name):
        what = f"the cluster is {course.site.name!r}; got {hello.scenario!r}"
        return error_reply("unknown_scenario", what)
    if hello.overrides:
        return error_reply("invalid_scenario", "a live cluster has no values to override")
    if not course.state.nodes:
        return error_reply("too_many_sessions", "the state of the cluster is not known yet")
    return b""
