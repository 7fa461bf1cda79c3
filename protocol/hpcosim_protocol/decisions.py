"""Decisions: what a scheduler asks for, in the imperative.

They take effect at the server's `now`, in the order given, each wholly or not at all.
"""

from __future__ import annotations

from msgspec import Struct

from hpcosim_protocol.events import Id, Placement, PowerState, snake_case


class AllocateJob(Struct, tag_field="type", tag=snake_case, gc=False):
    """Give these nodes to a waiting job; it starts once they are all on.

    Attributes:
        job_id: the job.
        nodes: node numbers, each once.
        cores: how many of the job's tasks go on each of `nodes`; empty: the nodes are filled
            in the order given, each as far as it has free cores.
    """

    job_id: Id
    nodes: list[int]
    cores: list[int] = []


class RejectJob(Struct, tag_field="type", tag=snake_case, gc=False):
    """Turn a waiting job away for good."""

    job_id: Id


class KillJob(Struct, tag_field="type", tag=snake_case, gc=False):
    """End a job now that runs, or waits for its nodes to be on."""

    job_id: Id


class SetNodePower(Struct, tag_field="type", tag=snake_case, gc=False):
    """Switch a node on or off: bring it to the power state `on` or `sleeping`.

    It is in a transition first, which can't be interrupted.
    """

    node: Id
    state: PowerState


class SetAlarm(Struct, tag_field="type", tag=snake_case, gc=False):
    """Wake me at this time; an alarm of the same number is replaced.

    Attributes:
        at_s: simulated second, after now.
        alarm_id: a number of the scheduler's choice.
    """

    at_s: float
    alarm_id: Id = 0


class CancelAlarm(Struct, tag_field="type", tag=snake_case, gc=False):
    """Forget an alarm."""

    alarm_id: Id = 0


class SubmitJob(Struct, tag_field="type", tag=snake_case, gc=False):
    """Add a job to the workload, submitted now; the scenario must allow it.

    Attributes:
        job_id: a number no job of the session has had.
        cores: cores it asks for.
        run_s: its true run time, seconds.
        requested_s: the run time asked for; absent: the true one.
        placement: see `JobSubmitted`.
    """

    job_id: Id
    cores: int
    run_s: float
    requested_s: float | None = None
    placement: Placement = "cores"


Decision = AllocateJob | RejectJob | KillJob | SetNodePower | SetAlarm | CancelAlarm | SubmitJob
