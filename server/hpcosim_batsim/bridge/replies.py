"""Strict decoder of a scheduler's replies, Batsim's protocol version 4.2.1."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from hpcosim_batsim.errors import BadReplyError

MAX_QUOTED = 300  # maximum length of the scheduler's text in an error, characters
Texts = Annotated[list[str], Meta(min_length=1)]


class _Data(Struct, forbid_unknown_fields=True, gc=False):
    """Base of the data of a decision."""


class ExecuteJob(_Data):
    """Start a job.

    Attributes:
        job_id: full id of the job.
        alloc: hosts, as intervals.
        mapping: position in `alloc` of each executor; default: one executor per host.
        storage_mapping: not supported.
        additional_io_job: not supported.
    """

    job_id: str
    alloc: str
    mapping: dict[str, str | int] | None = None
    storage_mapping: dict[str, int] | None = None
    additional_io_job: Any = None


class BatsimRejectJob(_Data):
    """Reject a waiting job."""

    job_id: str


class CallMeLater(_Data):
    """Request a `REQUESTED_CALL` at `timestamp`, s."""

    timestamp: float


class BatsimKillJob(_Data):
    """Kill running jobs."""

    job_ids: Texts


class SetResourceState(_Data):
    """Set the pstate (`state`) of hosts (`resources`, as intervals)."""

    resources: str
    state: str | int


class RegisterJob(_Data):
    """Register a dynamic job; `job` is an object as in a workload file."""

    job_id: str
    job: dict[str, Any]


class RegisterProfile(_Data):
    """Register a profile in a workload, which is created if it does not exist."""

    workload_name: str
    profile_name: str
    profile: dict[str, Any]


class SetJobMetadata(_Data):
    """Set the metadata of a job, a text for `PREFIX_jobs.csv`."""

    job_id: str
    metadata: str


class ChangeJobState(_Data):
    """Set the state of a job; only REJECTED is supported."""

    job_id: str
    job_state: str


class Notify(_Data):
    """End (`registration_finished`) or continue (`continue_registration`) registration."""

    type: str


class Query(_Data):
    """Query the consumed energy."""

    requests: dict[str, Any]


class BatsimAnswer(_Data):
    """Answer a query of the simulator; ignored, as it sends none."""

    estimate_waiting_time: Any = None


class ToJobMsg(_Data):
    """Send a message to a job; not supported."""

    job_id: str
    msg: Any


DecisionData = (
    ExecuteJob
    | BatsimRejectJob
    | CallMeLater
    | BatsimKillJob
    | SetResourceState
    | RegisterJob
    | RegisterProfile
    | SetJobMetadata
    | ChangeJobState
    | Notify
    | Query
    | BatsimAnswer
    | ToJobMsg
)


class TimedDecision(Struct, gc=False):
    """A decision and its time.

    Attributes:
        timestamp_s: simulated time at which it applies, s; a time in the past means now.
        data: the decision.
    """

    timestamp_s: float
    data: DecisionData


class SchedulerReply(Struct, gc=False):
    """A scheduler's reply.

    Attributes:
        now_s: earliest time of the next message, s.
        decisions: the decisions, in order.
    """

    now_s: float
    decisions: list[TimedDecision]


class _Event(Struct, gc=False):
    timestamp: float
    type: str
    data: msgspec.Raw = msgspec.Raw(b"{}")


class _Message(Struct, gc=False):
    now: float
    events: list[_Event]


_message_decoder = msgspec.json.Decoder(_Message)


_TYPES: dict[str, type[DecisionData]] = {
    "EXECUTE_JOB": ExecuteJob,
    "REJECT_JOB": BatsimRejectJob,
    "CALL_ME_LATER": CallMeLater,
    "KILL_JOB": BatsimKillJob,
    "SET_RESOURCE_STATE": SetResourceState,
    "REGISTER_JOB": RegisterJob,
    "REGISTER_PROFILE": RegisterProfile,
    "SET_JOB_METADATA": SetJobMetadata,
    "CHANGE_JOB_STATE": ChangeJobState,
    "NOTIFY": Notify,
    "QUERY": Query,
    "ANSWER": BatsimAnswer,
    "TO_JOB_MSG": ToJobMsg,
}
_DECODERS = {name: msgspec.json.Decoder(kind) for name, kind in _TYPES.items()}
_NAMES = {kind: name for name, kind in _TYPES.items()}


def wire_name(data: DecisionData) -> str:
    """Return the type of a decision in messages, such as `EXECUTE_JOB`."""
    return _NAMES[type(data)]


def read_reply(text: bytes) -> SchedulerReply:
    """Return a decoded reply.

    Raises:
        BadReplyError: the reply does not follow Batsim's protocol.
    """
    try:
        message = _message_decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad(error, "$") from None
    decisions = []
    before_s = -math.inf
    for place, event in enumerate(message.events):
        if event.timestamp < before_s:
            raise BadReplyError(
                f"expected a time of at least {before_s}, that of the decision before it, got "
                f"{event.timestamp}",
                f"$.events[{place}].timestamp",
            )
        before_s = event.timestamp
        if event.timestamp > message.now:
            raise BadReplyError(
                f"expected a time of at most the message's now, {message.now}, got "
                f"{event.timestamp}",
                f"$.events[{place}].timestamp",
            )
        decoder = _DECODERS.get(event.type)
        if decoder is None:
            known = ", ".join(_DECODERS)
            raise BadReplyError(
                f"unknown type {event.type[:MAX_QUOTED]!r}; expected one of {known}",
                f"$.events[{place}].type",
            )
        try:
            data = decoder.decode(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _bad(error, f"$.events[{place}].data", f"{event.type}: ") from None
        decisions.append(TimedDecision(event.timestamp, data))
    return SchedulerReply(message.now, decisions)


def _bad(error: Exception, root: str, before: str = "") -> BadReplyError:
    what, _, path = str(error).rpartition(" - at `$")
    if not what:
        what, path = path, ""
    return BadReplyError(before + what[:MAX_QUOTED], root + path.rstrip("`")[:MAX_QUOTED])
