"""Batsim's messages, version 4.2.1: a strict decoder of replies, and messages to the scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from hpcosim_batsim.bridge.front import SchedulerReply, TimedDecision, check_times
from hpcosim_batsim.errors import BadReplyError
from hpcosim_sim.record.tables import intervals

MAX_QUOTED = 300  # maximum length of the scheduler's text in an error, characters
Texts = Annotated[list[str], Meta(min_length=1)]

Json = Mapping[str, Any]

_INTEGERS = range(-(2**63), 2**64)  # Batsim's JSON reader reads other integers as double precision


class _Data(Struct, forbid_unknown_fields=True, gc=False):
    """Base of the data of a decision."""


class ExecuteJob(_Data):
    """Start a job.

    Attributes:
        job_id: full id of the job.
        alloc: hosts, as intervals.
        mapping: position in `alloc` of each executor; default: one executor per host.
        storage_mapping: number of the storage host for each label of the job's profile.
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
    check_times([event.timestamp for event in message.events], message.now)
    decisions = []
    for place, event in enumerate(message.events):
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


def to_json(value: object) -> str:
    """Return a value as JSON on one line; numbers that are not integers have six decimals."""
    return msgspec.json.encode(_with_six_decimals(value)).decode()


def message(now_s: float, events: Iterable[str]) -> bytes:
    """Return a message with these events."""
    return f'{{"now":{now_s:.6f},"events":[{",".join(events)}]}}'.encode()


def event(time_s: float, kind: str, data: str = "{}") -> str:
    """Return an event with this type and JSON data."""
    return f'{{"timestamp":{time_s:.6f},"type":"{kind}","data":{data}}}'


def job_submitted(time_s: float, job_id: str, job: Json, profile: Json | None) -> str:
    """Return `JOB_SUBMITTED`, with the profile unless it is None."""
    forwarded = "" if profile is None else f',"profile":{to_json(profile)}'
    data = f'{{"job_id":{to_json(job_id)},"job":{to_json(job)}{forwarded}}}'
    return event(time_s, "JOB_SUBMITTED", data)


def job_completed(
    time_s: float, job_id: str, state: str, return_code: int, hosts: Sequence[int]
) -> str:
    """Return `JOB_COMPLETED` of a job that ran on these hosts."""
    return event(
        time_s,
        "JOB_COMPLETED",
        f'{{"job_id":{to_json(job_id)},"job_state":"{state}","return_code":{return_code},'
        f'"alloc":"{intervals(hosts)}"}}',
    )


def job_killed(time_s: float, job_ids: Sequence[str], progress: Mapping[str, Json]) -> str:
    """Return `JOB_KILLED`.

    Args:
        progress: progress of each job that the request ended, by id.
    """
    by_job = ",".join(f"{to_json(job_id)}:{_progress(task)}" for job_id, task in progress.items())
    data = f'{{"job_ids":{to_json(job_ids)},"job_progress":{{{by_job}}}}}'
    return event(time_s, "JOB_KILLED", data)


def resource_state_changed(time_s: float, hosts: Sequence[int], pstate: int) -> str:
    """Return `RESOURCE_STATE_CHANGED`: all hosts of a request are in the requested pstate."""
    data = f'{{"resources":"{intervals(hosts)}","state":"{pstate}"}}'
    return event(time_s, "RESOURCE_STATE_CHANGED", data)


def notify(time_s: float, kind: str) -> str:
    """Return a `NOTIFY` whose data has only a type."""
    return event(time_s, "NOTIFY", f'{{"type":"{kind}"}}')


def availability(time_s: float, hosts: Sequence[int], unavailable: bool) -> str:
    """Return a `NOTIFY` that hosts became unavailable, or available again."""
    kind = "event_machine_unavailable" if unavailable else "event_machine_available"
    return event(time_s, "NOTIFY", f'{{"type":"{kind}","resources":"{intervals(hosts)}"}}')


def consumed_energy(time_s: float, energy_j: float) -> str:
    """Return the `ANSWER` to a query of the consumed energy, J."""
    return event(time_s, "ANSWER", f'{{"consumed_energy":{energy_j:.6f}}}')


def _with_six_decimals(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {
            key: each if type(each) is str else _with_six_decimals(each)
            for key, each in value.items()
        }
    if kind is list:
        return [_with_six_decimals(each) for each in value]
    if kind is float or (kind is int and value not in _INTEGERS):
        return msgspec.Raw(f"{value:.6f}".encode())
    return value


def _progress(task: Json) -> str:
    name = f'"profile_name":{to_json(task["profile_name"])}'
    if "progress" in task:
        return f'{{{name},"progress":{task["progress"]:.6f}}}'
    index, current = task["current_task_index"], _progress(task["current_task"])
    return f'{{{name},"current_task_index":{index},"current_task":{current}}}'
