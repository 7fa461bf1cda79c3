"""Messages between simulator and scheduler, their codec, and the model of the specification.

The specification is `specification.md` in this folder.

Example:
    >>> from hpcosim_protocol import Bye, decode_client_message, encode
    >>> decode_client_message(encode(Bye(session="0123")))
    Bye(session='0123')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol.lazy_names import lazy_names

if TYPE_CHECKING:
    from hpcosim_protocol.client_messages import Bye as Bye
    from hpcosim_protocol.client_messages import ClientMessage as ClientMessage
    from hpcosim_protocol.client_messages import Decisions as Decisions
    from hpcosim_protocol.client_messages import GetHistory as GetHistory
    from hpcosim_protocol.client_messages import GetStatus as GetStatus
    from hpcosim_protocol.client_messages import Hello as Hello
    from hpcosim_protocol.codec import PROTOCOL_VERSION as PROTOCOL_VERSION
    from hpcosim_protocol.codec import decode_client_message as decode_client_message
    from hpcosim_protocol.codec import decode_server_message as decode_server_message
    from hpcosim_protocol.codec import encode as encode
    from hpcosim_protocol.decisions import REASON as REASON
    from hpcosim_protocol.decisions import AllocateJob as AllocateJob
    from hpcosim_protocol.decisions import CancelAlarm as CancelAlarm
    from hpcosim_protocol.decisions import Decision as Decision
    from hpcosim_protocol.decisions import Explain as Explain
    from hpcosim_protocol.decisions import KillJob as KillJob
    from hpcosim_protocol.decisions import RejectJob as RejectJob
    from hpcosim_protocol.decisions import RequeueJob as RequeueJob
    from hpcosim_protocol.decisions import ResumeJob as ResumeJob
    from hpcosim_protocol.decisions import SetAlarm as SetAlarm
    from hpcosim_protocol.decisions import SetCheckpoint as SetCheckpoint
    from hpcosim_protocol.decisions import SetNodePower as SetNodePower
    from hpcosim_protocol.decisions import SubmitJob as SubmitJob
    from hpcosim_protocol.decisions import SuspendJob as SuspendJob
    from hpcosim_protocol.errors import DecodeError as DecodeError
    from hpcosim_protocol.errors import FeatureError as FeatureError
    from hpcosim_protocol.errors import HostListError as HostListError
    from hpcosim_protocol.errors import ProtocolError as ProtocolError
    from hpcosim_protocol.errors import ResourceError as ResourceError
    from hpcosim_protocol.errors import UnsupportedVersionError as UnsupportedVersionError
    from hpcosim_protocol.events import ALWAYS_WAKE_ON as ALWAYS_WAKE_ON
    from hpcosim_protocol.events import DEFAULT_WAKE_ON as DEFAULT_WAKE_ON
    from hpcosim_protocol.events import MAX_FORECAST as MAX_FORECAST
    from hpcosim_protocol.events import WORKLOAD_MANAGER_EVENTS as WORKLOAD_MANAGER_EVENTS
    from hpcosim_protocol.events import Alarm as Alarm
    from hpcosim_protocol.events import DecisionRejected as DecisionRejected
    from hpcosim_protocol.events import Event as Event
    from hpcosim_protocol.events import EventKind as EventKind
    from hpcosim_protocol.events import JobAllocated as JobAllocated
    from hpcosim_protocol.events import JobCompleted as JobCompleted
    from hpcosim_protocol.events import JobEligible as JobEligible
    from hpcosim_protocol.events import JobHeld as JobHeld
    from hpcosim_protocol.events import JobRequeued as JobRequeued
    from hpcosim_protocol.events import JobResumed as JobResumed
    from hpcosim_protocol.events import JobStarted as JobStarted
    from hpcosim_protocol.events import JobState as JobState
    from hpcosim_protocol.events import JobSubmitted as JobSubmitted
    from hpcosim_protocol.events import JobSuspended as JobSuspended
    from hpcosim_protocol.events import JobUpdated as JobUpdated
    from hpcosim_protocol.events import NodeDrained as NodeDrained
    from hpcosim_protocol.events import NodeFailed as NodeFailed
    from hpcosim_protocol.events import NodePowerChanged as NodePowerChanged
    from hpcosim_protocol.events import NodeRepaired as NodeRepaired
    from hpcosim_protocol.events import NoMoreJobs as NoMoreJobs
    from hpcosim_protocol.events import Placement as Placement
    from hpcosim_protocol.events import PowerState as PowerState
    from hpcosim_protocol.events import RejectionCode as RejectionCode
    from hpcosim_protocol.events import SignalChanged as SignalChanged
    from hpcosim_protocol.events import SimulationBegan as SimulationBegan
    from hpcosim_protocol.platform import Contention as Contention
    from hpcosim_protocol.platform import NodeGroup as NodeGroup
    from hpcosim_protocol.platform import NodeReservation as NodeReservation
    from hpcosim_protocol.platform import Partition as Partition
    from hpcosim_protocol.platform import Platform as Platform
    from hpcosim_protocol.platform import PowerStates as PowerStates
    from hpcosim_protocol.platform import Processor as Processor
    from hpcosim_protocol.platform import Switch as Switch
    from hpcosim_protocol.platform import bandwidth_mbps as bandwidth_mbps
    from hpcosim_protocol.platform import energy_estimate_j as energy_estimate_j
    from hpcosim_protocol.platform import task_speed as task_speed
    from hpcosim_protocol.requests import Checkpointing as Checkpointing
    from hpcosim_protocol.requests import Dependency as Dependency
    from hpcosim_protocol.requests import JobRequest as JobRequest
    from hpcosim_protocol.server_messages import Error as Error
    from hpcosim_protocol.server_messages import ErrorCode as ErrorCode
    from hpcosim_protocol.server_messages import Events as Events
    from hpcosim_protocol.server_messages import Exchange as Exchange
    from hpcosim_protocol.server_messages import Goodbye as Goodbye
    from hpcosim_protocol.server_messages import Held as Held
    from hpcosim_protocol.server_messages import History as History
    from hpcosim_protocol.server_messages import Options as Options
    from hpcosim_protocol.server_messages import ServerMessage as ServerMessage
    from hpcosim_protocol.server_messages import ServerStatus as ServerStatus
    from hpcosim_protocol.server_messages import SessionStatus as SessionStatus
    from hpcosim_protocol.server_messages import SimulationEnded as SimulationEnded
    from hpcosim_protocol.server_messages import Welcome as Welcome

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "client_messages": "Bye ClientMessage Decisions GetHistory GetStatus Hello",
        "codec": "PROTOCOL_VERSION decode_client_message decode_server_message encode",
        "decisions": (
            "AllocateJob CancelAlarm Decision Explain KillJob REASON RejectJob RequeueJob "
            "ResumeJob SetAlarm SetCheckpoint SetNodePower SubmitJob SuspendJob"
        ),
        "errors": (
            "DecodeError FeatureError HostListError ProtocolError ResourceError "
            "UnsupportedVersionError"
        ),
        "events": (
            "ALWAYS_WAKE_ON Alarm DEFAULT_WAKE_ON DecisionRejected Event EventKind JobAllocated "
            "JobCompleted JobEligible JobHeld JobRequeued JobResumed JobStarted JobState "
            "JobSubmitted JobSuspended JobUpdated MAX_FORECAST NoMoreJobs NodeDrained NodeFailed "
            "NodePowerChanged NodeRepaired Placement PowerState RejectionCode SignalChanged "
            "SimulationBegan WORKLOAD_MANAGER_EVENTS"
        ),
        "platform": (
            "Contention NodeGroup NodeReservation Partition Platform PowerStates Processor Switch "
            "bandwidth_mbps energy_estimate_j task_speed"
        ),
        "requests": "Checkpointing Dependency JobRequest",
        "server_messages": (
            "Error ErrorCode Events Exchange Goodbye Held History Options ServerMessage "
            "ServerStatus SessionStatus SimulationEnded Welcome"
        ),
    },
)
