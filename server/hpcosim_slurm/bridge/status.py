"""The status of a bridge, for operators."""

from __future__ import annotations

from hpcosim_protocol import ServerStatus
from hpcosim_protocol.server_messages import SessionStatus
from hpcosim_slurm.bridge.course import Course


def status_of(
    course: Course, version: str, uptime_s: float, unreachable: str, journal_failed: bool
) -> ServerStatus:
    """Return the status of a bridge.

    Args:
        course: its state.
        version: name and version of the server.
        uptime_s: time since its start, s.
        unreachable: why the state of the cluster cannot be read; empty: it can.
        journal_failed: whether its journal could not be written.
    """
    found, session = [], course.session
    if session is not None:
        recording = session.world.engine.recording
        found.append(
            SessionStatus(
                label=session.label,
                scenario=course.site.name,
                scheduler=session.hello.client,
                now_s=session.world.engine.now_s,
                jobs_over=recording.over,
                jobs=len(recording),
            )
        )
    return ServerStatus(
        server=version,
        uptime_s=uptime_s,
        scenarios=[course.site.name],
        max_sessions=1,
        sessions=found,
        sessions_active=len(found),
        sessions_over=course.sessions_over,
        journal="failing" if journal_failed else "ok",
        failures={"slurm_unreachable": 1} if unreachable else {},
    )
