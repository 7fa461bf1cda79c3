"""Events: facts that the server reports.

This module has the union of all events, the events that are not of a job or a node, and the kinds
of events that wake a scheduler.

The field `time_s` of each event is the simulated time at which it happened, s.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from hpcosim_protocol.job_events import (
    JobAllocated,
    JobCompleted,
    JobEligible,
    JobHeld,
    JobRequeued,
    JobResumed,
    JobStarted,
    JobSubmitted,
    JobSuspended,
    JobUpdated,
)
from hpcosim_protocol.node_events import NodeDrained, NodeFailed, NodePowerChanged, NodeRepaired
from hpcosim_protocol.requests import Id
from hpcosim_protocol.tags import snake_case

RejectionCode = Literal[
    "unknown_job",
    "job_not_waiting",
    "job_not_running",
    "job_exists",
    "unknown_node",
    "node_busy",
    "bad_allocation",
    "bad_time",
    "unknown_alarm",
    "bad_job",
    "not_allowed",
    "wrong_power_state",
    "bad_reason",
    "job_not_eligible",
    "job_not_suspended",
    "not_requeueable",
    "node_unavailable",
    "reserved",
    "insufficient_memory",
    "insufficient_gres",
    "insufficient_licenses",
    "constraint_violated",
]
EventKind = Literal[
    "simulation_began",
    "job_submitted",
    "job_eligible",
    "job_held",
    "job_updated",
    "job_allocated",
    "job_started",
    "job_suspended",
    "job_resumed",
    "job_requeued",
    "job_completed",
    "alarm",
    "node_power_changed",
    "signal_changed",
    "node_failed",
    "node_drained",
    "node_repaired",
    "no_more_jobs",
    "decision_rejected",
]
MAX_FORECAST = 1000
"""Maximum number of changes in the forecast of a signal."""


class SimulationBegan(Struct, tag_field="type", tag=snake_case, gc=False):
    """The simulation began, at the time of the first submission of the workload."""

    time_s: float


class Alarm(Struct, tag_field="type", tag=snake_case, gc=False):
    """An alarm of the scheduler went off. It is no longer set."""

    time_s: float
    alarm_id: Id


class SignalChanged(Struct, tag_field="type", tag=snake_case, gc=False):
    """A signal has a new value or a new forecast.

    Attributes:
        time_s: time of the event, s.
        name: name of the signal, such as `co2_g_per_kwh`, `price_per_kwh` or `power_cap_w`.
        value: value from now on, in the unit of the signal.
        forecast: the next changes, at most `MAX_FORECAST`: time, s, and value from then on. The
            times are after `time_s` and ascending.
    """

    time_s: float
    name: Annotated[str, Meta(max_length=200)]
    value: float
    forecast: Annotated[list[tuple[float, float]], Meta(max_length=MAX_FORECAST)] = []


class NoMoreJobs(Struct, tag_field="type", tag=snake_case, gc=False):
    """The last job of the workload was submitted."""

    time_s: float


class DecisionRejected(Struct, tag_field="type", tag=snake_case, gc=False):
    """The server rejected a decision. The decision had no effect.

    Attributes:
        time_s: time of the rejection, s.
        seq: `seq` of the request that contained the decision.
        index: position of the decision in that request, from 0.
        decision: type of the decision.
        code: reason, for programs.
        reason: reason, for people.
        job_id: number of the job of the decision; None: the decision names no job.
    """

    time_s: float
    seq: int
    index: int
    decision: str
    code: RejectionCode
    reason: str
    job_id: int | None = None


Event = (
    SimulationBegan
    | JobSubmitted
    | JobEligible
    | JobHeld
    | JobUpdated
    | JobAllocated
    | JobStarted
    | JobSuspended
    | JobResumed
    | JobRequeued
    | JobCompleted
    | Alarm
    | NodePowerChanged
    | SignalChanged
    | NodeFailed
    | NodeDrained
    | NodeRepaired
    | NoMoreJobs
    | DecisionRejected
)

DEFAULT_WAKE_ON: frozenset[EventKind] = frozenset(
    {
        "simulation_began",
        "job_submitted",
        "job_eligible",
        "job_held",
        "job_updated",
        "job_requeued",
        "job_completed",
        "node_power_changed",
        "signal_changed",
        "node_failed",
        "node_drained",
        "node_repaired",
        "no_more_jobs",
    }
)
"""Event kinds that wake a scheduler whose request has no `wake_on`.

`job_allocated`, `job_started`, `job_suspended` and `job_resumed` are absent: as a rule they only
confirm decisions of the scheduler.
"""

WORKLOAD_MANAGER_EVENTS: frozenset[EventKind] = frozenset(
    {
        "job_eligible",
        "job_held",
        "job_updated",
        "job_suspended",
        "job_resumed",
        "job_requeued",
        "node_drained",
    }
)
"""Event kinds that only sessions with the option `workload_manager` have.

A client must not name them in `wake_on` without the option: a server without the extension rejects
them.
"""

ALWAYS_WAKE_ON: frozenset[EventKind] = frozenset({"alarm", "decision_rejected"})
"""Event kinds that wake the scheduler for any `wake_on`.

The scheduler requested the alarm. After a rejection it could wait for an effect that never comes.
"""
