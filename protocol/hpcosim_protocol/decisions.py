"""Decisions: requests of the scheduler to change the simulation.

The server executes the decisions of a request at its current time, in the order given, each
completely or not at all.
"""

from __future__ import annotations

import re

from msgspec import Struct

from hpcosim_protocol.events import Id, Placement, PowerState, snake_case

REASON = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
"""Form of the reason of an explanation."""


class AllocateJob(Struct, tag_field="type", tag=snake_case, gc=False):
    """Allocate nodes to a waiting job. The job starts when all of them are on.

    Attributes:
        job_id: number of the job.
        nodes: node numbers, each at most once.
        cores: number of tasks on each of `nodes`; empty: the server fills the nodes in the order
            given with as many tasks as each has free cores.
    """

    job_id: Id
    nodes: list[int]
    cores: list[int] = []


class RejectJob(Struct, tag_field="type", tag=snake_case, gc=False):
    """Reject a waiting job. The job is over."""

    job_id: Id


class KillJob(Struct, tag_field="type", tag=snake_case, gc=False):
    """Kill a job that runs or is allocated."""

    job_id: Id


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
        reason: name of the reason, such as `Resources`; see section 5.9 of the specification.
        expected_start_s: expected start of the job, simulated s, not before now; None: unknown.
    """

    job_id: Id
    reason: str
    expected_start_s: float | None = None


Decision = (
    AllocateJob | RejectJob | KillJob | SetNodePower | SetAlarm | CancelAlarm | SubmitJob | Explain
)
