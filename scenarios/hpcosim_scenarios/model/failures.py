"""The failures section of a scenario: failures, drains and repairs of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hpcosim_protocol.hosts import NodeNames
from hpcosim_protocol.node_access import numbers_in
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.bounds import Seconds
from hpcosim_scenarios.model.host_lists import ranges
from hpcosim_sim.engine.site_events import Distribution, FailureModel, NodeChange

Time = Annotated[float, Meta(ge=-1e12, le=1e12)]
Hosts = Annotated[str, Meta(min_length=1, max_length=100_000)]
Shape = Annotated[float, Meta(ge=0.05, le=10)]

FIELD = "$.failures"
SHAPED = ("weibull", "lognormal")


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
