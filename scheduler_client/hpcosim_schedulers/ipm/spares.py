"""The spare nodes of SNF-ICON: the number of sleeping nodes to wake for the next job."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_client.nodes import NodePool
from hpcosim_schedulers.ipm.run_times import smoothed
from hpcosim_schedulers.power.watts import ON, SLEEPING, SWITCHING_OFF, SWITCHING_ON, Watts

GAP_SMOOTHING = 0.2
SIZE_SMOOTHING = 0.1
FIRST_GAP_S = 3600.0
"""Mean time between submissions before any was seen, in seconds."""

LEAST_WARM = 1
"""Least number of idle or booting nodes, if there are so many."""


class Arrivals:
    """Rate of submissions and sizes of jobs, as exponential moving averages.

    Attributes:
        gap_s: mean time between submissions, in seconds.
    """

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
        gap_s: mean time between submissions, in seconds.
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
        nodes: the nodes.
        left_s: float64[nodes], expected rest of the transitions, in seconds.
        expired: bool[nodes], idle nodes that are switched off now.
        watts: powers of nodes without a job.
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

    Args:
        spares: the nodes without a job.
        waits_s: float64[asleep + 1], see `expected_waits_s`.
        wastes_j: float64[asleep + 1], see `expected_wastes_j`.
        wait_price_w: price of waiting, J/s.
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
        nodes: the nodes.
        spares: those without a job.
        sizes: numbers of nodes of the next job, with probabilities; see `Arrivals.sizes`.
        ahead: the outlook.

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

    Args:
        nodes: the nodes.
        watts: their powers without a job.
        spares: those without a job.
        horizon_s: the time that counts, in seconds.

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
