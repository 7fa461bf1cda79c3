"""The features of Lopez, Stafford, Bosque 2025, table 1, each scaled to 0 to 1.

| column | feature | value |
|---|---|---|
| 0 | wait time of the job t | t / (t + time_s) |
| 1 | requested time t | t / (t + time_s) |
| 2 | submit time, t after the first submission | t / (t + time_s) |
| 3 | requested cores | / cores of the largest node |
| 4 | availability: free cores of the node | / its cores |
| 5 | clock rate: operations per second of a core | / those of the fastest |
| 6 | can schedule | 1 |
| 7 | static power; idle power while the node is idle | / the maximum of all nodes |
| 8 | dynamic power of the cores with a task | / the maximum of all nodes at full load |
| 9 | energy estimate e of the pair, equation 1 | e / (e + energy_j) |

With `papers_no_energy` the last three are missing. Invalid pairs have no row; the networks treat
them as rows of zeros, as they do the row of the wait action.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from hpcosim_client.job import Floats, Job
from hpcosim_client.nodes import NodePool
from hpcosim_client.view import View
from hpcosim_papers.ineps.agent.choices import Choices, Rows, actions_of, share_of
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_schedulers.heuristics.node_keys import energy_estimates_j

COLUMNS = 10
ENERGY_COLUMNS = 3


def columns(settings: Pairing) -> int:
    """Return the number of columns of a row."""
    return COLUMNS - ENERGY_COLUMNS if settings.sees == "papers_no_energy" else COLUMNS


class PaperFeatures:
    """Features of every pair of an eligible job and a node with enough free cores.

    Args:
        settings: the settings of the agent.
        view: the view, for the properties of its nodes.
    """

    def __init__(self, settings: Pairing, view: View) -> None:
        self._settings = settings
        nodes, groups = view.nodes, view.platform.nodes
        self._idle_w: Floats = np.array([group.idle_w for group in groups])[nodes.group]
        self._clock = nodes.ops_per_s / nodes.ops_per_s.max()
        self._first_s: float | None = None

    def choices(self, view: View, may_wait: bool) -> Choices | None:
        """Return the valid actions; None: no job fits."""
        settings, nodes = self._settings, view.nodes
        if self._first_s is None:
            self._first_s = view.now_s
        jobs = list(islice(view.queue.values(), settings.window_jobs))
        cores = np.array([[job.cores] for job in jobs])
        requested_s = np.array([[job.requested_s] for job in jobs])
        estimates_j = energy_estimates_j(view, requested_s, cores, nodes.jobs)
        most_j = np.array([[job.max_energy_j] for job in jobs])
        slot, node = ((nodes.free >= cores) & (estimates_j <= most_j)).nonzero()
        if not len(slot):
            return None
        rows = np.zeros((len(slot) + may_wait, COLUMNS), dtype=np.float32)
        pairs = rows[: len(slot)]
        pairs[:, :4] = self._of_jobs(jobs, view)[slot]
        pairs[:, 4:9] = self._of_nodes(nodes)[node]
        pairs[:, 9] = share_of(estimates_j[slot, node], settings.energy_j)
        rows = rows[:, : columns(settings)]
        count = len(nodes.free)
        actions = actions_of(slot, node, settings.window_jobs, count, may_wait)
        return Choices(rows, actions, jobs, count, settings.window_jobs)

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
