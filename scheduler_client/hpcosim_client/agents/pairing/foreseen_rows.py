"""What is foreseen of every pair that differs from the others, each value from 0 to 1.

A share of x by a scale s is x / (x + s). The cost of an option (a job on a node as soon as it
fits there) is the energy that the node takes beyond what it takes anyway, and for every second
by which the last of all running jobs ends later, the power of the whole cluster idle; under
`edp` also its mean power so far, so that d(E T) = T dE + E dT. While more jobs may come, that
end will move anyway: then each of `WEIGHTS` counts so much of its price, and a pair is shown
under all of them.

| column | of | what |
|---|---|---|
| 0 | job | how long it has waited, by time_s |
| 1 | job | requested time, by time_s |
| 2 | job | cores, over those of the largest node |
| 3 | job | how many of its kind wait, by 5 |
| 4, 5, 6 | node | operations a second, static power, dynamic power of a core, over the most |
| 7 | node | free cores, over its cores |
| 8 | node | 1: it computes |
| 9 | node | bandwidth its tasks ask for, by 10^5 MB/s |
| 10 | pair | run time, by time_s |
| 11 | pair | run time if nothing slowed it, over run time |
| 12 | pair | by how much jobs there end later, summed, by time_s |
| 13 | pair | energy the node takes beyond what it takes anyway, by energy_j |
| 14, 15 | pair | end after and before the last of all running jobs, by time_s |
| 16 | pair | end after the soonest of the job's options, by time_s |
| 17, 18 | all | free cores, idle nodes, over all |
| 19, 20 | all | until the last, the next job ends, by time_s |
| 21 | all | how many jobs wait, by 10 |
| 22 | all | 1: no more jobs will come |
| 23 | row | 1: it is the wait action's; columns 0 to 16 and 24 are 0 |
| 24 | node | its cores, over those of the largest |

and from 25 on, five for each weight, of a pair; of the wait action all but the second are 0:

| column | what |
|---|---|
| +0 | cost, by energy_j |
| +1 | least cost of the job's options, over cost; to wait: the most over all pairs |
| +2 | until the job's cheapest option starts, by time_s |
| +3 | least cost of the job's options, over the second least |
| +4 | least cost of the job's options that start now, over cost |

Without a second option +3 is 0, or 1 if the platform has only one node.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.agents.pairing.choices import Choices, Rows, actions_of, share_of
from hpcosim_client.agents.pairing.forecast import Forecast
from hpcosim_client.agents.pairing.grid import NONE, Grid, Waiting
from hpcosim_client.agents.pairing.settings import Pairing
from hpcosim_client.agents.pairing.site import Kind, Site, kind_of
from hpcosim_client.heuristics.node_keys import affordable, run_time_scale
from hpcosim_client.job import Floats, Ints, Job
from hpcosim_client.view import View

REQUESTED, CORES, WAITS, NODE_CORES, FIRST_WEIGHT = 1, 2, 23, 24, 25
COST, LEAST, UNTIL, SECOND, NOW = range(5)
WEIGHTS = np.array([0.0, 0.02, 0.05, 0.2])
PER_WEIGHT = 5
COLUMNS = FIRST_WEIGHT + PER_WEIGHT * len(WEIGHTS)
JOBS_OF_A_KIND = 5.0
JOBS = 10.0
MBPS = 1e5


class ForeseenRows:
    """Shows the pairs of the first job of a kind and the first of equal nodes.

    Args:
        settings: the scales, the objective, and how many kinds are eligible.
        view: that of the run.

    Attributes:
        forecast: what they are foreseen by.
    """

    def __init__(self, settings: Pairing, view: View) -> None:
        self._settings = settings
        self.forecast = Forecast(view.platform)
        self._began_s: float | None = None
        nodes = view.nodes
        of_node = (nodes.ops_per_s, nodes.static_w, nodes.dynamic_w)
        self._of_node: Rows = np.stack(
            [values / max(float(values.max()), 1e-12) for values in of_node], axis=1
        ).astype(np.float32)
        self._scale = run_time_scale(view)
        self._kinds: dict[int, Kind] = {}

    def follow(self, view: View) -> None:
        """Take in what has happened."""
        if self._began_s is None:
            self._began_s = view.now_s
        for job in view.arrived:
            self._kinds[job.job_id] = kind_of(job)
        for job in view.left:
            self._kinds.pop(job.job_id, None)
        self.forecast.follow(view)

    def choices(self, view: View, may_wait: bool) -> Choices | None:
        """Return what there is to choose from; None: nothing fits."""
        waiting = self._waiting(view)
        nodes = self._distinct()
        grid = Grid(waiting, nodes, self._options(view, waiting, nodes))
        now_s, settings = view.now_s, self._settings
        fits = grid.starts_s <= now_s
        fits &= view.nodes.free[nodes] >= np.array([[one.job.cores] for one in waiting])
        fits &= affordable(view, [one.job for one in waiting], view.nodes.jobs)[nodes].T
        slot, place = fits.nonzero()
        if not len(slot):
            return None
        rows = np.zeros((len(slot) + may_wait, COLUMNS), dtype=np.float32)
        self._show_all(rows, view)
        pairs = rows[: len(slot)]
        self._show_pairs(pairs, view, grid, slot, place)
        if may_wait:
            rows[-1, WAITS] = 1.0
            for column in range(FIRST_WEIGHT + LEAST, COLUMNS, PER_WEIGHT):
                rows[-1, column] = pairs[:, column].max()
        jobs = [one.job for one in waiting]
        count = len(view.nodes.free)
        actions = actions_of(slot, nodes[place], settings.window_jobs, count, may_wait)
        return Choices(rows, actions, jobs, count, settings.window_jobs)

    def _waiting(self, view: View) -> list[Waiting]:
        first: dict[Kind, Job] = {}
        counts: dict[Kind, int] = {}
        for job_id, job in view.queue.items():
            kind = self._kinds[job_id]
            if kind in counts:
                counts[kind] += 1
            elif len(counts) < self._settings.window_jobs:
                counts[kind], first[kind] = 1, job
        return [Waiting(kind, first[kind], count) for kind, count in counts.items()]

    def _distinct(self) -> Ints:
        """Return the first node of each state."""
        nodes: dict[tuple[object, ...], int] = {}
        for node, site in enumerate(self.forecast.sites):
            nodes.setdefault(site.state, node)
        return np.fromiter(nodes.values(), dtype=np.int64)

    def _options(self, view: View, waiting: Iterable[Waiting], nodes: Ints) -> NDArray[np.float64]:
        """Return the options, float64[kinds, nodes, 4]; infinite: none, ever."""
        numbers, free = nodes.tolist(), view.nodes.free[nodes].tolist()
        sites: list[Site] = [self.forecast.sites[node] for node in numbers]
        now_s = view.now_s
        return np.array(
            [
                [
                    site.option(now_s, cores, one.kind) or NONE
                    for site, cores in zip(sites, free, strict=True)
                ]
                for one in waiting
            ]
        )

    def _prices_w(self, view: View, horizon_s: float) -> Floats:
        """Return what a second more until the last job ends costs, J, under each weight."""
        forecast = self.forecast
        price_w = forecast.idle_w
        if self._settings.objective == "edp":
            assert self._began_s is not None
            span_s = max(horizon_s - self._began_s, 1e-9)
            price_w += forecast.idle_w + forecast.committed_j / span_s
        return price_w * (np.ones_like(WEIGHTS) if view.no_more_jobs else WEIGHTS)

    def _show_pairs(self, pairs: Rows, view: View, grid: Grid, slot: Ints, place: Ints) -> None:
        now_s, time_s, energy_j = view.now_s, self._settings.time_s, self._settings.energy_j
        horizon_s = self.forecast.horizon_s(now_s)
        pairs[:, 0:4] = self._of_jobs(view, grid.waiting)[slot]
        pairs[:, 4:7] = self._of_node[grid.nodes[place]]
        pairs[:, 7:10] = self._of_sites(view, grid.nodes)[place]
        pairs[:, NODE_CORES] = (view.nodes.capacity[grid.nodes] / view.nodes.largest)[place]
        start_s, end_s, extra_j, delay_s = grid.options[slot, place].T
        run_s = end_s - start_s
        requested_s = np.array([one.kind.requested_s for one in grid.waiting])
        pairs[:, 10] = share_of(run_s, time_s)
        alone_s = requested_s[slot] * self._scale[grid.nodes[place]]
        pairs[:, 11] = np.minimum(alone_s / np.maximum(run_s, 1e-12), 1.0)
        pairs[:, 12] = share_of(delay_s, time_s)
        pairs[:, 13] = share_of(extra_j, energy_j)
        pairs[:, 14] = share_of(end_s - horizon_s, time_s)
        pairs[:, 15] = share_of(horizon_s - end_s, time_s)
        pairs[:, 16] = share_of(end_s - grid.options[:, :, 1].min(axis=1)[slot], time_s)
        prices_w = self._prices_w(view, horizon_s)
        blocks = pairs[:, FIRST_WEIGHT:].reshape(len(pairs), len(WEIGHTS), PER_WEIGHT)
        self._show_costs(blocks, now_s, grid, grid.costs_j(horizon_s, prices_w), slot, place)

    def _show_costs(
        self, blocks: Rows, now_s: float, grid: Grid, costs_j: Floats, slot: Ints, place: Ints
    ) -> None:
        """Fill float32[pairs, weights, 5] with what pairs cost.

        The costs are float64[kinds, nodes, weights]; `slot` and `place` say of which kind, and on
        which of the distinct nodes, the pairs are.
        """
        cost_j = costs_j[slot, place]
        cheapest = costs_j.argmin(axis=1)
        slots = np.arange(len(cheapest))
        least_j = costs_j.min(axis=1)
        until_s = grid.options[slots[:, None], cheapest, 0] - now_s
        second_j = np.partition(costs_j, 1, axis=1)[:, 1] if costs_j.shape[1] > 1 else least_j
        now_j = np.full_like(least_j, np.inf)
        np.minimum.at(now_j, slot, cost_j)
        blocks[..., COST] = share_of(cost_j, self._settings.energy_j)
        blocks[..., LEAST] = least_j[slot] / cost_j
        blocks[..., UNTIL] = share_of(until_s[slot], self._settings.time_s)
        blocks[..., SECOND] = (least_j / second_j)[slot]
        blocks[..., NOW] = now_j[slot] / cost_j

    def _show_all(self, rows: Rows, view: View) -> None:
        nodes, now_s, time_s = view.nodes, view.now_s, self._settings.time_s
        ends_s = [share.end_s for site in self.forecast.sites for share in site.shares]
        rows[:, 17] = nodes.free_cores / nodes.capacity.sum()
        rows[:, 18] = (nodes.jobs == 0).mean()
        if ends_s:
            rows[:, 19] = share_of(max(ends_s) - now_s, time_s)
            rows[:, 20] = share_of(min(ends_s) - now_s, time_s)
        rows[:, 21] = len(view.queue) / (len(view.queue) + JOBS)
        rows[:, 22] = view.no_more_jobs

    def _of_jobs(self, view: View, waiting: Iterable[Waiting]) -> Floats:
        time_s, largest = self._settings.time_s, view.nodes.largest
        return np.array(
            [
                (
                    share_of(view.now_s - one.job.submit_s, time_s),
                    share_of(one.kind.requested_s, time_s),
                    one.kind.cores / largest,
                    one.waiting / (one.waiting + JOBS_OF_A_KIND),
                )
                for one in waiting
            ]
        )

    def _of_sites(self, view: View, nodes: Ints) -> Floats:
        free = view.nodes.free[nodes] / view.nodes.capacity[nodes]
        sites = [self.forecast.sites[node] for node in nodes.tolist()]
        asked = np.array([site.asked_mbps() for site in sites])
        computes = [bool(site.shares) for site in sites]
        return np.stack([free, computes, asked / (asked + MBPS)], axis=1)
