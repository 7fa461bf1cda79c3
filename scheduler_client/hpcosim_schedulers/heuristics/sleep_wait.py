"""The head of the queue below a power cap: whether it waits until nodes are switched off."""

from __future__ import annotations

import math

import numpy as np

from hpcosim_client.alarm import PolicyAlarm
from hpcosim_client.job import Floats, Job
from hpcosim_client.signals import Signal
from hpcosim_client.view import View
from hpcosim_schedulers.heuristics.power_bounds import PowerBounds
from hpcosim_schedulers.heuristics.power_profile import ROUNDING

MOST_WAIT_S = 86_400.0
"""Longest wait of a job for nodes to be switched off while no job runs, simulated seconds.

A power manager may leave nodes on for ever; the job is rejected then.
"""


class SleepWait:
    """The wait of a job that fits below the cap only while other nodes sleep.

    Attributes:
        job_id: number of the job that waits; None: no job waits.
    """

    def __init__(self) -> None:
        self.job_id: int | None = None
        self._until_s = math.inf
        self._alarm = PolicyAlarm()

    def begins(self, view: View, bounds: PowerBounds, cap: Signal, job: Job) -> bool:
        """Return whether a job, the head of the queue, waits; it does not fit at present.

        Args:
            view: the view.
            bounds: power of the nodes.
            cap: the power cap, W.
            job: the job.
        """
        nodes = view.nodes
        is_on = np.array([state != "sleeping" for state in nodes.power])
        may_change = view.power_exchange.switches and bool((nodes.can_sleep & is_on).any())
        if not may_change or least_power_w(view, bounds, job) > cap.values.max() * (1.0 + ROUNDING):
            self.end(view)
            return False
        if self.job_id != job.job_id or view.running:
            self.job_id, self._until_s = job.job_id, math.inf
        if not view.running:
            self._until_s = min(self._until_s, view.now_s + MOST_WAIT_S)
        if view.now_s >= self._until_s:
            self.end(view)
            return False
        self._alarm.set_or_cancel(view, self._until_s)
        return True

    def end(self, view: View) -> None:
        """End the wait: the job starts or is rejected, or it is not the head any more."""
        self.job_id = None
        self._until_s = math.inf
        self._alarm.cancel(view)


def least_power_w(view: View, bounds: PowerBounds, job: Job) -> float:
    """Return the power of a job alone on nodes that are on, while the others sleep, W."""
    nodes, every = view.nodes, np.arange(len(view.nodes.free))
    asleep_w: Floats = np.minimum(bounds.resting_w(["sleeping"] * len(every)), bounds.awake_w)
    added_w = bounds.computing_w(every, nodes.capacity) - asleep_w
    allocation = nodes.alone(job, np.argsort(added_w / nodes.capacity, kind="stable"))
    if allocation is None:
        return math.inf
    computing_w = bounds.computing_w(allocation.nodes, allocation.tasks)
    return float(asleep_w.sum() + (computing_w - asleep_w[allocation.nodes]).sum())
