"""Events: facts that the server reports.

This module has the union of all events, the events that are not of a job or a node, and the kinds
of events that wake a scheduler.

The field `time_s` of each event is the simulated time at which it happened, s.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from hpcosim_protocol.requests import Id, JobRequest, Name, snake_case

PowerState = Literal["on", "switching_off", "sleeping", "switching_on"]

Placement = Literal["cores", "one_node", "whole_nodes"]
JobState = Literal[
    "completed",
    "timeout",
    "killed",
    "node_failed",
    "rejected",
    "failed",
    "cancelled",
    "preempted",
    "deadline",
]
RequeueCause = Literal["node_failed", "decision", "user"]

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


class NodePowerChanged(Struct, tag_field="type", tag=snake_case, gc=False):
    """A node entered a power state.

    The states follow in this order: `on`, `switching_off`, `sleeping`, `switching_on`, `on`.
    """

    time_s: float
    node: Id
    state: PowerState


class NodeFailed(Struct, tag_field="type", tag=snake_case, gc=False):
    """A node failed and is unavailable. The end of a job on it is a separate event."""

    time_s: float
    node: Id


class NodeDrained(Struct, tag_field="type", tag=snake_case, gc=False):
    """A node accepts no new jobs until it is repaired. Its jobs continue."""

    time_s: float
    node: Id


class NodeRepaired(Struct, tag_field="type", tag=snake_case, gc=False):
    """A node that failed or was drained is available again."""

    time_s: float
    node: Id


class JobSubmitted(Struct, tag_field="type", tag=snake_case, gc=False, omit_defaults=True):
    """A job joined the queue.

    The event has the values that the user declared; it does not have the true run time.

    Attributes:
        time_s: time of the submission, s.
        job_id: number of the job, unique in the session.
        cores: requested cores; the job runs one task on each, or on each `cores_per_task` of them.
        requested_s: requested run time, s.
        placement: `cores`: any cores on any nodes; `one_node`: all cores on one node;
            `whole_nodes`: exclusive nodes with together at least `cores` cores.
        memory_mb: requested memory for each core, MB; 0: unknown.
        memory_volume_mb: total data that each task moves to and from memory, MB; 0: unknown.
        max_energy_j: maximum estimated energy of the job, J; None: no limit.
        profile: job type, as named in the workload; empty: none.
        deadline_s: time by which the job should have ended, s; None: none. The server does not
            enforce it.
        user, group, account, qos: names of the user, of the user's group, of the account and of
            the quality of service; empty: unknown.
        partitions: names of the partitions that the user named, in this order; empty: none.
        request: what the job requires beyond cores and time; None: nothing.
        eligible: whether the job may be allocated now. If not, `job_eligible` follows when its
            begin time is reached, its dependencies are met and nobody holds it.
    """

    time_s: float
    job_id: Id
    cores: int
    requested_s: float
    placement: Placement = "cores"
    memory_mb: float = 0.0
    memory_volume_mb: float = 0.0
    max_energy_j: float | None = None
    profile: str = ""
    deadline_s: float | None = None
    user: Name = ""
    group: Name = ""
    account: Name = ""
    qos: Name = ""
    partitions: tuple[Name, ...] = ()
    request: JobRequest | None = None
    eligible: bool = True


class JobEligible(Struct, tag_field="type", tag=snake_case, gc=False):
    """A waiting job that was not eligible may be allocated now."""

    time_s: float
    job_id: Id


class JobHeld(Struct, tag_field="type", tag=snake_case, gc=False):
    """A waiting job that was eligible may no longer be allocated: somebody holds it."""

    time_s: float
    job_id: Id


class JobUpdated(Struct, tag_field="type", tag=snake_case, gc=False):
    """The user or an administrator changed a job.

    Attributes:
        time_s: time of the change, s.
        job_id: number of the job.
        requested_s: requested run time from now on, s.
        request: the request from now on; None: nothing beyond cores and time.
    """

    time_s: float
    job_id: Id
    requested_s: float
    request: JobRequest | None = None


class JobAllocated(Struct, tag_field="type", tag=snake_case, gc=False):
    """A job was allocated nodes of which at least one is not on.

    The job holds its nodes and starts when all of them are on. The time until then is waiting
    time.

    Attributes:
        time_s: time of the allocation, s.
        job_id: number of the job.
        nodes: the allocated nodes.
        cores: number of cores with tasks on each of `nodes`.
    """

    time_s: float
    job_id: Id
    nodes: list[int]
    cores: list[int]


class JobStarted(Struct, tag_field="type", tag=snake_case, gc=False, omit_defaults=True):
    """A job started. All its nodes are on.

    Attributes:
        time_s: time of the start, s.
        job_id: number of the job.
        nodes: the nodes on which it runs.
        cores: number of cores with tasks on each of `nodes`.
        gres: numbers of the devices that the job holds on each of `nodes`, by name of the resource
            (with its type); empty: none.
    """

    time_s: float
    job_id: Id
    nodes: list[int]
    cores: list[int]
    gres: list[dict[str, list[int]]] = []


class JobSuspended(Struct, tag_field="type", tag=snake_case, gc=False):
    """A running job was suspended.

    Its cores are free; it keeps its memory, its generic resources and its licences.
    """

    time_s: float
    job_id: Id


class JobResumed(Struct, tag_field="type", tag=snake_case, gc=False):
    """A suspended job runs again on its nodes."""

    time_s: float
    job_id: Id


class JobRequeued(Struct, tag_field="type", tag=snake_case, gc=False):
    """The run of a job ended before the job was over. The job waits again and is not eligible.

    `job_eligible` follows, possibly at the same time.

    Attributes:
        time_s: time of the end of the run, s.
        job_id: number of the job.
        cause: `node_failed`: one of its nodes failed; `decision`: the scheduler requeued it;
            `user`: its user or an administrator requeued it.
    """

    time_s: float
    job_id: Id
    cause: RequeueCause


class JobCompleted(Struct, tag_field="type", tag=snake_case, gc=False):
    """A job is over. The cores that it held are free.

    Attributes:
        time_s: time of the end, s.
        job_id: number of the job.
        state: `completed`: it ran to its end; `timeout`: it was killed at its requested time;
            `killed`: it was killed by a decision, possibly before it started; `node_failed`: one
            of its nodes failed; `rejected`: it was rejected by a decision and did not run;
            `failed`: it ran to its end and failed; `cancelled`: its user or an administrator
            cancelled it, or a dependency can never be met; `preempted`: it was ended in favour of
            another job; `deadline`: it could not meet its deadline.
    """

    time_s: float
    job_id: Id
    state: JobState


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
