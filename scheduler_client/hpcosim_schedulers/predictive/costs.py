"""The expected cost of each number of spare nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_schedulers.predictive.need import Need


class Spares(NamedTuple):
    """The nodes without a job, in the order in which jobs would use them.

    First the idle nodes, then those that boot, then those asleep.

    Attributes:
        idle, booting: their numbers.
        hold_w: float64[k], power of a node that is idle less that of one asleep, in W.
        cycle_j: float64[k], energy of switching a node off and on, less that of sleeping, in J.
        boot_s: float64[k], time to switch it on, s.
    """

    idle: int
    booting: int
    hold_w: Floats
    cycle_j: Floats
    boot_s: Floats


def costs_j(need: Need, spares: Spares, price_w: float, holds_s: Floats, next_s: float) -> Floats:
    """Return the expected cost of 0, 1, ... spare nodes, compared with none, in J.

    With k spare nodes, idle nodes from the k-th on are switched off now, and sleeping nodes up to
    the k-th are switched on. A spare node stays on until it is needed, at most for a time of
    `holds_s`, the best of them for each k. Without it, it is switched on when it is needed. So the
    first record above level i, at T, decides about node i:

    - an idle node costs its power until T, and saves a cycle if T comes in time;
    - a node that is switched on costs its power from the end of the boot until T, and a cycle if T
      does not come in time (the boot takes the mean time over the sleeping nodes);
    - each submission that needs no more than k nodes saves its wait for the boot, at `price_w`.

    A submission later than `next_s` after the end of the boot is no reason to switch a node on now:
    the next decision comes in time.

    Args:
        need: the need of a sampled future.
        spares: the nodes without a job.
        price_w: price of waiting, J/s.
        holds_s: float64[h], times to hold, s, ascending.
        next_s: time to the next decision, s.

    Returns:
        float64[k + 1].
    """
    least: Floats | None = None
    for hold_s in holds_s.tolist():
        energy_j = energies_j(need, spares, hold_s)
        saved_s = saved_waits_s(need, spares, hold_s, next_s)
        cost_j = np.concatenate([[0.0], energy_j.cumsum()]) - price_w * saved_s
        least = cost_j if least is None else np.minimum(least, cost_j)
    assert least is not None
    return least


def energies_j(need: Need, spares: Spares, hold_s: float) -> Floats:
    """Return the expected energy of each spare node, compared with no such node, in J."""
    count, idle, warm = len(spares.hold_w), spares.idle, spares.idle + spares.booting
    comes = need.record_s <= hold_s
    used = mean_by_node(need, comes.astype(np.float64), count)
    idle_s = hold_s - mean_by_node(need, np.where(comes, hold_s - need.record_s, 0.0), count)
    energy_j = spares.hold_w * idle_s - spares.cycle_j * used
    energy_j[idle:warm] = 0.0  # they cannot be stopped
    if count > warm:
        boot_s = float(spares.boot_s[warm:].mean())
        later_s = np.where(comes, hold_s - np.maximum(need.record_s, boot_s), 0.0)
        on_s = max(hold_s - boot_s, 0.0) - mean_by_node(need, np.maximum(later_s, 0.0), count)
        woken_j = spares.hold_w * on_s + spares.cycle_j * (1.0 - used)
        energy_j[warm:] = woken_j[warm:]
    return energy_j


def saved_waits_s(need: Need, spares: Spares, hold_s: float, next_s: float) -> Floats:
    """Return the expected wait that 0, 1, ... spare nodes save, in s."""
    count, idle, warm = len(spares.hold_w), spares.idle, spares.idle + spares.booting
    nodes, after_s = np.minimum(need.nodes, count), need.after_s
    boot_s = np.concatenate([[0.0], spares.boot_s])[nodes]
    wait_s = np.maximum(after_s[need.caller] + boot_s - after_s, 0.0)
    rest_s = np.maximum(boot_s - after_s, 0.0)
    woken_s = np.where(after_s <= boot_s + next_s, np.maximum(wait_s - rest_s, 0.0), 0.0)
    saved_s = np.where(nodes > warm, woken_s, np.where(nodes > idle, 0.0, wait_s))
    saved_s[(after_s > hold_s) | (nodes == 0)] = 0.0
    found: Floats = np.bincount(nodes, weights=saved_s, minlength=count + 1).cumsum()
    return found / need.samples


def mean_by_node(need: Need, value: Floats, count: int) -> Floats:
    """Return the mean over samples of the value of the record that first needs each node."""
    begins = np.bincount(np.minimum(need.above, count), weights=value, minlength=count + 1)
    ends = np.bincount(np.minimum(need.upto, count), weights=value, minlength=count + 1)
    found: Floats = (begins - ends).cumsum()[:count]
    return found / need.samples
