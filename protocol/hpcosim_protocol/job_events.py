"""Events of jobs: from the submission to the end.

The field `time_s` of each event is the simulated time at which it happened, s.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from hpcosim_protocol.requests import Id, JobRequest, Name
from hpcosim_protocol.tags import snake_case

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
