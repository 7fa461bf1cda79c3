"""Decisions: requests of the scheduler to change the simulation.

The server executes the decisions of a request at its current time, in the order given, each
completely or not at all.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hpcosim_protocol.events import Placement, PowerState
from hpcosim_protocol.requests import Id, Seconds, snake_case

RejectedAs = Literal["rejected", "cancelled", "deadline"]
"""Final state of a waiting job that a decision ends."""

KilledAs = Literal["killed", "timeout", "preempted", "cancelled", "deadline"]
"""Final state of a running job that a decision ends."""

REASON = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
"""Form of the reason of an explanation."""


class AllocateJob(Struct, tag_field="type", tag=snake_case, gc=False, omit_defaults=True):
    """Allocate nodes to a waiting job. The job starts when all of them are on.

    Attributes:
        job_id: number of the job.
        nodes: node numbers, each at most once.
        cores: number of cores for tasks on each of `nodes`; empty: the server fills the nodes in
            the order given with as many tasks as fit on each.
        gres: numbers of the devices to hold on each of `nodes`, by name of the resource (with its
            type); empty: the server chooses devices of the job's request.
    """

    job_id: Id
    nodes: list[int]
    cores: list[int] = []
    gres: list[dict[str, list[int]]] = []


class RejectJob(Struct, tag_field="type", tag=snake_case, gc=False, omit_defaults=True):
    """End a waiting job. It need not be eligible.

    Attributes:
        job_id: number of the job.
        state: final state of the job.
        reason: reason, for people; empty: none.
        at_end: whether the job goes on waiting, and ends only when nothing can start it any more.
    """

    job_id: Id
    state: RejectedAs = "rejected"
    reason: Annotated[str, Meta(max_length=200)] = ""
    at_end: bool = False


class KillJob(Struct, tag_field="type", tag=snake_case, gc=False, omit_defaults=True):
    """Kill a job that runs, is suspended or is allocated.

    Attributes:
        job_id: number of the job.
        grace_s: time for which the job goes on, s. If it ends in this time, it ends as usual.
        state: final state of the job.
    """

    job_id: Id
    grace_s: Seconds = 0.0
    state: KilledAs = "killed"


class RequeueJob(Struct, tag_field="type", tag=snake_case, gc=False, omit_defaults=True):
    """End the run of a job and let the job wait again.

    The work since the last checkpoint is lost; without checkpoints, all work.

    Attributes:
        job_id: number of the job, which permits it (`JobRequest.requeue`).
        begin_s: earliest time at which the job is eligible again, s; None: now.
        grace_s: time for which the run goes on, s.
    """

    job_id: Id
    begin_s: float | None = None
    grace_s: Seconds = 0.0


class SuspendJob(Struct, tag_field="type", tag=snake_case, gc=False):
    """Suspend a running job.

    It frees its cores and keeps its memory, generic resources and licences. Suspended time counts
    neither as run time nor for the time limit.
    """

    job_id: Id


class ResumeJob(Struct, tag_field="type", tag=snake_case, gc=False):
    """Resume a suspended job on its nodes, whose cores are free again."""

    job_id: Id


class SetCheckpoint(Struct, tag_field="type", tag=snake_case, gc=False):
    """Set the checkpoint interval of a waiting job that has `JobRequest.checkpointing`.

    Attributes:
        job_id: number of the job.
        interval_s: computing time between two checkpoints, s; above 0.
    """

    job_id: Id
    interval_s: float


class SetNodePower(Struct, tag_field="type", tag=snake_case, gc=False):
    """Start to switch a node on or off.

    The transition takes time and cannot be interrupted.

    Attributes:
        node: number of the node.
        state: target state, `on` or `sleeping`.
    """

    node: Id
    state: PowerState


class SetAlarm(Struct, tag_field="type", tag=snake_case, gc=False):
    """Set an alarm. It replaces an alarm of the same number.

    Attributes:
        at_s: simulated time of the alarm, s; after now.
        alarm_id: number of the alarm, chosen by the scheduler.
    """

    at_s: float
    alarm_id: Id = 0


class CancelAlarm(Struct, tag_field="type", tag=snake_case, gc=False):
    """Cancel an alarm."""

    alarm_id: Id = 0


class SubmitJob(Struct, tag_field="type", tag=snake_case, gc=False):
    """Submit a new job now. The option `dynamic_jobs` of the scenario allows this decision.

    Attributes:
        job_id: number of the job; no other job of the session has it.
        cores: requested cores.
        run_s: true run time, s.
        requested_s: requested run time, s; None: the true run time.
        placement: as in `JobSubmitted`.
    """

    job_id: Id
    cores: int
    run_s: float
    requested_s: float | None = None
    placement: Placement = "cores"


class Explain(Struct, tag_field="type", tag=snake_case, gc=False):
    """State why a waiting job waits. It has no effect on the simulation.

    The option `explain` of the session allows this decision.

    Attributes:
        job_id: number of the job.
        reason: name of the reason, such as `Resources`; see section 11.3 of the specification.
        expected_start_s: expected start of the job, simulated s, not before now; None: unknown.
    """

    job_id: Id
    reason: str
    expected_start_s: float | None = None


Decision = (
    AllocateJob
    | RejectJob
    | KillJob
    | RequeueJob
    | SuspendJob
    | ResumeJob
    | SetCheckpoint
    | SetNodePower
    | SetAlarm
    | CancelAlarm
    | SubmitJob
    | Explain
)
