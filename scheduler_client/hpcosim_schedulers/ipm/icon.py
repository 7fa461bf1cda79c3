"""The controller SNF-ICON: smallest need first, and spare nodes for the next job."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.ipm.plan import Plan, Planner, plan_in_order, start_in_order
from hpcosim_schedulers.ipm.releases import nodes_needed
from hpcosim_schedulers.ipm.run_times import RunTimes
from hpcosim_schedulers.ipm.smallest_first import in_order, smallest_first
from hpcosim_schedulers.ipm.spares import (
    Arrivals,
    expected_waits_s,
    expected_wastes_j,
    number_to_wake,
    outlook,
    spare_nodes,
)
from hpcosim_schedulers.power.manager import IdleClock, managed
from hpcosim_schedulers.power.settings import Icon

# The screen of SNF-ICON: whether recent samples look exponentially distributed.

LEAST_SAMPLES = 3
MOST_SAMPLES = 1000
CV_TOLERANCE = 0.45
MOST_CORRELATION = 0.65
KS_LIMIT = 1.25 * 3.0
"""Limit of the Kolmogorov-Smirnov distance times the square root of the number of samples. Below 15
samples it exceeds 1, and so rejects nothing."""


class RecentSamples:
    """Samples of the last `window_s` seconds, at most `MOST_SAMPLES`.

    Args:
        window_s: length of the window, simulated seconds, > 0.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._samples: deque[tuple[float, float]] = deque(maxlen=MOST_SAMPLES)

    def add(self, at_s: float, value: float) -> None:
        """Add a sample of a time that is not before the last one."""
        self._samples.append((at_s, value))

    def values(self, now_s: float) -> Floats:
        """Return float64[samples] of the window up to now, in the order of their times."""
        while self._samples and self._samples[0][0] < now_s - self._window_s:
            self._samples.popleft()
        return np.array([value for _, value in self._samples])


def looks_exponential(values: Floats) -> bool:
    """Return whether a series passes the screen.

    It does if it has at least `LEAST_SAMPLES` samples, their coefficient of variation (population)
    is within `CV_TOLERANCE` of 1, the absolute correlation of successive samples is at most
    `MOST_CORRELATION` (without variation it counts as 1), and the Kolmogorov-Smirnov distance to
    the exponential distribution of the same mean is at most `KS_LIMIT` / sqrt(samples).

    Args:
        values: float64[samples], >= 0.
    """
    count = len(values)
    if count < LEAST_SAMPLES or (mean := float(values.mean())) <= 0.0:
        return False
    return (
        abs(float(values.std()) / mean - 1.0) <= CV_TOLERANCE
        and abs(_correlation(values[:-1], values[1:])) <= MOST_CORRELATION
        and _ks_distance(values, mean) <= KS_LIMIT / math.sqrt(count)
    )


def _correlation(one: Floats, other: Floats) -> float:
    one, other = one - one.mean(), other - other.mean()
    scale = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / scale if scale > 0.0 else 1.0


def _ks_distance(values: Floats, mean: float) -> float:
    fitted = -np.expm1(-np.sort(values) / mean)
    below = np.arange(len(values)) / len(values)
    return float(max((fitted - below).max(), (below + 1.0 / len(values) - fitted).max()))


MOST_HORIZON_S = 86_400.0
"""Upper bound of the horizon of expected costs, in seconds."""


def icon(settings: Icon) -> Policy:
    """Return SNF-ICON (Pulungan et al. 2026), as implemented by its authors.

    Each call screens the times between submissions and the run times of the last `window_s`
    (`screen.looks_exponential`). If one of the series fails, the call is that of SNF + IPM
    (`smallest_first.snf_ipm`) with the timeout. Otherwise

    - jobs start and are planned as in SNF + IPM, with predicted run times (`run_times.RunTimes`);
    - if jobs wait, no node is switched off;
    - if none waits, and the call is the first or follows a submission or a completion, sleeping
      nodes are woken for the next job: the number with the least
      `wait_price_w` * expected wait + expected waste, see `spares`;
    - if none was submitted for `gate_s`, none is woken, and nodes whose job has ended are switched
      off at once.

    Args:
        settings: the settings.
    """
    controller = Controller(settings)
    return managed(controller.decide, controller.manage)


class Controller:
    """The state of SNF-ICON: a job scheduler, `decide`, and a power manager, `manage`."""

    def __init__(self, settings: Icon) -> None:
        self._settings = settings
        self._planner = Planner()
        self._idle = IdleClock()
        self._arrivals, self._run_times = Arrivals(), RunTimes()
        self._gaps = RecentSamples(settings.window_s)
        self._runs = RecentSamples(settings.window_s)
        self._last_submit_s = -math.inf
        self._accepted = False
        self._is_first = True

    def decide(self, view: View) -> None:
        """Start jobs, and switch nodes on for those that wait."""
        self._observe(view)
        self._planner.transitions.update(view)
        self._accepted = not self._settings.fallback or (
            looks_exponential(self._gaps.values(view.now_s))
            and looks_exponential(self._runs.values(view.now_s))
        )
        if not self._accepted:
            smallest_first(view, self._planner)
            return
        self._planner.follow(view, self._start_and_plan(view) if view.queue else [])

    def manage(self, view: View) -> float | None:
        """Switch nodes for the jobs to come; return when the next idle node is due."""
        self._idle.update(view)
        is_first, self._is_first = self._is_first, False
        if self._accepted and view.queue:
            return None
        if self._accepted and (is_first or view.arrived or view.left):
            gate_s = self._settings.gate_s
            if gate_s is None or view.now_s - self._last_submit_s <= gate_s:
                self._wake_spares(view)
            else:
                self._switch_off(view, _released(view))
                self._idle.update(view)
        self._switch_off(view, self._idle.due(view.now_s, self._settings.timeout_s))
        self._idle.update(view)
        return self._idle.next_due_s(view.now_s, self._settings.timeout_s)

    def _observe(self, view: View) -> None:
        """Note submissions and completions since the last call."""
        for job in view.arrived:
            if job.runs:  # it was requeued
                continue
            gap_s = max(job.submit_s - self._last_submit_s, 0.0)
            self._last_submit_s = max(job.submit_s, self._last_submit_s)
            if gap_s < math.inf:
                self._gaps.add(self._last_submit_s, gap_s)
            self._arrivals.observe(gap_s, nodes_needed(view, job))
        for job in view.left:
            run_s = view.now_s - job.start_s
            if run_s > 0.0:
                self._runs.add(view.now_s, run_s)
                self._run_times.observe(run_s, job.requested_s)

    def _start_and_plan(self, view: View) -> Plan:
        """Start jobs, and return the plan of the others by predicted run times."""
        releases, run_times = self._planner.releases(view), self._run_times
        waiting = start_in_order(view, releases, in_order(view))
        if not waiting:
            return []
        for job in view.running.values():
            assert job.allocation is not None
            end_s = view.now_s + run_times.left_s(job, view.now_s)
            releases.occupy(job.allocation.nodes, end_s)
        releases.exclude_unavailable(view)
        return plan_in_order(view, releases, waiting, view.now_s, run_times.of_waiting)

    def _wake_spares(self, view: View) -> None:
        """Switch on the number of sleeping nodes with the least expected cost."""
        nodes, price_w = view.nodes, self._settings.wait_price_w
        watts, left_s = self._planner.watts(view), self._planner.transitions.left_s
        expired: Bools = np.zeros(len(nodes.free), dtype=np.bool_)
        expired[self._idle.due(view.now_s, self._settings.timeout_s)] = True
        next_due_s = self._idle.next_due_s(view.now_s, self._settings.timeout_s)
        most_s = math.inf if next_due_s is None else next_due_s - view.now_s
        ahead = outlook(
            self._arrivals.gap_s, self._completion_rate(view), min(MOST_HORIZON_S, most_s)
        )
        spares = spare_nodes(nodes, left_s, expired, watts, price_w)
        waits_s = expected_waits_s(nodes, spares, self._arrivals.sizes(), ahead)
        wastes_j = expected_wastes_j(nodes, watts, spares, ahead.horizon_s)
        for node in spares.asleep[: number_to_wake(spares, waits_s, wastes_j, price_w)].tolist():
            view.set_node_power(node, on=True)

    def _completion_rate(self, view: View) -> float:
        """Return 1 / the shortest predicted rest of a running job, 1/s; 0: none runs."""
        left_s = [self._run_times.left_s(job, view.now_s) for job in view.running.values()]
        return 1.0 / min(left_s) if left_s else 0.0

    def _switch_off(self, view: View, nodes: Ints) -> None:
        for node in nodes.tolist():
            view.set_node_power(node, on=False)


def _released(view: View) -> Ints:
    """Return the idle nodes of jobs that have ended since the last call."""
    held = np.zeros(len(view.nodes.free), dtype=np.bool_)
    for job in view.left:
        if job.allocation is not None:
            held[job.allocation.nodes] = True
    return np.flatnonzero(held & view.nodes.idle() & view.nodes.can_sleep)
