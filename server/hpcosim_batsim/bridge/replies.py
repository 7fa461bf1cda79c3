"""What schedulers say: Batsim's messages of version 4.2.1, read strictly."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from hpcosim_batsim.errors import BadReplyError

MOST_SAID = 300  # characters of an error, which quotes what the scheduler sent
Texts = Annotated[list[str], Meta(min_length=1)]


class _Data(Struct, forbid_unknown_fields=True, gc=False):
    """What a decision says; the first letters of its class are its type, as on the wire."""


class ExecuteJob(_Data, tag=False):
    """Run a job on these hosts.

    Attributes:
        job_id: the full one.
        alloc: intervals of hosts.
        mapping: of the job's executors to places in `alloc`; absent: one on each host.
        storage_mapping, additional_io_job: of what is not simulated here.
    """

    job_id: str
    alloc: str
    mapping: dict[str, str | int] | None = None
    storage_mapping: dict[str, int] | None = None
    additional_io_job: Any = None


class RejectJob(_Data):
    """Turn a job away."""

    job_id: str


class CallMeLater(_Data):
    """Send a `REQUESTED_CALL` at `timestamp`, in s."""

    timestamp: float


class KillJob(_Data):
    """End jobs that run."""

    job_ids: Texts


class SetResourceState(_Data):
    """Bring hosts to a power state."""

    resources: str
    state: str | int


class RegisterJob(_Data):
    """Submit a job; `job` is as in a workload."""

    job_id: str
    job: dict[str, Any]


class RegisterProfile(_Data):
    """Add a profile, as in a workload, to one, which is made if there is none of the name."""

    workload_name: str
    profile_name: str
    profile: dict[str, Any]


class SetJobMetadata(_Data):
    """Note something about a job, for the results."""

    job_id: str
    metadata: str


class ChangeJobState(_Data):
    """Let a job be in a state though nothing ran."""

    job_id: str
    job_state: str


class Notify(_Data):
    """Registration is over, or goes on."""

    type: str


class Query(_Data):
    """Ask for the energy consumed."""

    requests: dict[str, Any]


class Answer(_Data):
    """Say what was asked for; nothing is asked here."""

    estimate_waiting_time: Any = None


class ToJobMsg(_Data):
    """Tell a job something."""

    job_id: str
    msg: Any


Data = (
    ExecuteJob
    | RejectJob
    | CallMeLater
    | KillJob
    | SetResourceState
    | RegisterJob
    | RegisterProfile
    | SetJobMetadata
    | ChangeJobState
    | Notify
    | Query
    | Answer
    | ToJobMsg
)


class Decision(Struct, gc=False):
    """One thing the scheduler wants.

    Attributes:
        timestamp_s: when it is to be done; what lies in the past, at once.
        data: what.
    """

    timestamp_s: float
    data: Data


class Reply(Struct, gc=False):
    """What the scheduler says to a message.

    Attributes:
        now_s: it wants to hear no more before.
        decisions: in this order.
    """

    now_s: float
    decisions: list[Decision]


class _Event(Struct, gc=False):
    timestamp: float
    type: str
    data: msgspec.Raw = msgspec.Raw(b"{}")


class _Message(Struct, gc=False):
    now: float
    events: list[_Event]


_message_decoder = msgspec.json.Decoder(_Message)


def _wire_name(kind: type[_Data]) -> str:
    """Return the type of such a decision on the wire: `KillJob` is `KILL_JOB`."""
    return "".join(f"_{c}" if c.isupper() else c.upper() for c in kind.__name__).lstrip("_")


_DECODERS: dict[str, msgspec.json.Decoder[Data]] = {
    _wire_name(kind): msgspec.json.Decoder(kind) for kind in Data.__args__
}


def wire_name(data: Data) -> str:
    """Return the type of a decision on the wire."""
    return _wire_name(type(data))


def read_reply(text: bytes) -> Reply:
    """Return what the scheduler said.

    Raises:
        BadReplyError: it is none of Batsim's messages.
    """
    try:
        message = _message_decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad(error, "$") from None
    decisions = []
    for place, event in enumerate(message.events):
        if event.timestamp > message.now:
            raise BadReplyError(
                f"its time, {event.timestamp}, is after the message's now, {message.now}",
                f"$.events[{place}].timestamp",
            )
        decoder = _DECODERS.get(event.type)
        if decoder is None:
            known = ", ".join(_DECODERS)
            raise BadReplyError(
                f"there is no type {event.type[:MOST_SAID]!r}; there are {known}",
                f"$.events[{place}].type",
            )
        try:
            data = decoder.decode(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _bad(error, f"$.events[{place}].data", f"{event.type}: ") from None
        decisions.append(Decision(event.timestamp, data))
    return Reply(message.now, decisions)


def _bad(error: Exception, root: str, before: str = "") -> BadReplyError:
    what, _, path = str(error).rpartition(" - at `$")
    if not what:
        what, path = path, ""
    return BadReplyError(before + what[:MOST_SAID], root + path.rstrip("`")[:MOST_SAID])
