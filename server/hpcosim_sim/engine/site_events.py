"""What happens to jobs and nodes without the scheduler: by users, administrators and failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NodeChangeKind = Literal["fail", "drain", "repair"]
JobActionKind = Literal["cancel", "hold", "release", "requeue", "suspend", "resume", "update"]
DistributionKind = Literal["constant", "exponential", "weibull", "lognormal"]


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A change of the availability of nodes at a given time.

    Attributes:
        kind: `fail`: the nodes fail, and jobs on them end or are requeued; `drain`: they accept no
            new jobs; `repair`: they are available again.
    """

    at_s: float
    nodes: tuple[int, ...]
    kind: NodeChangeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAction:
    """Something that a user or an administrator does to a job at a given time.

    Attributes:
        job_id: number of the job. The action has no effect if the job is over or in a state that
            does not permit the action; the recording counts such actions.
        kind: the action. `requeue` with `hold` also holds the job. A `resume` waits until the
            cores of the job are free and reservations permit the rest of its requested time;
            another `suspend` revokes it.
        hold: see `kind`.
        begin_s: with `requeue` and `update`: earliest start, s; None: unchanged.
        requested_s, priority, nice, array_limit: with `update`: new value; None: unchanged. A new
            array limit holds for the whole array.
    """

    at_s: float
    job_id: int
    kind: JobActionKind
    hold: bool = False
    begin_s: float | None = None
    requested_s: float | None = None
    priority: int | None = None
    nice: int | None = None
    array_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of times.

    Attributes:
        kind: the family; `constant`: always the mean.
        mean_s: mean, s; above 0.
        shape: shape of a Weibull distribution, or standard deviation of the logarithm of a
            lognormal one; above 0.
    """

    kind: DistributionKind
    mean_s: float
    shape: float = 1.0


@dataclass(frozen=True, slots=True)
class FailureModel:
    """Random failures and repairs of nodes, each node independent of the others.

    Attributes:
        until_failure: time from the begin or the last repair to the next failure.
        until_repair: time from a failure to the repair.
    """

    nodes: tuple[int, ...]
    until_failure: Distribution
    until_repair: Distribution


@dataclass(frozen=True, slots=True)
class SiteEvents:
    """Everything that happens without the scheduler.

    Attributes:
        node_changes: changes of nodes; of any order.
        job_actions: actions on jobs; of any order.
    """

    node_changes: tuple[NodeChange, ...] = ()
    job_actions: tuple[JobAction, ...] = ()
    failure_models: tuple[FailureModel, ...] = ()


NO_SITE_EVENTS = SiteEvents()
