"""Messages of Batsim 5 from a component: tables of its schema, with strict fields.

A message is an object of JSON, or the same object from its binary form. A union has its type in a
field of its own, such as `when_type` beside `when`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from hpcosim_batsim.bridge.front import SchedulerReply, TimedDecision, check_times
from hpcosim_batsim.errors import BadReplyError

MAX_QUOTED = 300  # maximum length of a component's text in an error, characters


class Table(Struct, forbid_unknown_fields=True, gc=False):
    """Base of the tables of the schema."""


class RequestedFeatures(Table, kw_only=True):
    """`EDCRequestedSimulationFeatures`: what a component requests."""

    dynamic_registration: bool = False
    profile_reuse: bool = False
    acknowledge_dynamic_jobs: bool = False
    forward_profiles_on_job_submission: bool = False
    forward_profiles_on_jobs_killed: bool = False
    forward_profiles_on_simulation_begins: bool = False
    forward_unknown_external_events: bool = False


class SchedulingConstraints(Table, kw_only=True):
    """`EDCSchedulingConstraints`: rules that a component has to obey."""

    compute_sharing: bool = False
    storage_sharing: bool = True
    job_allocation_validation_strategy: str = "MatchJobRequestExactly"


class Hello(Table, kw_only=True):
    """`EDCHelloEvent`: a component introduces itself."""

    batprotocol_version: str = ""
    decision_component_name: str = ""
    decision_component_version: str = ""
    decision_component_commit: str = ""
    requested_simulation_features: RequestedFeatures = msgspec.field(
        default_factory=RequestedFeatures
    )
    scheduling_constraints: SchedulingConstraints = msgspec.field(
        default_factory=SchedulingConstraints
    )


class PredefinedPlacement(Table):
    """Processes on the hosts in turn, or on all cores of a host before the next one."""

    strategy: Literal["SpreadOverHostsFirst", "FillOneHostCoresFirst"] = "SpreadOverHostsFirst"


class CustomMapping(Table):
    """Position in the allocation of the host of each process."""

    mapping: list[int] = []


class Allocation(Table):
    """Hosts, as intervals, and the processes on them."""

    host_allocation: str
    executor_placement_type: str
    executor_placement: Any


class ProfileAllocation(Table):
    """Hosts of a part of the profile of a job, and the processes on them."""

    profile_id: str
    host_allocation: str
    executor_placement_type: str
    executor_placement: Any


class Execute(Table):
    """`ExecuteJobEvent`: start a job."""

    job_id: str
    allocation: Allocation
    profile_allocation_override: list[ProfileAllocation] = []
    storage_placement: list[Any] = []


class Reject(Table):
    """`RejectJobEvent`: reject a waiting job."""

    job_id: str


class KillJobs(Table):
    """`KillJobsEvent`: kill jobs that have started."""

    job_ids: list[str]


TimeUnit = Literal["Second", "Millisecond"]


class OneShot(Table):
    """A single point in time."""

    time: int = 0
    time_unit: TimeUnit = "Second"


class Infinite(Table):
    """A period without end."""


class FinitePeriodNumber(Table):
    """A number of periods."""

    nb_periods: int = 0


class Periodic(Table):
    """Points in time at the multiples of a period."""

    period: int = 0
    offset: int = 0
    time_unit: TimeUnit = "Second"
    mode_type: str = ""
    mode: Any = None


class CallLater(Table):
    """`CallMeLaterEvent`: request calls."""

    call_me_later_id: str
    when_type: str
    when: Any


class StopCalls(Table):
    """`StopCallMeLaterEvent`: end periodic calls."""

    call_me_later_id: str


class RegisteredJob(Table):
    """`Job`: a job that a component registers."""

    resource_request: int = 0
    walltime: float | None = None
    extra_data: str = ""
    rigid: bool = True
    profile_id: str = ""


class JobRegistration(Table):
    """`RegisterJobEvent`: register a job."""

    job_id: str
    job: RegisteredJob


class ProfileAndId(Table):
    """A profile with its full name."""

    id: str
    profile_type: str
    profile: dict[str, Any]
    extra_data: str = ""


class ProfileRegistration(Table):
    """`RegisterProfileEvent`: register a profile."""

    profile: ProfileAndId


class FinishRegistration(Table):
    """`FinishRegistrationEvent`: no more jobs will be registered."""


class ForceStop(Table):
    """`ForceSimulationStopEvent`: end the simulation now."""


class ChangePstate(Table):
    """`ChangeHostsPStateEvent`: set the computation pstate of hosts."""

    host_ids: str
    pstate: int = 0


class TurnOnOff(Table):
    """`TurnOnOffHostsEvent`: switch hosts on or off; `state` is their pstate then."""

    host_ids: str
    state: int = 0


class HostResources(Table):
    """Hosts, as intervals."""

    host_ids: str


class Accumulation(Table):
    """`ProbeDataAccumulation`: the metric is summed over time."""

    reset_mode_type: str = ""
    reset_mode: Any = None
    cumulative_function: str = "Sum"
    temporal_normalization: bool = False


class Trigger(Table):
    """`TemporalTriggerWrapper`: the times of a probe."""

    temporal_trigger_type: str
    temporal_trigger: Any


class CreateProbe(Table, kw_only=True):
    """`CreateProbeEvent`: measure something from time to time."""

    probe_id: str
    metrics: str = "Power"
    resources_type: str
    resources: Any
    data_accumulation_strategy_type: str
    data_accumulation_strategy: Any = None
    measurement_triggering_policy_type: str
    measurement_triggering_policy: Any
    resources_aggregation_function_type: str
    resources_aggregation_function: Any = None
    temporal_aggregation_function_type: str = "NoTemporalAggregation"
    temporal_aggregation_function: Any = None
    emission_filtering_policy_type: str = "NoFiltering"
    emission_filtering_policy: Any = None


class StopProbe(Table):
    """`StopProbeEvent`: end a probe."""

    probe_id: str


_TYPES: Mapping[str, type[Table]] = {
    "ExecuteJobEvent": Execute,
    "RejectJobEvent": Reject,
    "KillJobsEvent": KillJobs,
    "RegisterProfileEvent": ProfileRegistration,
    "RegisterJobEvent": JobRegistration,
    "FinishRegistrationEvent": FinishRegistration,
    "CallMeLaterEvent": CallLater,
    "StopCallMeLaterEvent": StopCalls,
    "CreateProbeEvent": CreateProbe,
    "StopProbeEvent": StopProbe,
    "ChangeHostsPStateEvent": ChangePstate,
    "TurnOnOffHostsEvent": TurnOnOff,
    "ForceSimulationStopEvent": ForceStop,
    "EDCHelloEvent": Hello,
}
_NAMES = {table: name for name, table in _TYPES.items()}

# Events of the schema that are not supported, and why.
_UNSUPPORTED = {
    "TriggerProbeEvent": "Batsim 5 does not implement it",
    "ResetProbeEvent": "Batsim 5 does not implement it",
}


def name_of(decision: Table) -> str:
    """Return the type of a decision in messages."""
    return _NAMES[type(decision)]


class TimedEvent(Struct, forbid_unknown_fields=True, gc=False):
    """An event of a message, with its fields as they are in JSON."""

    timestamp: float
    event_type: str
    event: dict[str, Any]


class MessageEvents(Struct, forbid_unknown_fields=True, gc=False):
    """A message."""

    now: float
    events: list[TimedEvent] = []


Decode = Callable[[bytes], Any]
"""Returns a message as an object of JSON."""


def from_json(text: bytes) -> Any:
    """Return a message in JSON, which may end with a zero byte, as an object."""
    return msgspec.json.decode(text.rstrip(b"\0"))


def read_events(data: bytes, decode: Decode) -> MessageEvents:
    """Return the events of a message of a component, whose fields are not checked.

    Raises:
        BadReplyError: it does not follow the protocol.
    """
    try:
        message = msgspec.convert(decode(data), MessageEvents)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError) as error:
        raise _bad(error, "$") from None
    check_times([event.timestamp for event in message.events], message.now)
    return message


def read_message(data: bytes, decode: Decode = from_json) -> SchedulerReply:
    """Return a decoded message of a component.

    Raises:
        BadReplyError: it does not follow the protocol.
    """
    message = read_events(data, decode)
    return SchedulerReply(
        message.now,
        [
            TimedDecision(event.timestamp, _table(event, f"$.events[{place}]"))
            for place, event in enumerate(message.events)
        ],
    )


def _table(event: TimedEvent, where: str) -> Table:
    kind = _TYPES.get(event.event_type)
    if kind is None:
        name = event.event_type[:MAX_QUOTED]
        what = f"unknown event {name!r}; expected one of {', '.join(_TYPES)}"
        if name in _UNSUPPORTED:
            what = f"{name} is not supported: {_UNSUPPORTED[name]}"
        raise BadReplyError(what, f"{where}.event_type")
    try:
        return msgspec.convert(event.event, kind)
    except msgspec.ValidationError as error:
        raise _bad(error, f"{where}.event", f"{event.event_type}: ") from None


def union_of(name: str, kind: str, value: Any, types: Mapping[str, type[Table]]) -> Any:
    """Return the table of a union.

    Args:
        name: field of the union, for errors.
        types: the supported tables by name.
    """
    table = types.get(kind)
    if table is None:
        raise ValueError(f"{name}_type: expected {' or '.join(types)}, got {kind[:MAX_QUOTED]!r}")
    try:
        return msgspec.convert({} if value is None else value, table)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name}: {str(error)[:MAX_QUOTED]}") from None


def _bad(error: Exception, root: str, before: str = "") -> BadReplyError:
    what, _, path = str(error).rpartition(" - at `$")
    if not what:
        what, path = path, ""
    return BadReplyError(before + what[:MAX_QUOTED], root + path.rstrip("`")[:MAX_QUOTED])
