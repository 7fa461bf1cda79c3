"""Replies of the server. See `specification.md`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from hpcosim_protocol.client_messages import Decisions
from hpcosim_protocol.events import Event
from hpcosim_protocol.platform import Platform
from hpcosim_protocol.requests import snake_case

ServerState = Literal["serving", "draining"]
Writing = Literal["none", "ok", "failing"]
"""Whether something is written, such as journals, and whether it can be."""

ErrorCode = Literal[
    "unsupported_version",
    "invalid_message",
    "message_too_large",
    "too_many_decisions",
    "too_many_sessions",
    "unknown_scenario",
    "invalid_scenario",
    "unknown_session",
    "out_of_order",
    "simulation_stuck",
    "shutting_down",
    "internal_error",
]


class Options(Struct, kw_only=True):
    """Options of a session.

    Attributes:
        kill_at_walltime: whether the server kills a job that exceeds its requested time.
        dynamic_jobs: whether the client may send `submit_job`.
        wake_on_allocation: whether a job may be allocated nodes that are `sleeping` or
            `switching_on`. The server switches on those that are `sleeping`.
        signals: whether the server sends `signal_changed`.
        explain: whether the client may send `explain`.
        workload_manager: whether the session has the events, decisions, states and codes of
            workload managers, because its hello had `workload_manager`.
        history: whether the client may send `get_history`. Only in the reply to a hello with
            `history`.
        realtime: whether time passes while the client decides.
        max_message_bytes: maximum size of a message, bytes.
        max_decisions: maximum number of decisions in one message.
        idle_timeout_s: silence of the client after which the server closes the session, wall s.
    """

    kill_at_walltime: bool = False
    dynamic_jobs: bool = False
    wake_on_allocation: bool = False
    signals: bool = False
    explain: bool = False
    workload_manager: bool = False
    history: bool = False
    realtime: bool = False
    max_message_bytes: int = 0
    max_decisions: int = 0
    idle_timeout_s: float = 0.0


class Welcome(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """The session is open.

    Attributes:
        version: protocol version of the session.
        session: name of the session. The client sends it in every message. It is a secret.
        scenario: name of the scenario.
        seed: random seed of the session.
        platform: the cluster.
        options: options of the session.
        seq: `seq` of the last answered request; 0 in a new session.
        now_s: simulated time, s.
        snapshot: state of a resumed session, as events that the client applies in order; empty in
            a new session.
    """

    version: int
    session: str
    scenario: str
    seed: int
    platform: Platform
    options: Options
    seq: int = 0
    now_s: float = 0.0
    snapshot: list[Event] = []


class Events(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """The events since the last reply, in order.

    Attributes:
        seq: `seq` of the request that this message answers.
        now_s: simulated time, s. No event is later.
        events: the events, at least one.
    """

    seq: int
    now_s: float
    events: list[Event]


class Held(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """The server holds back the reply to a request that the client has sent again.

    People slow down or pause the simulation. The client waits on, and may repeat the request again
    after its usual interval.

    Attributes:
        seq: `seq` of the request.
        now_s: simulated time of the reply that is held back, s.
    """

    seq: int
    now_s: float


class Exchange(Struct, kw_only=True):
    """A request and its reply.

    Attributes:
        request: the request.
        reply: the reply.
    """

    request: Decisions
    reply: Events


class History(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """Requests and replies of a session, in order.

    Attributes:
        after: `after` of the request.
        exchanges: the requests after `after` with their replies, as many as fit into a message.
        snapshot: if a client got a snapshot after `after`: the last one; `exchanges` then begins
            with the request after it. Empty: none did.
        snapshot_s: simulated time of the snapshot, s.
    """

    after: int
    exchanges: list[Exchange] = []
    snapshot: list[Event] = []
    snapshot_s: float = 0.0


class SessionStatus(Struct, kw_only=True):
    """An open session.

    Attributes:
        label: public label of the session, with which it cannot be resumed.
        scenario: name of the scenario.
        scheduler: name of the scheduler, as the client gave it.
        now_s: simulated time, s.
        jobs_over: number of jobs that have ended or were rejected.
        jobs: number of jobs in the workload.
        silent_s: time since the last message of the client, wall s.
    """

    label: str
    scenario: str = ""
    scheduler: str = ""
    now_s: float = 0.0
    jobs_over: int = 0
    jobs: int = 0
    silent_s: float = 0.0


class ServerStatus(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """What the server does.

    Attributes:
        server: name and version of the server.
        state: `serving` or `draining`: the server ends, and opens no session.
        uptime_s: time since the start of the server, wall s.
        scenarios: names of the scenarios.
        workers: number of processes for sessions.
        memory_mb: memory of these processes, MB; 0: unknown.
        max_sessions: maximum number of open sessions.
        sessions: the open sessions, at most 1,000.
        sessions_active: number of open sessions.
        sessions_over: number of sessions that are closed.
        sessions_refused: number of sessions that were not opened.
        failures: number of failures, by cause.
        restarts: number of processes that were started again because they had failed.
        messages_lost: number of messages that were not sent because the peer did not read.
        journal: `none`, `ok`, or `failing`: a session that is open cannot be restored.
        journals_failed: number of journals that could not be written.
        results: `none`, `ok`, or `failing`: the last results could not be written.
    """

    server: str
    state: ServerState = "serving"
    uptime_s: float = 0.0
    scenarios: list[str] = []
    workers: int = 1
    memory_mb: float = 0.0
    max_sessions: int = 0
    sessions: list[SessionStatus] = []
    sessions_active: int = 0
    sessions_over: int = 0
    sessions_refused: int = 0
    failures: dict[str, int] = {}
    restarts: int = 0
    messages_lost: int = 0
    journal: Writing = "none"
    journals_failed: int = 0
    results: Writing = "none"

    def problems(self) -> list[str]:
        """Return why the server should not get new sessions; empty: it is healthy."""
        problems = ["draining"] if self.state == "draining" else []
        if self.journal == "failing":
            problems.append("journals cannot be written")
        if self.results == "failing":
            problems.append("results cannot be written")
        return problems


class SimulationEnded(Struct, tag_field="type", tag=snake_case, kw_only=True, omit_defaults=True):
    """All jobs are over, and the session is closed.

    Attributes:
        seq: `seq` of the request that this message answers.
        now_s: simulated time, s.
        metrics: metrics of the simulation, by name.
        results_error: why the server has not written the results, for people; empty: they are
            written, or the server writes none.
    """

    seq: int
    now_s: float
    metrics: dict[str, int | float]
    results_error: str = ""


class Error(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """The server rejected a request.

    Attributes:
        code: reason, for programs.
        message: reason, for people: the fault and the expected value.
        where: path of the wrong field, such as `$.decisions[0].job_id`; empty: the whole message.
        fatal: whether the session is over.
        seq: `seq` of the request that this message answers; 0: unknown.
    """

    code: ErrorCode
    message: str
    where: str = ""
    fatal: bool = False
    seq: int = 0


class Goodbye(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """The session is closed, as requested by `bye`."""


ServerMessage = Welcome | Events | Held | History | ServerStatus | SimulationEnded | Goodbye | Error
