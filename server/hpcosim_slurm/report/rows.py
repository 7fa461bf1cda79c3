"""Each job of a session with its run as the scheduler decided and its real run."""

from __future__ import annotations

import math
from typing import NamedTuple

from hpcosim_protocol import JobState, Platform, PowerState
from hpcosim_workloads.table import JobSpec


class OneRun(NamedTuple):
    """A run of a job.

    Attributes:
        start_s: its start, Unix time, s; NaN: the job has not started.
        end_s: end of the job, Unix time, s; NaN: it is not over.
        nodes: numbers of its nodes.
        tasks: number of its cores on each node.
        state: its final state; None: it is not over.
    """

    start_s: float = math.nan
    end_s: float = math.nan
    nodes: tuple[int, ...] = ()
    tasks: tuple[int, ...] = ()
    state: JobState | None = None

    @property
    def has_started(self) -> bool:
        """Whether the job has started."""
        return not math.isnan(self.start_s)


class JobRow(NamedTuple):
    """A job with both of its runs. Of a job that was requeued, the last run counts.

    Attributes:
        spec: the job.
        was_running: whether it ran already when the session began, or is of another partition, so
            that nobody decided on it.
        shadow: its run as the scheduler decided, to its exact end: the start and the real run time.
            In mode shadow that is its run in the copy of the cluster.
        real: its real run.
    """

    spec: JobSpec
    was_running: bool
    shadow: OneRun
    real: OneRun


class PowerChange(NamedTuple):
    """A change of the power state of a node.

    Attributes:
        at_s: Unix time, s.
        node: number of the node.
        state: the state from then on.
    """

    at_s: float
    node: int
    state: PowerState


class Said(NamedTuple):
    """What the scheduler said of a waiting job (`explain`).

    Attributes:
        job_id: the job.
        at_s: Unix time, s.
        reason: why the job waits.
        expected_s: expected start, Unix time, s; NaN: unknown.
    """

    job_id: int
    at_s: float
    reason: str
    expected_s: float


class SessionRows(NamedTuple):
    """Everything that a report needs of a session.

    Attributes:
        scheduler: name of the scheduler.
        cluster: name of the cluster.
        platform: the cluster; all nodes can be off.
        start_s, end_s: begin and end of the session, Unix time, s.
        rows: the jobs, in order of submission.
        real_power, shadow_power: changes of power states in reality and in the shadow.
        decisions: number of decisions of the scheduler.
        requests: number of its requests.
        not_copied: number of jobs that ran at the start and could not be copied.
        said: what the scheduler said of waiting jobs, in order.
    """

    scheduler: str
    cluster: str
    platform: Platform
    start_s: float
    end_s: float
    rows: list[JobRow]
    real_power: list[PowerChange]
    shadow_power: list[PowerChange]
    decisions: int
    requests: int
    not_copied: int
    said: list[Said]
