"""The features of Lopez, Stafford, Bosque 2025, table 1, each scaled to between 0 and 1.

| column | feature | value |
|---|---|---|
| 0 | wait time of the job t | t / (t + time_s) |
| 1 | requested time t | t / (t + time_s) |
| 2 | submit time, t after the first submission | t / (t + time_s) |
| 3 | requested cores | over those of the largest node |
| 4 | availability: free cores of the node | over its cores |
| 5 | clock rate: operations a core does in a second | over those of the fastest |
| 6 | can schedule | 1 |
| 7 | static power, that of an idle node while it is | over the most of all nodes |
| 8 | dynamic power of the cores that have a task | over the most that a node's cores can draw |
| 9 | energy estimate e of the pair, equation 1 | e / (e + energy_j) |

Without energy the last three are not there. A pair that may not be chosen has no row: to the
networks it is one of zeros, as is the row of the wait action.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.agents.pairing.choices import Choices, Rows
from hpcosim_client.agents.pairing.scales import share_of
from hpcosim_client.agents.pairing.settings import Pairing
from hpcosim_client.heuristics.node_keys import run_time_scale
from hpcosim_client.job import Floats, Job
from hpcosim_client.nodes import NodePool
from hpcosim_client.view import View

COLUMNS = 10
ENERGY_COLUMNS = 3


def columns(settings: Pairing) -> int:
    """Return how many columns a row has."""
    return COLUMNS - ENERGY_COLUMNS if settings.sees == "papers_no_energy" else COLUMNS


class PapersRows:
    """Shows every pair of an eligible job with a node that has room for it.

    Args:
        settings: the scales, and how many jobs are eligible.
        view: that of the run, for what its nodes are like.
    """

    def __init__(self, settings: Pairing, view: View) -> None:
        self._settings = settings
        nodes, groups = view.nodes, view.platform.nodes
        self._idle_w: Floats = np.array([group.idle_w for group in groups])[nodes.group]
        self._scale = run_time_scale(view)
        self._clock = nodes.ops_per_s / nodes.ops_per_s.max()
        self._first_s: float | None = None

    def choices(self, view: View, may_wait: bool) -> Choices | None:
        """Return what there is to choose from; None: nothing fits."""
        settings, nodes = self._settings, view.nodes
        if self._first_s is None:
            self._first_s = view.now_s
        jobs = list(islice(view.queue.values(), settings.window_jobs))
        estimates_j = self._estimates_j(jobs, nodes)
        slot, node = self._feasible(jobs, nodes, estimates_j).nonzero()
        if not len(slot):
            return None
        rows = np.zeros((len(slot) + may_wait, COLUMNS), dtype=np.float32)
        pairs = rows[: len(slot)]
        pairs[:, :4] = self._of_jobs(jobs, view)[slot]
        pairs[:, 4:9] = self._of_nodes(nodes)[node]
        pairs[:, 9] = share_of(estimates_j[slot, node], settings.energy_j)
        rows = rows[:, : columns(settings)]
        count = len(nodes.free)
        actions = slot * count + node
        if may_wait:
            actions = np.append(actions, settings.window_jobs * count)
        return Choices(rows, actions, jobs, count, settings.window_jobs)

    def _estimates_j(self, jobs: Sequence[Job], nodes: NodePool) -> Floats:
        requested_s = np.array([[job.requested_s] for job in jobs])
        cores = np.array([[job.cores] for job in jobs])
        power_w = nodes.static_w / (nodes.jobs + 1.0) + cores * nodes.dynamic_w
        return requested_s * self._scale * power_w

    def _feasible(
        self, jobs: Sequence[Job], nodes: NodePool, estimates_j: Floats
    ) -> NDArray[np.bool_]:
        cores = np.array([[job.cores] for job in jobs])
        most_j = np.array([[job.max_energy_j] for job in jobs])
        return (nodes.free >= cores) & (estimates_j <= most_j)

    def _of_jobs(self, jobs: Sequence[Job], view: View) -> Rows:
        time_s, largest = self._settings.time_s, view.nodes.largest
        assert self._first_s is not None
        return np.array(
            [
                (
                    share_of(view.now_s - job.submit_s, time_s),
                    share_of(job.requested_s, time_s),
                    share_of(max(job.submit_s - self._first_s, 0.0), time_s),
                    job.cores / largest,
                )
                for job in jobs
            ],
            dtype=np.float32,
        )

    def _of_nodes(self, nodes: NodePool) -> Rows:
        busy = nodes.capacity - nodes.free
        static_w = np.where(nodes.jobs > 0, nodes.static_w, self._idle_w)
        most_static_w = max(float(nodes.static_w.max()), 1e-12)
        most_dynamic_w = max(float((nodes.capacity * nodes.dynamic_w).max()), 1e-12)
        return np.stack(
            [
                nodes.free / nodes.capacity,
                self._clock,
                np.ones(len(busy)),
                static_w / most_static_w,
                busy * nodes.dynamic_w / most_dynamic_w,
            ],
            axis=1,
            dtype=np.float32,
        )
