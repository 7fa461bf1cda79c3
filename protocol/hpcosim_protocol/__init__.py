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
    from hpcosim_protocol.client_messages import *  # noqa: F403
    from hpcosim_protocol.codec import *  # noqa: F403
    from hpcosim_protocol.decisions import *  # noqa: F403
    from hpcosim_protocol.errors import *  # noqa: F403
    from hpcosim_protocol.events import *  # noqa: F403
    from hpcosim_protocol.platform import *  # noqa: F403
    from hpcosim_protocol.requests import *  # noqa: F403
    from hpcosim_protocol.server_messages import *  # noqa: F403

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
