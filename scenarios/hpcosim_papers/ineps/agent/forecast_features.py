"""Forecast features of every distinct pair of a job and a node, each from 0 to 1.

"x by s" is x / (x + s). An option is a job that starts on a node as soon as it fits. Its cost is
the additional energy of the node, and a price for each second by which it delays the end of the
last running job. The price is the idle power of the cluster; with `edp` also its mean power so far,
as d(E T) = T dE + E dT. While more jobs may be submitted, that end will move anyway: costs are then
computed with the price times each of `WEIGHTS`, and a pair has the features of all of them.

| column | of | feature |
|---|---|---|
| 0 | job | wait so far, by time_s |
| 1 | job | requested time, by time_s |
| 2 | job | cores / cores of the largest node |
| 3 | job | number of waiting jobs of its kind, by 5 |
| 4, 5, 6 | node | operations per second, static power, dynamic power of a core, each / maximum |
| 7 | node | free cores / cores |
| 8 | node | 1: it computes |
| 9 | node | bandwidth that its tasks need, by 10^5 MB/s |
| 10 | pair | run time, by time_s |
| 11 | pair | run time without contention / run time |
| 12 | pair | delay of the node's other jobs, summed, by time_s |
| 13 | pair | additional energy of the node, by energy_j |
| 14, 15 | pair | time that it ends after, before the last running job, by time_s |
| 16 | pair | time that it ends after the earliest end of the job's options, by time_s |
| 17, 18 | all | free cores, idle nodes, each / all |
| 19, 20 | all | time until the end of the last, of the next job, by time_s |
| 21 | all | number of waiting jobs, by 10 |
| 22 | all | 1: no more jobs will be submitted |
| 23 | row | 1: the wait action; columns 0 to 16 and 24 are then 0 |
| 24 | node | cores / cores of the largest node |

From column 25 on, a pair has five features for each weight. For the wait action, all but the second
are 0.

| column | feature |
|---|---|
| +0 | cost, by energy_j |
| +1 | least cost of the job's options / cost; wait action: the maximum over all pairs |
| +2 | time until the job's cheapest option starts, by time_s |
| +3 | least cost of the job's options / second least |
| +4 | least cost of the job's options that start now / cost |

Without a second option +3 is 0, or 1 on a platform with one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints, Job
from hpcosim_client.view import View
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_papers.ineps.agent.site import ForecastNode, Kind, Option, kind_of
from hpcosim_protocol import Platform
from hpcosim_schedulers.agents.networks import Rows
from hpcosim_schedulers.heuristics.job_node import affordable, run_time_scale

NONE = Option(np.inf, np.inf, np.inf, np.inf)


class Waiting(NamedTuple):
    """The waiting jobs of a kind."""

    kind: Kind
    job: Job
    waiting: int


class Grid(NamedTuple):
    """Kinds of waiting jobs by distinct nodes.

    Attributes:
        nodes: int64[nodes], numbers of the distinct nodes.
        options: float64[kinds, nodes, 4], the fields of `Option`; `NONE`: the job does not fit.
    """

    waiting: list[Waiting]
    nodes: Ints
    options: NDArray[np.float64]

    @property
    def starts_s(self) -> Floats:
        """Start of each option, float64[kinds, nodes], simulated seconds."""
        starts: Floats = self.options[:, :, 0]
        return starts

    def costs_j(self, horizon_s: float, prices_w: Floats) -> Floats:
        """Return the cost of each option, float64[kinds, nodes, weights], in J."""
        ends_s, extra_j = self.options[..., 1], self.options[..., 2]
        later_s = np.maximum(ends_s - horizon_s, 0.0)
        # Infinite times (`NONE`) are replaced, because infinity times a price of 0 is NaN.
        costs = np.where(later_s[..., None] < np.inf, later_s[..., None], 0.0) * prices_w
        return np.maximum(extra_j[..., None] + costs, 1e-9)


REQUESTED, CORES, WAITS, NODE_CORES, FIRST_WEIGHT = 1, 2, 23, 24, 25
COST, LEAST, UNTIL, SECOND, NOW = range(5)
WEIGHTS = np.array([0.0, 0.02, 0.05, 0.2])
PER_WEIGHT = 5
COLUMNS = FIRST_WEIGHT + PER_WEIGHT * len(WEIGHTS)
JOBS_OF_A_KIND = 5.0
JOBS = 10.0
MBPS = 1e5


class ForecastFeatures:
    """Features of the pairs of the first job of each kind and the first of equal nodes."""

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
        """Apply the events since the last call."""
        if self._began_s is None:
            self._began_s = view.now_s
        for job in view.arrived:
            self._kinds[job.job_id] = kind_of(job)
        for job in view.left:
            self._kinds.pop(job.job_id, None)
        self.forecast.follow(view)

    def choices(self, view: View, may_wait: bool) -> Choices | None:
        """Return the valid actions; None: no job fits."""
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
        """Return the options, float64[kinds, nodes, 4]; infinite: the job does not fit."""
        numbers, free = nodes.tolist(), view.nodes.free[nodes].tolist()
        sites: list[ForecastNode] = [self.forecast.sites[node] for node in numbers]
        now_s = view.now_s
        places = list(zip(sites, free, strict=True))
        return np.array(
            [
                [site.option(now_s, cores, one.kind) or NONE for site, cores in places]
                for one in waiting
            ]
        )

    def _prices_w(self, view: View, horizon_s: float) -> Floats:
        """Return the price of a second until the last job ends, float64[weights], in J/s."""
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
        """Fill the features of costs."""
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
        requested = np.array([site.requested_mbps() for site in sites])
        computes = [bool(site.shares) for site in sites]
        return np.stack([free, computes, requested / (requested + MBPS)], axis=1)


class Choices(NamedTuple):
    """The valid pairs of a job and a node; the wait action, if valid, is last.

    Attributes:
        rows: float32[choices, features], features from 0 to 1.
        actions: int64[choices], ascending: slot * nodes + node; slots * nodes: wait.
        jobs: the eligible jobs, by slot.
        slots: number of slots, including those without a job.
    """

    rows: Rows
    actions: Ints
    jobs: Sequence[Job]
    nodes: int
    slots: int

    @property
    def waiting(self) -> int:
        """The number of the wait action."""
        return self.slots * self.nodes

    def pair(self, choice: int) -> tuple[Job, int] | None:
        """Return job and node of a choice; None: wait."""
        action = int(self.actions[choice])
        if action == self.waiting:
            return None
        slot, node = divmod(action, self.nodes)
        return self.jobs[slot], node


def actions_of(slot: Ints, node: Ints, slots: int, nodes: int, may_wait: bool) -> Ints:
    """Return the numbers of actions; see `Choices`.

    Args:
        slot: int64[pairs], slot of each pair.
        node: int64[pairs], node of each pair.
        may_wait: whether the wait action is valid.
    """
    actions = slot * nodes + node
    return np.append(actions, slots * nodes) if may_wait else actions


def share_of(value: Floats | float, scale: float) -> Floats | float:
    """Return max(x, 0) / (max(x, 0) + scale), from 0 to 1."""
    value = np.maximum(value, 0.0)
    return value / (value + scale)


class Forecast:
    """Forecasts of all nodes, updated at every call of the policy.

    Attributes:
        sites: the forecast of each node, by number.
        idle_w: power of the idle cluster, in W.
        committed_j: forecast of the energy beyond idle power of all jobs started so far, in J.
    """

    def __init__(self, platform: Platform) -> None:
        slowest = platform.slowest_ops_per_s
        self.sites = [
            ForecastNode(group, node, slowest)
            for group, node in enumerate(platform.nodes)
            for _ in range(node.count)
        ]
        self.idle_w = sum(node.count * node.idle_w for node in platform.nodes)
        self.committed_j = 0.0
        self._where: dict[int, int] = {}

    def follow(self, view: View) -> None:
        """Apply the events since the last call."""
        now_s = view.now_s
        if view.left or view.rejected:
            for job_id in [job_id for job_id in self._where if job_id not in view.running]:
                self.sites[self._where.pop(job_id)].remove(now_s, job_id)
        if len(self._where) < len(view.running):
            for job_id, job in view.running.items():
                if job_id not in self._where and job.allocation is not None:
                    self.place(view, job, int(job.allocation.nodes[0]))
        for site in self.sites:
            if site.shares and site.late(now_s):
                site.look_again(now_s)

    def place(self, view: View, job: Job, node: int) -> None:
        """Add a job that starts on a node."""
        site, kind = self.sites[node], kind_of(job)
        option = site.option(view.now_s, int(view.nodes.free[node]) + job.cores, kind)
        assert option is not None, "the job fits"
        self.committed_j += option.extra_j
        site.add(view.now_s, job.job_id, kind)
        self._where[job.job_id] = node

    def horizon_s(self, now_s: float) -> float:
        """Return the forecast end of the last running job, at least `now_s`, simulated seconds."""
        return max(now_s, max(site.busy_until_s for site in self.sites))
