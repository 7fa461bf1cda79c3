"""Failures, drains and repairs of nodes: from a list, and drawn at random."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from hpcosim_sim.engine.clock import Clock, Rank, Timer
from hpcosim_sim.engine.site_events import Distribution, FailureModel, NodeChangeKind, SiteEvents
from hpcosim_workloads.table import MAX_TIME_S

MIN_TIME_S = 1e-3
"""Shortest drawn time, s: shorter ones would let no time pass."""


class NodeChanges:
    """Lets nodes fail, drain and be repaired at the times of the site's events.

    A node that failed by a model is repaired by the model, unless the list repairs it before. A
    node that failed by the list is repaired by the list. The next failure of a model is drawn at
    the begin and at each repair of the node.

    Args:
        clock: clock of the simulation.
        events: the site's events.
        rng: generator of the drawn times.
        apply: called with the kind of the change and a node; returns False if the change had no
            effect, such as the failure of a node that has failed.

    Attributes:
        count: number of changes so far.
    """

    def __init__(
        self,
        clock: Clock,
        events: SiteEvents,
        rng: np.random.Generator,
        apply: Callable[[NodeChangeKind, int], bool],
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._apply = apply
        self._next: dict[int, Timer] = {}  # of the model of each node
        self.count = 0
        for change in sorted(events.node_changes, key=lambda change: change.at_s):
            at_s = max(change.at_s, clock.now)
            clock.at(at_s, Rank.NODE, self._on_change, change)
        self._model_of: Mapping[int, FailureModel] = {
            node: model for model in events.failure_models for node in model.nodes
        }
        for node in self._model_of:
            self._plan(node, "fail")

    def _on_change(self, timer: Timer) -> None:
        change = timer.subject
        for node in change.nodes:
            if self._change(change.kind, node) and change.kind != "drain":
                self._drop(node)
                if change.kind == "repair" and node in self._model_of:
                    self._plan(node, "fail")

    def _on_model(self, timer: Timer) -> None:
        node, kind = timer.subject
        del self._next[node]
        self._change(kind, node)
        self._plan(node, "repair" if kind == "fail" else "fail")

    def _change(self, kind: NodeChangeKind, node: int) -> bool:
        has_effect = self._apply(kind, node)
        self.count += has_effect
        return has_effect

    def _plan(self, node: int, kind: NodeChangeKind) -> None:
        model = self._model_of[node]
        after = model.until_failure if kind == "fail" else model.until_repair
        now_s = self._clock.now
        at_s = now_s + max(draw_s(after, self._rng), MIN_TIME_S)
        at_s = max(at_s, math.nextafter(now_s, math.inf))  # late times have no milliseconds
        if at_s <= MAX_TIME_S:
            self._next[node] = self._clock.at(at_s, Rank.NODE, self._on_model, (node, kind))

    def _drop(self, node: int) -> None:
        timer = self._next.pop(node, None)
        if timer is not None:
            self._clock.cancel(timer)


def draw_s(distribution: Distribution, rng: np.random.Generator) -> float:
    """Return a random time, s; its mean is `distribution.mean_s`."""
    mean_s, shape = distribution.mean_s, distribution.shape
    if distribution.kind == "exponential":
        return float(rng.exponential(mean_s))
    if distribution.kind == "weibull":  # mean = scale * gamma(1 + 1/shape)
        return float(rng.weibull(shape)) * mean_s / math.gamma(1.0 + 1.0 / shape)
    if distribution.kind == "lognormal":  # mean = exp(mu + shape^2 / 2)
        return float(rng.lognormal(math.log(mean_s) - shape**2 / 2.0, shape))
    return mean_s
