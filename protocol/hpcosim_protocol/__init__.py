"""Messages between simulator and scheduler, their codec, and the model of the specification.

The specification is `specification.md` in this folder.

Example:
    >>> from hpcosim_protocol import Bye, decode_client_message, encode
    >>> decode_client_message(encode(Bye(session="0123")))
    Bye(session='0123')
"""

from hpcosim_protocol.codec import decode_client_message, decode_server_message, encode
from hpcosim_protocol.decisions import (
    AllocateJob,
    CancelAlarm,
    Decision,
    KillJob,
    RejectJob,
    SetAlarm,
    SetNodePower,
    SubmitJob,
)
from hpcosim_protocol.errors import DecodeError, ProtocolError, UnsupportedVersionError
from hpcosim_protocol.events import (
    ALWAYS_WAKE_ON,
    DEFAULT_WAKE_ON,
    Alarm,
    DecisionRejected,
    Event,
    EventKind,
    JobAllocated,
    JobCompleted,
    JobStarted,
    JobState,
    JobSubmitted,
    NodeFailed,
    NodePowerChanged,
    NodeRepaired,
    NoMoreJobs,
    Placement,
    PowerState,
    RejectionCode,
    SimulationBegan,
)
from hpcosim_protocol.messages import (
    PROTOCOL_EDITION,
    PROTOCOL_VERSION,
    Bye,
    ClientMessage,
    Decisions,
    Error,
    ErrorCode,
    Events,
    Goodbye,
    Hello,
    Options,
    ServerMessage,
    SimulationEnded,
    Welcome,
)
from hpcosim_protocol.model import bandwidth_mbps, energy_estimate_j, task_speed
from hpcosim_protocol.platform import Contention, NodeGroup, Platform, PowerStates, Processor

__all__ = [
    "ALWAYS_WAKE_ON",
    "DEFAULT_WAKE_ON",
    "PROTOCOL_EDITION",
    "PROTOCOL_VERSION",
    "Alarm",
    "AllocateJob",
    "Bye",
    "CancelAlarm",
    "ClientMessage",
    "Contention",
    "Decision",
    "DecisionRejected",
    "Decisions",
    "DecodeError",
    "Error",
    "ErrorCode",
    "Event",
    "EventKind",
    "Events",
    "Goodbye",
    "Hello",
    "JobAllocated",
    "JobCompleted",
    "JobStarted",
    "JobState",
    "JobSubmitted",
    "KillJob",
    "NoMoreJobs",
    "NodeFailed",
    "NodeGroup",
    "NodePowerChanged",
    "NodeRepaired",
    "Options",
    "Placement",
    "Platform",
    "PowerState",
    "PowerStates",
    "Processor",
    "ProtocolError",
    "RejectJob",
    "RejectionCode",
    "ServerMessage",
    "SetAlarm",
    "SetNodePower",
    "SimulationBegan",
    "SimulationEnded",
    "SubmitJob",
    "UnsupportedVersionError",
    "Welcome",
    "bandwidth_mbps",
    "decode_client_message",
    "decode_server_message",
    "encode",
    "energy_estimate_j",
    "task_speed",
]
