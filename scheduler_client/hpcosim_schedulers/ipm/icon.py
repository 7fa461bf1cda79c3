"""The controller SNF-ICON: smallest need first, and spare nodes for the next job.

The number of sleeping nodes to wake is planned with run times predicted from the ratios of actual
to requested ones.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints, Job
from hpcosim_client.nodes import NodePool
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.heuristics.list_scheduling import snf
from hpcosim_schedulers.ipm.plan import (
    Plan,
    Planner,
    nodes_needed,
    plan_in_order,
    requested_s,
    start_in_order,
)
from hpcosim_schedulers.power.account import ON, SLEEPING, SWITCHING_OFF, SWITCHING_ON, Watts
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


GAP_SMOOTHING = 0.2
SIZE_SMOOTHING = 0.1
FIRST_GAP_S = 3600.0
"""Mean time between submissions before any was seen, in seconds."""

LEAST_WARM = 1
"""Least number of idle or booting nodes, if there are so many."""


SMOOTHING = 0.1
"""Weight of a new sample in the exponential moving averages."""

LEAST_SIGMA = 0.25
"""Least standard deviation of ln(run time / requested time)."""

LEAST_S = 1e-9
"""Least predicted rest of a run, in seconds."""


class RecentSamples:
    """Samples of the last `window_s` seconds, at most `MOST_SAMPLES`."""

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
    (`looks_exponential`). If one of the series fails, the call is that of SNF + IPM
    (`snf_ipm`) with the timeout. Otherwise

    - jobs start and are planned as in SNF + IPM, with run times predicted by `RunTimes`;
    - if jobs wait, no node is switched off;
    - if none waits, and the call is the first or follows a submission or a completion, sleeping
      nodes are woken for the next job: the number with the least
      `wait_price_w` * expected wait + expected waste, see `SpareNodes`;
    - if none was submitted for `gate_s`, none is woken, and nodes whose job has ended are switched
      off at once.
    """
    controller = Controller(settings)
    return managed(controller.decide, controller.manage)


class Controller:
    """The state of SNF-ICON: a job scheduler, `decide`, and a power manager, `manage`."""

    def __init__(self, settings: Icon) -> None:
        self._settings = settings
        self._planner = Planner()
        self._idle = IdleClock()
        self._arrivals, self._run_times = ArrivalAverages(), RunTimeRatios()
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


def in_order(view: View) -> list[Job]:
    """Return the waiting jobs in the order `snf`."""
    return sorted(view.queue.values(), key=lambda job: (snf(job), job.order))


def snf_ipm() -> Policy:
    """Return SNF + IPM: smallest need first, with a plan of the whole queue at each call.

    1. Jobs start in the order of `list_scheduling.snf` while the first fits the idle nodes.
    2. The others are planned in that order: each on the nodes that waste the least, for its
       requested time, and none before the job ahead of it.
    3. A sleeping node of the plan is switched on one boot time before its first planned start.

    A node of the plan that could not be switched off and on again before its start stays on
    (`PowerExchange.planned`); a power manager beside the policy switches other nodes off.
    """
    planner = Planner()

    def decide(view: View) -> None:
        planner.transitions.update(view)
        smallest_first(view, planner)

    return decide


def smallest_first(view: View, planner: Planner) -> None:
    """Do one call of `snf_ipm`, after the update of the planner's transitions."""
    plan: Plan = []
    if view.queue:
        releases = planner.releases(view)
        waiting = start_in_order(view, releases, in_order(view))
        plan = plan_in_order(view, releases, waiting, view.now_s, requested_s)
    planner.follow(view, plan)
    planner.plan_again_before_ends(view)


class ArrivalAverages:
    """Rate of submissions and sizes of jobs, as exponential moving averages."""

    def __init__(self) -> None:
        self.gap_s = FIRST_GAP_S
        self._weight: dict[int, float] = {}

    def observe(self, gap_s: float, nodes: int) -> None:
        """Note a job of some nodes, submitted `gap_s` after the last; infinity: the first job."""
        if gap_s < np.inf:
            self.gap_s = smoothed(self.gap_s, gap_s, GAP_SMOOTHING)
        if not self._weight:
            self._weight[nodes] = 1.0
            return
        for size in self._weight:
            self._weight[size] *= 1.0 - SIZE_SMOOTHING
        self._weight[nodes] = self._weight.get(nodes, 0.0) + SIZE_SMOOTHING

    def sizes(self) -> tuple[Ints, Floats]:
        """Return int64[sizes], numbers of nodes, and float64[sizes], their probabilities."""
        if not self._weight:
            return np.array([1]), np.array([1.0])
        weights = np.array(list(self._weight.values()))
        return np.array(list(self._weight)), weights / weights.sum()


class Outlook(NamedTuple):
    """What is expected next.

    Attributes:
        hazard: rate of submissions and completions together, 1/s, > 0.
        submission: probability that the next of them is a submission.
        horizon_s: expected time to the next of them or the upper bound of the horizon, in seconds.
    """

    hazard: float
    submission: float
    horizon_s: float


def outlook(gap_s: float, completion: float, most_s: float) -> Outlook:
    """Return the outlook.

    Args:
        completion: rate of completions, 1/s.
        most_s: upper bound of the horizon, in seconds.
    """
    rate = 1.0 / max(gap_s, 1e-9)
    hazard = rate + completion
    return Outlook(hazard, rate / hazard, float(-np.expm1(-hazard * most_s)) / hazard)


class SpareNodes(NamedTuple):
    """The nodes without a job.

    Attributes:
        idle: int64[n], idle nodes that stay on.
        booting: int64[n], nodes that are being switched on.
        going_off: int64[n], nodes that are being switched off, or are switched off now.
        asleep: int64[n], sleeping nodes in the order to wake them.
        left_s: float64[nodes], expected rest of the transitions of booting nodes and of those that
            go off, in seconds.
    """

    idle: Ints
    booting: Ints
    going_off: Ints
    asleep: Ints
    left_s: Floats


def spare_nodes(
    nodes: NodePool, left_s: Floats, expired: Bools, watts: Watts, wait_price_w: float
) -> SpareNodes:
    """Return the nodes without a job.

    Sleeping nodes are in the order of the boot time at `wait_price_w` plus the energy of the boot.

    Args:
        expired: bool[nodes], idle nodes that are switched off now.
        wait_price_w: price of waiting, J/s.
    """
    asleep = np.array(nodes.unused("sleeping"), dtype=np.int64)
    boot_s = nodes.switch_on_s[asleep]
    boot_j = boot_s * watts.by_state[asleep, SWITCHING_ON]
    order = np.lexsort((boot_j, boot_s, wait_price_w * boot_s + boot_j))
    going_off = np.union1d(nodes.unused("switching_off"), np.flatnonzero(expired))
    return SpareNodes(
        np.flatnonzero(nodes.idle() & ~expired),
        np.array(nodes.unused("switching_on"), dtype=np.int64),
        going_off.astype(np.int64),
        asleep[order],
        np.where(expired, nodes.switch_off_s, left_s),
    )


def number_to_wake(
    spares: SpareNodes, waits_s: Floats, wastes_j: Floats, wait_price_w: float
) -> int:
    """Return the number of sleeping nodes to wake: least cost, ties by wait, waste and number.

    At least so many are woken that `LEAST_WARM` nodes are idle or boot.
    """
    warm = len(spares.idle) + len(spares.booting)
    least = min(max(LEAST_WARM - warm, 0), len(spares.asleep))
    costs_j = wait_price_w * waits_s + wastes_j
    return least + int(np.lexsort((wastes_j[least:], waits_s[least:], costs_j[least:]))[0])


def expected_waits_s(
    nodes: NodePool, spares: SpareNodes, sizes: tuple[Ints, Floats], ahead: Outlook
) -> Floats:
    """Return the expected wait of the next submission if 0, 1, ... sleeping nodes are woken.

    A job of r nodes waits for the r-th of all nodes without a job. It waits E[(d - T)+] for a node
    that boots or is woken now, where d is the rest of the boot and T the time to the next event,
    exponential with the hazard; the whole boot for a sleeping node; the whole boot and E[(d - T)+]
    for one that goes off. The result is the mean over r, times the probability that the next event
    is a submission.

    Args:
        sizes: numbers of nodes of the next job, with probabilities; see `ArrivalAverages.sizes`.

    Returns:
        float64[asleep + 1], in seconds.
    """
    residual_s = _residual_s(spares.left_s, ahead.hazard)
    boot_s = nodes.switch_on_s[spares.asleep]
    others_s = np.concatenate(
        [
            np.zeros(len(spares.idle)),
            residual_s[spares.booting],
            nodes.switch_on_s[spares.going_off] + residual_s[spares.going_off],
        ]
    )
    woken = np.tri(len(boot_s) + 1, len(boot_s), -1, dtype=np.bool_)  # row k: k nodes are woken
    delays_s = np.where(woken, _residual_s(boot_s, ahead.hazard), boot_s)
    delays_s = np.hstack([np.tile(others_s, (len(woken), 1)), delays_s])
    if not delays_s.shape[1]:
        return np.zeros(1)
    delays_s.sort(axis=1)
    count, probability = sizes
    at = np.minimum(count, delays_s.shape[1]) - 1
    waits_s: Floats = ahead.submission * (delays_s[:, at] @ probability)
    return waits_s


def expected_wastes_j(
    nodes: NodePool, watts: Watts, spares: SpareNodes, horizon_s: float
) -> Floats:
    """Return the energy of nodes without a job if 0, 1, ... sleeping nodes are woken.

    Returns:
        float64[asleep + 1], in J.
    """

    def wasted_j(which: Ints, left_s: Floats, first: int, then: int) -> Floats:
        during_s = np.minimum(left_s, horizon_s)
        power_w = watts.by_state[which]
        return power_w[:, first] * during_s + power_w[:, then] * (horizon_s - during_s)

    boots_j = wasted_j(spares.booting, spares.left_s[spares.booting], SWITCHING_ON, ON)
    left_s = spares.left_s[spares.going_off]
    going_off_j = wasted_j(spares.going_off, left_s, SWITCHING_OFF, SLEEPING)
    asleep_j = horizon_s * watts.by_state[spares.asleep, SLEEPING]
    woken_j = wasted_j(spares.asleep, nodes.switch_on_s[spares.asleep], SWITCHING_ON, ON)
    idle_j = horizon_s * watts.by_state[spares.idle, ON]
    all_j: Floats = np.concatenate([[0.0], np.cumsum(woken_j - asleep_j)])
    all_j += idle_j.sum() + boots_j.sum() + going_off_j.sum() + asleep_j.sum()
    return all_j


def _residual_s(left_s: Floats, hazard: float) -> Floats:
    """Return E[(left_s - T)+] for exponential T, in seconds."""
    return left_s + np.expm1(-hazard * left_s) / hazard


class RunTimeRatios:
    """Lognormal model of run time / requested time, updated at each completion.

    x = ln(run time / requested time) has an exponential moving average mu, and sigma is the square
    root of the average of x^2 minus mu^2, at least `LEAST_SIGMA`.
    """

    def __init__(self) -> None:
        self._mu: float | None = None
        self._square = 0.0

    def observe(self, run_s: float, requested_s: float) -> None:
        """Note the run time and the requested time of a job that ended, in seconds.

        Jobs without one of them are left out.
        """
        if run_s <= 0.0 or requested_s <= 0.0:
            return
        x = math.log(run_s / requested_s)
        self._square = smoothed(None if self._mu is None else self._square, x * x, SMOOTHING)
        self._mu = smoothed(self._mu, x, SMOOTHING)

    def of_waiting(self, job: Job) -> float:
        """Return the predicted run time of a waiting job: its request times e^mu, in seconds."""
        return job.requested_s * math.exp(self._mu or 0.0)

    def left_s(self, job: Job, now_s: float) -> float:
        """Return the predicted rest of a running job, in seconds.

        It is the mean of T - e given T > e, with ln T ~ N(ln(requested time) + mu, sigma^2) and e
        the time for which the job has run. Before any completion T is the requested time, and a job
        that overruns is expected to run for its requested time once more.
        """
        ran_s = max(now_s - job.start_s, 0.0)
        requested_s = max(job.requested_s, LEAST_S)
        if self._mu is None:
            return requested_s - ran_s if ran_s < requested_s else requested_s
        sigma = max(LEAST_SIGMA, math.sqrt(max(self._square - self._mu * self._mu, 0.0)))
        return mean_excess(math.log(requested_s) + self._mu, sigma, ran_s)


def smoothed(before: float | None, sample: float, weight: float) -> float:
    """Return an exponential moving average with a new sample; None before: the sample."""
    return sample if before is None else weight * sample + (1.0 - weight) * before


def mean_excess(mu: float, sigma: float, threshold: float) -> float:
    """Return E[T - threshold | T > threshold] for ln T ~ N(mu, sigma^2), at least `LEAST_S`."""
    mean = mu + 0.5 * sigma * sigma
    if threshold > 0.0:
        z = (math.log(threshold) - mu) / sigma
        mean += _log_survival(z - sigma) - _log_survival(z)
    return max(math.exp(min(mean, 700.0)) - threshold, LEAST_S)


def _log_survival(z: float) -> float:
    """Return ln P(Z > z) of a standard normal Z."""
    if z < 30.0:
        return math.log(0.5 * math.erfc(z / math.sqrt(2.0)))
    return -0.5 * z * z - math.log(z * math.sqrt(2.0 * math.pi)) + math.log1p(-1.0 / (z * z))
