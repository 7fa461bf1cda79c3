"""How many nodes were needed in the past: the record by level."""

from __future__ import annotations

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_client.view import View

MEMORY = (1.0, 8.0, 64.0)
"""Times of exponential forgetting, relative to the break-even time."""


class Usage:
    """The history of demand: the nodes with jobs, and those that waiting jobs request.

    Level n stands for a demand of more than n nodes.

    Args:
        view: the view.
        unit_s: unit of time, the break-even time, s.
    """

    def __init__(self, view: View, unit_s: float) -> None:
        nodes = len(view.nodes.jobs)
        self._unit_s = unit_s
        self._node_cores = float(view.nodes.capacity.mean())
        self._start_s = self._now_s = view.now_s
        self._demand = 0
        self._submitted = 0
        self._last_s: Floats = np.full(nodes, view.now_s)
        self._shares: Floats = np.zeros((len(MEMORY), nodes))
        self._rises: Floats = np.zeros((len(MEMORY), nodes))

    def update(self, view: View) -> None:
        """Take what has happened since the last call."""
        passed = (view.now_s - self._now_s) / self._unit_s
        self._now_s = view.now_s
        demand, before = self._demand_of(view), self._demand
        self._submitted += len(view.arrived)
        if passed > 0.0:
            kept = np.exp(-passed / np.array(MEMORY))[:, None]
            self._shares *= kept
            self._shares[:, :before] += 1.0 - kept
            self._rises *= kept
            self._last_s[:before] = view.now_s
        self._rises[:, before:demand] += 1.0
        self._last_s[:demand] = view.now_s
        self._demand = demand

    @property
    def elapsed(self) -> float:
        """Time since the first call, in units."""
        return (self._now_s - self._start_s) / self._unit_s

    @property
    def submitted(self) -> int:
        """Number of submissions since the first call."""
        return self._submitted

    def above(self, nodes: int, count: int) -> Floats:
        """Return what was observed of the levels above a number of nodes.

        Returns:
            float64[7, count], for levels `nodes`, `nodes` + 1, ...: the time since the level, in
            units (since the first call, if it never was); the share of time at it, and the number
            of rises to it, forgotten by each of `MEMORY`.
        """
        levels = np.minimum(np.arange(nodes, nodes + count), len(self._last_s) - 1)
        ago = (self._now_s - self._last_s[levels]) / self._unit_s
        return np.vstack([ago, self._shares[:, levels], self._rises[:, levels]])

    def _demand_of(self, view: View) -> int:
        nodes = view.nodes
        busy = int(np.count_nonzero(nodes.jobs))
        waits = sum(job.cores for job in view.queue.values()) / self._node_cores
        return min(busy + int(np.ceil(waits)), len(nodes.jobs))
