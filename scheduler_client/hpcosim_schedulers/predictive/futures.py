"""Samples of what comes: submissions with sizes and run times, and the ends of running jobs."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from hpcosim_client.arrays import Floats, Ints
from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_schedulers.forecast import ViewForecast
from hpcosim_schedulers.forecast.releases import RAN

# How far the demand may rise above all that was seen: what is known before there is a forecast.

EXPONENT = 1.5
"""Exponent of the distribution of the ratio of a record to the one before it."""
SHORTEST_S = 1.0
"""Least time of observation, s."""


class Surges(NamedTuple):
    """Submissions that raise the demand to its next records, sorted by sample and time.

    Attributes:
        sample: int64[n], the sample of each.
        after_s: float64[n], its time after now, s.
        nodes: float64[n], its size in nodes.
    """

    sample: Ints
    after_s: Floats
    nodes: Floats


class Records:
    """The highest demand so far, and samples of the higher ones to come.

    Whatever a stationary process is, its highest value within two times s and t after one another
    falls into the latter with probability t / (s + t). So after a time s of observation, records
    come at the rate 1 / (s + t) (Renyi 1962, Theorie des elements saillants d'une suite
    d'observations). The ratio of a record to the one before it has the scale-free distribution
    P(ratio > x) = x ** -`EXPONENT`. As s grows, records become rare.

    Args:
        nodes: number of nodes of the cluster, the upper bound of the demand.
    """

    def __init__(self, nodes: int) -> None:
        self._nodes = float(nodes)
        self._began_s = math.nan
        self._most = 0.0
        self._mean_nodes = 1.0

    def update(self, now_s: float, demand: float, jobs: int) -> None:
        """Take the demand at an instant.

        Args:
            demand: nodes that the running and the waiting jobs need together, >= 0.
            jobs: the number of these jobs, >= 1 if they need nodes.
        """
        if math.isnan(self._began_s):
            self._began_s = now_s
        self._most = max(self._most, demand)
        mean_nodes = demand / max(jobs, 1)
        if mean_nodes > 0.0:  # also where the quotient of a tiny demand is 0
            self._mean_nodes = mean_nodes

    def surges(
        self, now_s: float, horizon_s: float, held: float, samples: int, generator: Generator
    ) -> Surges:
        """Return jobs of the present mean size that raise the demand to its next records."""
        sample, after_s, level = self._drawn(now_s, horizon_s, samples, generator)
        level = np.clip(level, held, max(self._nodes, held))
        is_first = np.diff(sample, prepend=-1) > 0
        nodes = level - np.where(is_first, held, np.roll(level, 1))
        jobs = np.ceil(nodes / self._mean_nodes).astype(np.int64)
        size = nodes / np.maximum(jobs, 1)
        return Surges(np.repeat(sample, jobs), np.repeat(after_s, jobs), np.repeat(size, jobs))

    def _drawn(
        self, now_s: float, horizon_s: float, samples: int, generator: Generator
    ) -> tuple[Ints, Floats, Floats]:
        """Return sample, time after now (s) and demand of each record, sorted."""
        seen_s = max(now_s - self._began_s, SHORTEST_S)
        expected = math.log1p(horizon_s / seen_s)  # integral of the rate
        counts = generator.poisson(expected, samples)
        sample = np.repeat(np.arange(samples), counts)
        after_s = seen_s * np.expm1(expected * generator.random(len(sample)))
        after_s = after_s[np.lexsort((after_s, sample))]
        steps = np.append(0.0, generator.exponential(1.0 / EXPONENT, len(sample)).cumsum())
        before = steps[counts.cumsum() - counts][sample]
        return sample, after_s, self._most * np.exp(steps[1:] - before)


REMEMBERED = 512
"""Number of last jobs whose ratios of run time to requested time are drawn from."""
UNREQUESTED_S = 3600.0
"""Run time of a job without a request before any job has ended, s."""


class Futures(NamedTuple):
    """Samples of the future. Times are seconds after now.

    Attributes:
        sample: int64[n], the sample of each submission, ascending.
        after_s: float64[n], its time, ascending within a sample.
        nodes: float64[n], its size in nodes; less than 1 for a job on a part of a node.
        run_s: float64[n], its run time.
        ends_s: float64[m, jobs], the end of each running job.
        held: float64[jobs], the nodes that each running job holds.
    """

    samples: int
    sample: Ints
    after_s: Floats
    nodes: Floats
    run_s: Floats
    ends_s: Floats
    held: Floats


class FutureSource(Protocol):
    """What a plan draws its futures from."""

    def update(self, view: View) -> None:
        """Take what has happened since the last call."""

    def drawn(self, now_s: float, horizon_s: float) -> Futures:
        """Return samples of the future up to a horizon, seconds after `now_s`."""


class FutureSampler:
    """Draws futures from forecasts that learn online; see `hpcosim_schedulers.forecast`.

    The run time of a submission is its requested time multiplied by the ratio of one of the last
    jobs that ended. Submissions that raise the demand above all that was seen come in addition,
    and do not end; see `Records`.
    """

    def __init__(self, samples: int, view: View) -> None:
        self._samples, self._generator = samples, view.rng
        self._node_cores = float(view.nodes.capacity.mean())
        self._forecast = ViewForecast(self._nodes)
        self._records = Records(len(view.nodes.capacity))
        self._ratios: list[float] = []
        self._runs_s: list[float] = []

    def update(self, view: View) -> None:
        """Take what has happened since the last call; see `ViewForecast.update`."""
        self._forecast.update(view)
        waiting, running = view.queue.values(), float(self._forecast.releases.sizes.sum())
        demand = running + sum(self._nodes(job) for job in waiting)
        self._records.update(view.now_s, demand, len(waiting) + len(view.running))
        for job in view.left:
            if job.ended_as in RAN:
                run_s = view.now_s - job.start_s - job.suspended_s
                self._runs_s.append(run_s)
                if 0.0 < job.requested_s < np.inf:
                    self._ratios.append(run_s / job.requested_s)
        del self._runs_s[:-REMEMBERED], self._ratios[:-REMEMBERED]

    def drawn(self, now_s: float, horizon_s: float) -> Futures:
        """Return samples of the future up to a horizon, seconds after `now_s`."""
        forecast, generator = self._forecast, self._generator
        running = forecast.drawn_ends(now_s, self._samples, generator)
        jobs = forecast.arrivals.scenarios(now_s, horizon_s, self._samples, generator, running)
        ends_s = running.ends_s - now_s
        held = forecast.releases.sizes
        surges = self._records.surges(now_s, horizon_s, float(held.sum()), self._samples, generator)
        runs_s = self._drawn_runs_s(jobs.requested_s)
        sample = np.concatenate([jobs.sample, surges.sample])
        after_s = np.concatenate([jobs.submit_s - now_s, surges.after_s])
        order = np.lexsort((after_s, sample))
        return Futures(
            self._samples,
            sample[order],
            after_s[order],
            np.concatenate([jobs.size, surges.nodes])[order],
            np.concatenate([runs_s, np.full(len(surges.sample), np.inf)])[order],
            ends_s,
            held,
        )

    def _drawn_runs_s(self, requested_s: Floats) -> Floats:
        found = requested_s * self._drawn(self._ratios, len(requested_s), 1.0)
        unknown = ~np.isfinite(found)
        found[unknown] = self._drawn(self._runs_s, int(unknown.sum()), UNREQUESTED_S)
        return found

    def _drawn(self, values: list[float], count: int, otherwise: float) -> Floats:
        if not values:
            return np.full(count, otherwise)
        return np.array(values)[self._generator.integers(len(values), size=count)]

    def _nodes(self, job: Job) -> float:
        if job.allocation is not None and job.placement == "whole_nodes":
            return float(len(job.allocation.nodes))
        nodes = job.cores / self._node_cores
        return float(np.ceil(nodes)) if job.placement == "whole_nodes" else nodes
