"""Events: facts the server reports, in the past tense.

Each carries `time_s`, the simulated second at which it happened.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

Placement = Literal["cores", "one_node", "whole_nodes"]
JobState = Literal["completed", "timeout", "killed", "node_failed", "rejected"]
PowerState = Literal["on", "switching_off", "sleeping", "switching_on"]
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
]
EventKind = Literal[
    "simulation_began",
    "job_submitted",
    "job_allocated",
    "job_started",
    "job_completed",
    "alarm",
    "node_power_changed",
    "node_failed",
    "node_repaired",
    "no_more_jobs",
    "decision_rejected",
]
Id = Annotated[int, Meta(ge=0, le=2**63 - 1)]


def snake_case(class_name: str) -> str:
    """Return the name on the wire of a message class: `JobStarted` is `job_started`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()


class SimulationBegan(Struct, tag_field="type", tag=snake_case, gc=False):
    """The clock stands at the workload's first submission."""

    time_s: float


class JobSubmitted(Struct, tag_field="type", tag=snake_case, gc=False, omit_defaults=True):
    """A job joined the queue. It says what its user declared, never its true run time.

    Attributes:
        time_s: when it was submitted.
        job_id: its number, unique in the session.
        cores: cores it asks for, one task each.
        requested_s: run time its user asked for.
        placement: `cores`: any cores on any nodes; `one_node`: all cores on one node;
            `whole_nodes`: as many nodes as hold `cores`, each for this job alone.
        memory_mb: memory each task asks for, MB; 0: not told.
        memory_volume_mb: data each task moves to and from memory in all, MB; 0: not told.
        max_energy_j: most energy the job may cost by estimate; absent: any.
        profile: the kind of job, as the workload names it.
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


class JobAllocated(Struct, tag_field="type", tag=snake_case, gc=False):
    """A job was given nodes of which some are not on yet; it starts when the last of them is.

    It holds them until then. That time is wait, not run time.

    Attributes:
        time_s: when.
        job_id: which job.
        nodes: the nodes it will run on.
        cores: how many of its tasks on each of `nodes`.
    """

    time_s: float
    job_id: Id
    nodes: list[int]
    cores: list[int]


class JobStarted(Struct, tag_field="type", tag=snake_case, gc=False):
    """A job started to run.

    Attributes:
        time_s: when.
        job_id: which job.
        nodes: the nodes it runs on.
        cores: how many of its tasks run on each of `nodes`.
    """

    time_s: float
    job_id: Id
    nodes: list[int]
    cores: list[int]


class JobCompleted(Struct, tag_field="type", tag=snake_case, gc=False):
    """A job is over and its nodes are free again.

    Attributes:
        time_s: when.
        job_id: which job.
        state: `completed`: it ran to its end; `timeout`: killed at its requested time;
            `killed`: killed by a decision, perhaps before it started; `node_failed`: a node under
            it failed; `rejected`: it never ran, by a decision.
    """

    time_s: float
    job_id: Id
    state: JobState


class Alarm(Struct, tag_field="type", tag=snake_case, gc=False):
    """An alarm the scheduler had set went off."""

    time_s: float
    alarm_id: Id


class NodePowerChanged(Struct, tag_field="type", tag=snake_case, gc=False):
    """A node entered a power state.

    It goes from `on` through `switching_off` to `sleeping`, and through `switching_on` back; in no
    other order.
    """

    time_s: float
    node: Id
    state: PowerState


class NodeFailed(Struct, tag_field="type", tag=snake_case, gc=False):
    """A node can't be used any more; a job on it is over, and an event of its own says so."""

    time_s: float
    node: Id


class NodeRepaired(Struct, tag_field="type", tag=snake_case, gc=False):
    """A failed node can be used again."""

    time_s: float
    node: Id


class NoMoreJobs(Struct, tag_field="type", tag=snake_case, gc=False):
    """The last job of the workload has been submitted."""

    time_s: float


class DecisionRejected(Struct, tag_field="type", tag=snake_case, gc=False):
    """A decision could not be carried out, and nothing of it was.

    Attributes:
        time_s: when.
        seq: the message the decision came in.
        index: its place in that message, from 0.
        decision: its type.
        code: the reason, for programs.
        reason: the reason, for people.
        job_id: the job it was about, if any.
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
    | JobAllocated
    | JobStarted
    | JobCompleted
    | Alarm
    | NodePowerChanged
    | NodeFailed
    | NodeRepaired
    | NoMoreJobs
    | DecisionRejected
)

# What wakes a scheduler that does not say what should: all but `job_allocated` and `job_started`,
# which only confirm what it decided itself.
DEFAULT_WAKE_ON: frozenset[EventKind] = frozenset(
    {
        "simulation_began",
        "job_submitted",
        "job_completed",
        "node_power_changed",
        "node_failed",
        "node_repaired",
        "no_more_jobs",
    }
)
# What wakes every scheduler: it asked for the one, and would wait in vain after the other.
ALWAYS_WAKE_ON: frozenset[EventKind] = frozenset({"alarm", "decision_rejected"})
