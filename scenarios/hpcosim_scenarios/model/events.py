"""Events of a scenario that no scheduler decides: failures of nodes, and actions on jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hpcosim_protocol.hosts import NodeNames
from hpcosim_protocol.node_access import numbers_in
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.host_lists import ranges
from hpcosim_scenarios.model.messages import Seconds
from hpcosim_sim.engine.site_events import Distribution, FailureModel, JobAction, NodeChange
from hpcosim_workloads.logs.quantities import Reference, parse_reference
from hpcosim_workloads.table import JobTable

Time = Annotated[float, Meta(ge=-1e12, le=1e12)]
Hosts = Annotated[str, Meta(min_length=1, max_length=100_000)]
Shape = Annotated[float, Meta(ge=0.05, le=10)]

FIELD = "$.failures"
SHAPED = ("weibull", "lognormal")


JobNumber = Annotated[int, Meta(ge=0, le=2**63 - 1)] | Annotated[str, Meta(max_length=100)]

ACTIONS = "$.actions"
ATTRIBUTES = {
    "hold": ("requeue",),
    "begin_s": ("requeue", "update"),
    **dict.fromkeys(("requested_s", "priority", "nice", "array_limit"), ("update",)),
}
"""Attributes of actions, and the kinds that they apply to."""


class NodeEvent(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A failure, a drain or a repair of nodes at a given time.

    Attributes:
        at_s: simulation time, s.
        nodes: the nodes, as a host list such as `n[1-4],b1`, or `ALL`. A node without a name has
            its number as name.
        kind: `fail`: the nodes fail; jobs on them are requeued if they allow it, and end otherwise.
            `drain`: the nodes accept no new jobs. `repair`: the nodes are available again.
        repair_after_s: time from a failure or drain to the repair, s. Null: no repair, unless
            another entry states one.
    """

    at_s: Time
    nodes: Hosts
    kind: Literal["fail", "drain", "repair"] = "fail"
    repair_after_s: Seconds | None = None

    def __post_init__(self) -> None:
        if self.kind == "repair" and self.repair_after_s is not None:
            raise ValueError("repair_after_s applies to fail and drain; remove it")


class Times(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A distribution of times.

    Attributes:
        distribution: the family; `constant`: always the mean.
        mean_s: mean, s.
        shape: shape of a Weibull distribution (below 1: failures come in bursts), or standard
            deviation of the logarithm of a lognormal one. The other families have none.
    """

    distribution: Literal["constant", "exponential", "weibull", "lognormal"] = "exponential"
    mean_s: Annotated[float, Meta(ge=1, le=1e12)]
    shape: Shape | None = None

    def __post_init__(self) -> None:
        needed = self.distribution in SHAPED
        if needed and self.shape is None:
            raise ValueError(f"{self.distribution} needs shape; add it")
        if not needed and self.shape is not None:
            raise ValueError(f"shape applies to {' and '.join(SHAPED)}; remove it")


class RandomFailures(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Random failures and repairs; each node fails independently of the others.

    Attributes:
        nodes: the nodes, as for `failures.events`.
        until_failure: time from the begin, or from the last repair, to the next failure.
        until_repair: time from a failure to the repair.
    """

    nodes: Hosts = "ALL"
    until_failure: Times
    until_repair: Times


class Failures(Struct, frozen=True, forbid_unknown_fields=True):
    """Failures, drains and repairs of nodes. A failed node draws no power until its repair.

    Attributes:
        events: failures, drains and repairs at given times, in any order.
        random: random failures; a node is in at most one of the entries. The seed of the scenario
            determines them; another scheduler sees the same failures.
    """

    events: Annotated[tuple[NodeEvent, ...], Meta(max_length=100_000)] = ()
    random: Annotated[tuple[RandomFailures, ...], Meta(max_length=1000)] = ()


def node_changes(failures: Failures, names: NodeNames) -> Iterator[NodeChange]:
    """Yield the changes of nodes at given times.

    Raises:
        ScenarioError: a host list is invalid; has the field, not file and line.
    """
    for place, event in enumerate(failures.events):
        nodes = _nodes(event.nodes, names, f"{FIELD}.events[{place}].nodes")
        yield NodeChange(event.at_s, nodes, event.kind)
        if event.repair_after_s is not None:
            yield NodeChange(event.at_s + event.repair_after_s, nodes, "repair")


def failure_models(failures: Failures, names: NodeNames) -> Iterator[FailureModel]:
    """Yield the random failures.

    Raises:
        ScenarioError: a host list is invalid, or a node is there twice; has the field.
    """
    place_of: dict[int, int] = {}
    for place, model in enumerate(failures.random):
        field = f"{FIELD}.random[{place}].nodes"
        nodes = _nodes(model.nodes, names, field)
        for node in nodes:
            if (other := place_of.setdefault(node, place)) != place:
                what = f"node {names.name_of(node)} is already in random[{other}]"
                raise ScenarioError(f"{what}; expected each node once", field=field)
        yield FailureModel(nodes, _drawn(model.until_failure), _drawn(model.until_repair))


def _nodes(text: str, names: NodeNames, field: str) -> tuple[int, ...]:
    return tuple(numbers_in(ranges(text, names, field)))


def _drawn(times: Times) -> Distribution:
    return Distribution(
        times.distribution, times.mean_s, 1.0 if times.shape is None else times.shape
    )


class Action(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Something that a user or an administrator does to a job at a given time.

    An action has no effect on a job that is over, or in a state that does not permit it. A `resume`
    waits until the cores of the suspended job are free and reservations permit the rest of its
    requested time, and then precedes the jobs that wait. Another `suspend` of the job revokes it.

    Attributes:
        at_s: simulation time, s. A selection of jobs does not move it.
        job: number of the job; `7_3`: task 3 of array 7. The number of an array stands for all its
            tasks.
        kind: `cancel`, `hold`, `release`, `requeue`, `suspend`, `resume`, or `update` (of the
            attributes below).
        hold: with `requeue`: also hold the job.
        begin_s: with `requeue` and `update`: earliest start, s.
        requested_s: with `update`: requested run time, s.
        priority: with `update`: priority that an administrator sets.
        nice: with `update`: number that lowers the priority.
        array_limit: with `update`: maximum number of tasks of the array that run at once.
    """

    at_s: Time
    job: JobNumber
    kind: Literal["cancel", "hold", "release", "requeue", "suspend", "resume", "update"]
    hold: bool = False
    begin_s: Time | None = None
    requested_s: Seconds | None = None
    priority: Annotated[int, Meta(ge=0, le=2**32)] | None = None
    nice: Annotated[int, Meta(ge=-(2**31), le=2**31)] | None = None
    array_limit: Annotated[int, Meta(ge=0, lt=2**31)] | None = None

    def __post_init__(self) -> None:
        given = [name for name in ATTRIBUTES if getattr(self, name) not in (None, False)]
        for name in given:
            if self.kind not in ATTRIBUTES[name]:
                kinds = " and ".join(ATTRIBUTES[name])
                raise ValueError(f"{name} applies to {kinds}; remove it")
        if self.kind == "update" and not given:
            changed = ", ".join(name for name, kinds in ATTRIBUTES.items() if "update" in kinds)
            raise ValueError(f"expected at least one of {changed} with update, got none")
        parse_reference(str(self.job))

    @property
    def reference(self) -> Reference:
        """The job, array or task of the action."""
        return parse_reference(str(self.job))


def job_actions(actions: Iterable[Action], jobs: JobTable) -> Iterator[JobAction]:
    """Yield the actions on jobs of a table; actions on other jobs are left out."""
    numbers, tasks = _numbers(jobs)
    for action in actions:
        for number in _found(action.reference, numbers, tasks):
            yield JobAction(
                at_s=action.at_s,
                job_id=number,
                kind=action.kind,
                hold=action.hold,
                begin_s=action.begin_s,
                requested_s=action.requested_s,
                priority=action.priority,
                nice=action.nice,
                array_limit=action.array_limit,
            )


def check_actions(actions: Iterable[Action], jobs: JobTable) -> None:
    """Check that each action names a job of the workload.

    Args:
        jobs: the jobs of the source, before a selection.

    Raises:
        ScenarioError: one does not; has the field, not file and line.
    """
    numbers, tasks = _numbers(jobs)
    for place, action in enumerate(actions):
        if not _found(action.reference, numbers, tasks):
            what = f"the workload has no job {action.reference}"
            raise ScenarioError(what, field=f"{ACTIONS}[{place}].job")


Tasks = dict[int, dict[int, int]]
"""Job numbers by index, by array."""


def _numbers(jobs: JobTable) -> tuple[set[int], Tasks]:
    tasks: Tasks = {}
    for number, code in zip(jobs.job_id.tolist(), jobs.request.tolist(), strict=True):
        if code >= 0 and (array := jobs.requests[code].array_id) is not None:
            tasks.setdefault(array, {})[jobs.requests[code].array_index] = number
    return set(jobs.job_id.tolist()), tasks


def _found(reference: Reference, numbers: set[int], tasks: Tasks) -> tuple[int, ...]:
    """Return the numbers of the jobs that a reference stands for."""
    of_array = tasks.get(reference.job_id)
    if reference.task is None:
        if of_array is not None:
            return tuple(of_array.values())
        return (reference.job_id,) if reference.job_id in numbers else ()
    number = (of_array or {}).get(reference.task)
    return () if number is None else (number,)
