"""Costs of runs of sequences: normalised energy-delay products (Deep-EAS paper, section II-A)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_training.environments.step_jobs import StepJobs
from hpcosim_training.environments.step_machines import Machines
from hpcosim_training.environments.step_runs import NOT_YET, StepRuns


def normalised_edps(runs: StepRuns) -> Floats:
    """Return the normalised energy-delay product of each job, float64[runs, jobs]; 0 for padding.

    All runs must be done.
    """
    each, end = weights(runs.machines, runs.jobs), _end(runs)
    own = np.take_along_axis(each, _machine(runs), axis=1)[:, 0]
    return np.where(runs.jobs.there, own * (end - runs.jobs.submit), 0.0)


def mean_edp(runs: StepRuns) -> float:
    """Return the mean normalised energy-delay product over all jobs of all runs."""
    return float(normalised_edps(runs).sum() / runs.jobs.there.sum())


def weights(machines: Machines, jobs: StepJobs) -> Floats:
    """Return what a step of each job costs on each machine, float64[runs, machines, jobs].

    Times its steps from submission to end it is its normalised energy-delay product.
    """
    least = np.maximum(jobs.expected.min(axis=1), 1)[:, None].astype(np.float64)
    energy = jobs.cores[:, None] * machines.watts[:, None] * jobs.actual
    return np.asarray(energy / least**2)


class Prices(NamedTuple):
    """What a step of each job costs.

    Attributes:
        own: float64[runs, machines, jobs], on each machine, see `weights`.
        least: float64[runs, jobs], on the machine where that is least.
    """

    own: Floats
    least: Floats


def prices(runs: StepRuns) -> Prices:
    """Return what a step of each job of some runs costs."""
    own = weights(runs.machines, runs.jobs)
    return Prices(own, own.min(axis=1))


def accrued(runs: StepRuns, price: Prices, some: Ints, steps: Ints) -> Floats:
    """Return what some runs have cost before a step, float64[runs] (paper, equation 2, summed).

    Each step costs the prices of all jobs in the system. A job that is not bound counts as if on
    the machine where that is least. The step in which it is bound costs the rest of what it has
    accrued on its own machine. So a run costs the sum of its normalised energy-delay products.

    Args:
        runs: the runs.
        price: their `prices`.
        some: int64[runs], numbers of runs.
        steps: int64[runs], the step of each; not later than now, unless the run is done.
    """
    at, bound, start = steps[:, None], runs.bound[some], runs.start[some]
    place = some[:, None], np.maximum(runs.machine[some], 0), np.arange(bound.shape[1])
    is_bound = (bound != NOT_YET) & (bound < at)
    ends = np.where(is_bound & (start != NOT_YET), start + runs.jobs.actual[place], at)
    lasted = np.maximum(np.minimum(ends, at) - runs.jobs.submit[some], 0)
    cost = np.where(is_bound, price.own[place], price.least[some]) * lasted
    total: Floats = np.where(runs.jobs.there[some], cost, 0.0).sum(axis=1)
    return total


def costs_to_go(runs: StepRuns) -> Floats:
    """Return the cost of each run from each step to its end, float64[runs, steps]; 0 after it.

    All runs must be done.
    """
    price, some = prices(runs), np.arange(len(runs.now))
    last = int(_end(runs)[runs.jobs.there].max()) + 1
    so_far = [accrued(runs, price, some, np.full(len(some), step)) for step in range(last + 1)]
    return so_far[-1][:, None] - np.stack(so_far, axis=1)


def _machine(runs: StepRuns) -> Ints:
    machine: Ints = np.maximum(runs.machine, 0)[:, None]
    return machine


def _end(runs: StepRuns) -> Ints:
    actual = np.take_along_axis(runs.jobs.actual, _machine(runs), axis=1)[:, 0]
    end: Ints = runs.start + actual
    return end
