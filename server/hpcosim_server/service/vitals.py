"""The status of a server, for operators, health checks and metrics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec.structs import replace

from hpcosim_protocol import ServerStatus, SessionStatus
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.held_replies import HeldReplies
from hpcosim_server.service.memory import used_bytes
from hpcosim_server.service.session import Session
from hpcosim_server.service.sessions import Counts
from hpcosim_server.service.status import Failure, Status
from hpcosim_sim.record.versions import hpcosim_version

MOST_SESSIONS = 1000
MEMORY_INTERVAL_S = 10.0
"""Time between two measurements of memory: each takes milliseconds, s."""
MB = 1_000_000


class Vitals:
    """Counts what a service does and what fails."""

    def __init__(
        self,
        report: Callable[[Status], None],
        journals: Journals | None,
        keeps_results: bool,
        scenarios: Sequence[str],
        max_sessions: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.refused = 0
        self.results_failing = False
        self.messages_lost: Callable[[], int] = lambda: 0
        self._report = report
        self._journals, self._keeps_results = journals, keeps_results
        self._scenarios = list(scenarios)
        self._max_sessions = max_sessions
        self._clock = clock
        self._failures = Counter[str]()
        self._began_s = clock()
        self._memory_mb = 0.0
        self._memory_due_s = self._began_s

    def report(self, status: Status) -> None:
        """Count a failure, and pass a status message on."""
        if isinstance(status, Failure) and status.cause != "stopped":
            self._failures[status.cause] += 1
            if status.cause == "results_not_written":
                self.results_failing = True
        self._report(status)

    def status(
        self, sessions: Iterable[Session], held: HeldReplies, counts: Counts, now_s: float
    ) -> ServerStatus:
        """Return the status of a service that runs."""
        journals = self._journals
        return ServerStatus(
            server=server_name(),
            uptime_s=self._clock() - self._began_s,
            scenarios=self._scenarios,
            memory_mb=self._memory(),
            max_sessions=self._max_sessions,
            sessions=[_described(each, held, now_s) for each in sessions][:MOST_SESSIONS],
            sessions_active=counts.active,
            sessions_over=counts.over,
            sessions_refused=self.refused,
            failures=dict(self._failures),
            messages_lost=self.messages_lost(),
            journal="none" if journals is None else _state(fails=journals.is_failing),
            journals_failed=0 if journals is None else journals.all_failed,
            results=_state(fails=self.results_failing) if self._keeps_results else "none",
        )

    def _memory(self) -> float:
        at_s = self._clock()
        if at_s >= self._memory_due_s:
            self._memory_due_s = at_s + MEMORY_INTERVAL_S
            self._memory_mb = round(used_bytes() / MB, 1)
        return self._memory_mb


def server_name() -> str:
    """Return the name and the version of this server."""
    return f"hpcosim {hpcosim_version()}"


def later(status: ServerStatus, age_s: float) -> ServerStatus:
    """Return a status some time later, if nothing has happened since."""
    sessions = [replace(each, silent_s=each.silent_s + age_s) for each in status.sessions]
    return replace(status, sessions=sessions, uptime_s=status.uptime_s + age_s)


def without_sessions(status: ServerStatus) -> ServerStatus:
    """Return what stays of the status of a process that has ended: its counters."""
    gone = {"journal": "none", "results": "none"}
    return replace(status, sessions=[], sessions_active=0, memory_mb=0.0, **gone)


def merged(statuses: Sequence[ServerStatus]) -> ServerStatus:
    """Return the status of a server from those of its processes, at least one."""
    return replace(
        statuses[0],
        memory_mb=sum(each.memory_mb for each in statuses),
        sessions=[session for each in statuses for session in each.sessions][:MOST_SESSIONS],
        sessions_active=sum(each.sessions_active for each in statuses),
        sessions_over=sum(each.sessions_over for each in statuses),
        sessions_refused=sum(each.sessions_refused for each in statuses),
        failures=dict(sum((Counter(each.failures) for each in statuses), Counter[str]())),
        messages_lost=sum(each.messages_lost for each in statuses),
        journal=_worst(each.journal for each in statuses),
        journals_failed=sum(each.journals_failed for each in statuses),
        results=_worst(each.results for each in statuses),
    )


def _state(*, fails: bool) -> Literal["ok", "failing"]:
    return "failing" if fails else "ok"


def _worst(states: Iterable[str]) -> str:
    return max(states, key=("none", "ok", "failing").index)


def _described(session: Session, held: HeldReplies, now_s: float) -> SessionStatus:
    run, simulation = session.opened.run, session.opened.simulation
    heard_s = max(session.last_message_s, held.heard_s(session.name))
    return SessionStatus(
        label=session.label,
        scenario=run.scenario,
        scheduler=run.scheduler,
        now_s=simulation.now_s,
        jobs_over=simulation.recording.over,
        jobs=session.opened.jobs,
        silent_s=max(0.0, now_s - heard_s),
    )
