"""Samples of what comes: submissions with sizes and run times, and the ends of running jobs."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from hpcosim_client.arrays import Floats, Ints
from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_schedulers.forecast import ViewForecast
from hpcosim_schedulers.forecast.watching import RAN
from hpcosim_schedulers.predictive.records import Records

REMEMBERED = 512
"""Number of last jobs whose ratios of run time to requested time are drawn from."""
UNREQUESTED_S = 3600.0
"""Run time of a job without a request before any job has ended, s."""


class Futures(NamedTuple):
    """Samples of the future. Times are seconds after now.

    Attributes:
        samples: number of samples m.
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

    Args:
        samples: number of samples of each future, >= 1.
        view: the view; its generator is the source of randomness.
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
