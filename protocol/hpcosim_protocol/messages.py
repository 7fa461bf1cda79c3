"""Messages: requests of a client and answers of the server. See `specification.md`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from hpcosim_protocol.decisions import Decision
from hpcosim_protocol.events import Event, EventKind, snake_case
from hpcosim_protocol.platform import NotNegative, Platform
from hpcosim_protocol.policy import MAX_POLICY_ENTRIES

PROTOCOL_VERSION = 1
PROTOCOL_EDITION = "1.4"
Name = Annotated[str, Meta(max_length=200)]
Seq = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Override = bool | int | float | Annotated[str, Meta(max_length=200)]

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


class Hello(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """Open a session, or come back to one.

    Attributes:
        versions: every protocol version the client speaks.
        client: the client's name, for logs and the results folder.
        nonce: any text, new for every session wanted: a hello sent twice with the same nonce
            gets the same answer, not two sessions.
        scenario: which of the server's scenarios; empty: the first.
        seed: instead of the scenario's own.
        overrides: scalar values of the scenario to change, by dotted path.
        session: a session to come back to; the answer then has a `snapshot`.
        policy: description of the policy, which the server records with the results. Values are
            plain data: null, bool, int, float, text, lists and maps. Recommended keys: `name`,
            `settings`, `model_sha256`, `packages`. Limits: see `check_policy`.
    """

    versions: Annotated[list[int], Meta(max_length=100)]
    client: Name = ""
    nonce: Name = ""
    scenario: Name = ""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    overrides: Annotated[dict[Name, Override], Meta(max_length=100)] = {}
    session: Name = ""
    policy: Annotated[dict[Name, Any], Meta(max_length=MAX_POLICY_ENTRIES)] = {}


class Decisions(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """Decide, and ask for what happens next.

    Attributes:
        session: the session.
        seq: 1 for the first, then one more each; the same again only to resend.
        decisions: what to do now.
        wake_on: the event kinds worth waking the scheduler for; absent: `DEFAULT_WAKE_ON`.
        elapsed_s: simulated seconds the scheduler's own thinking took; they pass first.
    """

    session: Name
    seq: Seq
    decisions: list[Decision] = []
    wake_on: Annotated[list[EventKind], Meta(max_length=100)] | None = None
    elapsed_s: NotNegative = 0.0


class Bye(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """Leave a session for good; what was recorded is written."""

    session: Name


class Options(Struct, kw_only=True):
    """What holds in this session.

    Attributes:
        kill_at_walltime: a job past its requested time is killed.
        dynamic_jobs: `submit_job` is allowed.
        wake_on_allocation: a job may be given nodes that sleep or are being switched on; those
            that sleep are switched on for it.
        max_message_bytes: a larger message is refused.
        max_decisions: more in one message are refused.
        idle_timeout_s: wall seconds of silence after which the session is dropped.
    """

    kill_at_walltime: bool = False
    dynamic_jobs: bool = False
    wake_on_allocation: bool = False
    max_message_bytes: int = 0
    max_decisions: int = 0
    idle_timeout_s: float = 0.0


class Welcome(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """A session is open.

    Attributes:
        version: the protocol version both speak from now on.
        session: its name, to be sent with every message.
        scenario: the scenario's name.
        seed: the seed in force.
        platform: the cluster.
        options: what holds in this session.
        seq: the last `seq` the server answered; 0 in a new session.
        now_s: simulated time.
        snapshot: events that, applied in order to an empty view, bring it up to date;
            empty in a new session.
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
    """What has happened since the last answer, in order.

    Attributes:
        seq: the request this answers.
        now_s: simulated time; no event is later.
        events: the facts.
    """

    seq: int
    now_s: float
    events: list[Event]


class SimulationEnded(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """Every job is over; the session is closed.

    Attributes:
        seq: the request this answers.
        now_s: simulated time.
        metrics: by name.
    """

    seq: int
    now_s: float
    metrics: dict[str, int | float]


class Error(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """A request was refused.

    Attributes:
        code: the reason, for programs.
        message: what was wrong and what would be right, for people.
        where: the field at fault, such as `$.decisions[0].job_id`, if one is.
        fatal: the session is over.
        seq: the request this answers; 0: it had none that could be read.
    """

    code: ErrorCode
    message: str
    where: str = ""
    fatal: bool = False
    seq: int = 0


class Goodbye(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """The session is closed, as asked for."""


ClientMessage = Hello | Decisions | Bye
ServerMessage = Welcome | Events | SimulationEnded | Goodbye | Error
