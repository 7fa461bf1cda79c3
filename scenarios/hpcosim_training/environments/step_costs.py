"""Costs of runs of sequences: normalised energy-delay products (Deep-EAS paper, section II-A)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints
from hpcosim_training.environments.step_jobs import StepJobs
from hpcosim_training.environments.step_machines import Machines
from hpcosim_training.environments.step_runs import NOT_YET, StepRuns


def normalised_edps(runs: StepRuns) -> Floats:
    """Return the normalised energy-delay product of each job, float64[runs, jobs]; 0 for padding.

    All runs must be done.
    """
    each, end = weights(runs.machines, runs.jobs), _end(runs, slice(None))
    own = np.take_along_axis(each, _machine(runs, slice(None)), axis=1)[:, 0]
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


def accrued(runs: StepRuns, weight: Floats, some: Ints, steps: Ints) -> Floats:
    """Return what some runs have cost before a step, float64[runs] (paper, equation 2, summed).

    Each step costs the weights of all jobs in the system. A job that is not bound counts as if on
    the machine where that is least. The step in which it is bound costs the rest of what it has
    accrued on its own machine. So a run costs the sum of its normalised energy-delay products.

    Args:
        runs: the runs.
        weight: their `weights`.
        some: int64[runs], numbers of runs.
        steps: int64[runs], the step of each; not later than now, unless the run is done.
    """
    at, jobs = steps[:, None], runs.jobs.take(some)
    each = weight[some]
    own = np.take_along_axis(each, _machine(runs, some), axis=1)[:, 0]
    bound, begun = runs.bound[some], runs.start[some] != NOT_YET
    is_bound = (bound != NOT_YET) & (bound < at)
    until = np.where(begun & is_bound, np.minimum(_end(runs, some), at), at)
    cost = np.where(is_bound, own, each.min(axis=1)) * np.maximum(until - jobs.submit, 0)
    total: Floats = np.where(jobs.there, cost, 0.0).sum(axis=1)
    return total


def costs_to_go(runs: StepRuns) -> Floats:
    """Return the cost of each run from each step to its end, float64[runs, steps]; 0 after it.

    All runs must be done.
    """
    weight, some = weights(runs.machines, runs.jobs), np.arange(len(runs.now))
    last = int(_end(runs, slice(None))[runs.jobs.there].max()) + 1
    so_far = [accrued(runs, weight, some, np.full(len(some), step)) for step in range(last + 1)]
    return so_far[-1][:, None] - np.stack(so_far, axis=1)


def _machine(runs: StepRuns, some: Ints | slice) -> Ints:
    machine: Ints = np.maximum(runs.machine[some], 0)[:, None]
    return machine


def _end(runs: StepRuns, some: Ints | slice) -> NDArray[np.int64]:
    actual = np.take_along_axis(runs.jobs.actual[some], _machine(runs, some), axis=1)[:, 0]
    end: Ints = runs.start[some] + actual
    return end
