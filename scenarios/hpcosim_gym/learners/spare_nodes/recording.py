"""What the network is told of spare nodes, and what then came."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.view import View
from hpcosim_gym.learners.spare_nodes.instances import Instance
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import open_scenario
from hpcosim_schedulers import make_policy, managed
from hpcosim_schedulers.agents.spare_nodes.features import COLUMNS, features, forecast_of
from hpcosim_schedulers.agents.spare_nodes.usage import Usage
from hpcosim_schedulers.power.manager import IdleClock
from hpcosim_schedulers.power.timeout import timeout
from hpcosim_schedulers.predictive.energy import HOLDS, NodeEnergy
from hpcosim_schedulers.predictive.futures import Futures, FutureSampler, FutureSource
from hpcosim_schedulers.predictive.manager import FIRST_STEP, GROWTH, plan_of, spare_order
from hpcosim_schedulers.predictive.need import need_of
from hpcosim_workloads.table import JobTable

MOMENTS = 80
"""Number of moments of a window that are recorded, about: one half at events, one half between."""
MOST_MOMENTS = 50 * MOMENTS
"""Largest number of moments, for windows whose jobs wait long after the last submission."""
NODES = 24
"""Largest number of spare nodes that are recorded of a moment, chosen at random."""

Rows = NDArray[np.float32]


class Examples(NamedTuple):
    """Observations of spare nodes, what the samples said, and what came.

    Attributes:
        seen: float32[n, COLUMNS], see `features`.
        used, saved: float32[n, HOLDS], see `NodeForecast`.
        true_used, true_saved: float32[n, HOLDS], the same of the jobs that came.
    """

    seen: Rows
    used: Rows
    saved: Rows
    true_used: Rows
    true_saved: Rows


def recorded(instance: Instance, samples: int, seed: int) -> Examples:
    """Run a timeout on an instance; return examples from random moments.

    Args:
        instance: cluster, jobs, price and timeout.
        samples: number of samples of the future for each moment.
        seed: seed of the moments and of the nodes.
    """
    recorder = _Recorder(instance, samples, np.random.default_rng(seed))
    opened = open_scenario(instance.scenario, instance.jobs, "recorded")
    run_in_process(opened, managed(make_policy("easy", "planned"), recorder.manage))
    return joined(recorder.rows)


def joined(parts: Sequence[Examples]) -> Examples:
    """Return the examples of all parts; none without a part."""
    none = np.empty((0, HOLDS), np.float32)
    empty = Examples(np.empty((0, COLUMNS), np.float32), none, none, none, none)
    return Examples(*(np.concatenate(each) for each in zip(empty, *parts, strict=True)))


class _Recorder:
    """A manager that records the plans of `predictive` at some moments, and obeys a timeout."""

    def __init__(self, instance: Instance, samples: int, rng: np.random.Generator) -> None:
        self._instance, self._samples, self._rng = instance, samples, rng
        self._timeout = timeout(instance.timeout_s)
        jobs = instance.jobs
        span_s = float(jobs.submit_s[-1] - jobs.submit_s[0])
        self._pause_s = max(2.0 * span_s / MOMENTS, 1.0)
        self._share = MOMENTS / (4.0 * len(jobs))
        self._moment_s = self._event_s = -math.inf
        self._moments = 0
        self._idle = IdleClock()
        self._source: FutureSampler | None = None
        self.rows: list[Examples] = []

    def manage(self, view: View) -> float | None:
        """Return the time of the next call."""
        if self._source is None:
            self._source = FutureSampler(self._samples, view)
            self._energy = NodeEnergy(view, self._instance.wait_price_w)
            self._usage = Usage(view, self._energy.break_even_s)
        self._source.update(view)
        self._usage.update(view)
        self._idle.update(view)
        if view.arrived or view.left:
            self._event_s = view.now_s
        if view.now_s >= self._moment_s or self._rng.random() < self._share:
            self._record(view, self._source)
            self._moments += 1
            pause_s = float(self._rng.exponential(self._pause_s))
            self._moment_s = view.now_s + pause_s if self._moments < MOST_MOMENTS else math.inf
        due_s = self._timeout(view)
        if due_s is not None:
            return min(self._moment_s, due_s)
        return self._moment_s if self._moments < MOST_MOMENTS else None

    def _record(self, view: View, source: FutureSource) -> None:
        order = spare_order(view, self._idle.since_s)
        if not len(order.nodes):
            return
        energy, price_w = self._energy, self._instance.wait_price_w
        even_s, passed_s = energy.break_even_s, view.now_s - self._event_s
        next_s = min(FIRST_STEP * even_s + (GROWTH - 1.0) * passed_s, even_s)
        plan = plan_of(view, source, order, energy, price_w, next_s)
        future = true_future(view, self._instance.jobs, float(energy.holds_s[-1]))
        came = forecast_of(plan._replace(need=need_of(future, len(order.nodes))))
        said = forecast_of(plan)
        seen = features(view, plan, said, self._usage)
        some = self._rng.permutation(len(order.nodes))[:NODES]
        by_node = (seen.T, said.used, said.saved, came.used > 0.5, came.saved)
        self.rows.append(Examples(*(each[:, some].T.astype(np.float32) for each in by_node)))


def true_future(view: View, jobs: JobTable, horizon_s: float, node_cores: int = 1) -> Futures:
    """Return what comes, as a single sample.

    Args:
        view: the view.
        jobs: all jobs, on whole nodes.
        horizon_s: time to look ahead, s.
        node_cores: number of cores of a node.
    """
    now_s = view.now_s
    low, high = jobs.submit_s.searchsorted((now_s, now_s + horizon_s), side="right").tolist()
    running = list(view.running.values())
    runs_s = jobs.run_s[[job.order for job in running]]
    ends_s = np.array([job.start_s for job in running]) + runs_s - now_s
    return Futures(
        1,
        np.zeros(high - low, dtype=np.int64),
        jobs.submit_s[low:high] - now_s,
        np.ceil(jobs.cores[low:high] / node_cores),
        jobs.run_s[low:high],
        np.maximum(ends_s, 0.0).reshape(1, -1),
        np.ceil(np.array([job.cores for job in running]) / node_cores),
    )
