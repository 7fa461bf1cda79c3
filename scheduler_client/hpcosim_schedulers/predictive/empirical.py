"""The power manager `empirical`: spare nodes by how far the demand rose before; see `rises`.

A decision costs a fixed number of operations, whatever the number of nodes is.
An invalid file of weights is a `PolicyError`.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_client.job import Job
from hpcosim_client.safetensors_file import ArraysFile, load_arrays, save_arrays
from hpcosim_client.view import View
from hpcosim_protocol import Platform
from hpcosim_schedulers.power.account import ON, SLEEPING, SWITCHING_OFF, SWITCHING_ON, Watts
from hpcosim_schedulers.power.manager import IdleClock, Manager
from hpcosim_schedulers.power.settings import Empirical
from hpcosim_schedulers.predictive import rises
from hpcosim_schedulers.predictive.manager import LEAST_EVEN_S
from hpcosim_schedulers.predictive.rises import (
    WEIGHTS,
    Moment,
    NodeFacts,
    best_number,
    is_due,
    new_rises,
    pass_time,
    predict,
    submit,
)

GRAIN = 1024.0
"""Expected releases are rounded to 1 / `GRAIN` nodes, so that their sum has no order."""

FORMAT = "hpcosim rises 1"
_FILE = ArraysFile("weights", FORMAT, "hpcosim train rises", {"weights": (WEIGHTS,)})


def empirical(settings: Empirical) -> Manager:
    """Return the manager with the weights of a file."""
    return by_weights(load_weights(Path(settings.model)), settings.wait_price_w)


def by_weights(weights: Floats, wait_price_w: float) -> Manager:
    """Return the manager that keeps as many spare nodes as past rises of the demand advise.

    The times of its decisions are those of `predictive`. It switches the highest-numbered idle
    nodes off and the lowest-numbered sleeping nodes on. Nodes that the job scheduler has reserved
    are left alone, and so are idle nodes that are drained.

    Args:
        weights: float64[WEIGHTS], see `rises`.
        wait_price_w: price of a job's wait, J/s.
    """
    return _Keeper(weights, wait_price_w).manage


class _Keeper:
    def __init__(self, weights: Floats, wait_price_w: float) -> None:
        self._weights, self._price_w = weights, wait_price_w
        self._rises = new_rises()
        self._idle = IdleClock()
        self._facts: NodeFacts | None = None
        self._node_cores = 1.0
        self._submitted = 0

    def manage(self, view: View) -> float | None:
        """Switch nodes; return the time of the next decision."""
        if self._facts is None:
            self._facts = facts_of(view.platform, self._price_w)
            self._node_cores = float(view.nodes.capacity.mean())
        past, facts, now_s = self._rises, self._facts, view.now_s
        self._idle.update(view)
        new = [job for job in view.arrived if job.order >= self._submitted]
        self._submitted += len(new)
        moment = self._seen(view, facts)
        ended = self._submitted - len(view.queue) - len(view.running)
        has_changed = bool(new) or ended != past.n[rises.ENDED]
        pass_time(past, facts, now_s, ended)
        demand = moment.busy + moment.waiting_nodes
        before = demand - sum(self._nodes(job) for job in new)
        for job in new:
            before += self._nodes(job)
            submit(past, now_s, before)
        if is_due(past, facts, now_s, demand, has_changed):
            self._decide(view, facts, moment)
            self._idle.update(view)
        return float(past.g[rises.DUE_S])

    def _seen(self, view: View, facts: NodeFacts) -> Moment:
        even_s, busy, released = facts.even_s, 0.0, 0.0
        for job in view.running.values():
            nodes = self._nodes(job)
            busy += nodes
            released += releases(nodes, view.now_s - job.start_s, even_s)
        waiting = sum(self._nodes(job) for job in view.queue.values())
        return Moment(view.now_s, len(view.queue), float(waiting), busy, released)

    def _decide(self, view: View, facts: NodeFacts, moment: Moment) -> None:
        nodes, planned = view.nodes, view.power_exchange.planned
        is_spare = ~np.isnan(self._idle.since_s) & ~planned
        is_spare[nodes.unavailable()] = False
        idle = np.flatnonzero(is_spare).tolist()
        booting = sum(not planned[node] for node in nodes.unused("switching_on"))
        asleep = nodes.unused("sleeping")
        warm = len(idle) + booting
        if warm + len(asleep) == 0:
            return
        predict(self._rises, facts, moment, self._weights)
        best = best_number(self._rises, facts, self._weights, len(idle), booting, len(asleep))
        for node in idle[best:]:
            view.set_node_power(node, on=False)
        for node in asleep[: max(best - warm, 0)]:
            view.set_node_power(node, on=True)

    def _nodes(self, job: Job) -> float:
        nodes = job.cores / self._node_cores
        return float(math.ceil(nodes)) if job.placement == "whole_nodes" else nodes


def releases(nodes: float, age_s: float, even_s: float) -> float:
    """Return the expected nodes that a job releases within a time, see `rises.Moment`."""
    return math.floor(GRAIN * nodes * even_s / (even_s + max(age_s, 0.0))) / GRAIN


def facts_of(platform: Platform, wait_price_w: float) -> NodeFacts:
    """Return the means of the nodes that can be switched; of none, one that costs nothing."""
    watts_w = Watts(platform).by_state
    firsts = np.append(0, np.cumsum([group.count for group in platform.nodes]))
    boot_s = hold_w = cycle_j = nodes = 0.0
    for group, first in zip(platform.nodes, firsts.tolist(), strict=False):
        states = group.power_states
        if states is None:
            continue
        extra_w = watts_w[first] - watts_w[first, SLEEPING]
        boot_s += group.count * states.switch_on_s
        hold_w += group.count * float(extra_w[ON])
        cycle_j += group.count * states.switch_on_s * float(extra_w[SWITCHING_ON])
        cycle_j += group.count * states.switch_off_s * float(extra_w[SWITCHING_OFF])
        nodes += group.count
    nodes = max(nodes, 1.0)
    boot_s, hold_w, cycle_j = boot_s / nodes, hold_w / nodes, cycle_j / nodes
    even_s = max(boot_s, cycle_j / max(hold_w, 1e-9), LEAST_EVEN_S)
    return NodeFacts(boot_s, even_s, hold_w, cycle_j, wait_price_w, float(platform.node_count))


def save_weights(path: Path, weights: Floats, facts: str) -> None:
    """Write weights as a safetensors file, the same bytes for the same arguments."""
    save_arrays(_FILE, path, {"weights": weights}, facts)


def load_weights(path: Path) -> Floats:
    """Return the weights in a file."""
    return load_arrays(_FILE, path)[0]["weights"]
