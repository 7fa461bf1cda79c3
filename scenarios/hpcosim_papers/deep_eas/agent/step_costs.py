"""Costs of step-based runs: normalised energy-delay products (Deep-EAS paper, section II-A)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_papers.deep_eas.agent.step_jobs import Machines, StepJobs
from hpcosim_papers.deep_eas.agent.step_runs import UNSET, StepRuns


def normalised_edps(runs: StepRuns) -> Floats:
    """Return the normalised energy-delay product of each job, float64[runs, jobs]; 0 for padding.

    Requires that all runs are done.
    """
    each, end = weights(runs.machines, runs.jobs), _end(runs)
    own = np.take_along_axis(each, _machine(runs), axis=1)[:, 0]
    return np.where(runs.jobs.valid, own * (end - runs.jobs.submit), 0.0)


def mean_edp(runs: StepRuns) -> float:
    """Return the mean normalised energy-delay product over all jobs of all runs."""
    return float(normalised_edps(runs).sum() / runs.jobs.valid.sum())


def weights(machines: Machines, jobs: StepJobs) -> Floats:
    """Return the cost per step of each job on each machine, float64[runs, machines, jobs].

    The cost per step, multiplied by the steps from submission to end, is the job's normalised
    energy-delay product.
    """
    least = np.maximum(jobs.expected.min(axis=1), 1)[:, None].astype(np.float64)
    energy = jobs.cores[:, None] * machines.watts[:, None] * jobs.actual
    return np.asarray(energy / least**2)


class CostRates(NamedTuple):
    """Cost per step of each job.

    Attributes:
        own: float64[runs, machines, jobs], on each machine, see `weights`.
        least: float64[runs, jobs], on the cheapest machine.
    """

    own: Floats
    least: Floats


def cost_rates(runs: StepRuns) -> CostRates:
    """Return the cost per step of each job."""
    own = weights(runs.machines, runs.jobs)
    return CostRates(own, own.min(axis=1))


def accrued_cost(runs: StepRuns, rates: CostRates, selected: Ints, steps: Ints) -> Floats:
    """Return the cost of the selected runs before a step, float64[selected].

    This is equation 2 of the paper, summed over the steps. Each step costs the sum of the rates of
    all jobs in the system. An unbound job has the rate of its cheapest machine. The step in which a
    job is bound adds the difference to the rate of its actual machine since submission. The total
    of a run is the sum of its normalised energy-delay products.

    Args:
        runs: the runs.
        rates: their `cost_rates`.
        selected: int64[selected], indices of runs.
        steps: int64[selected], the step of each; not after `runs.now`, unless the run is done.
    """
    at, bound, start = steps[:, None], runs.bound[selected], runs.start[selected]
    place = selected[:, None], np.maximum(runs.machine[selected], 0), np.arange(bound.shape[1])
    is_bound = (bound != UNSET) & (bound < at)
    ends = np.where(is_bound & (start != UNSET), start + runs.jobs.actual[place], at)
    lasted = np.maximum(np.minimum(ends, at) - runs.jobs.submit[selected], 0)
    cost = np.where(is_bound, rates.own[place], rates.least[selected]) * lasted
    total: Floats = np.where(runs.jobs.valid[selected], cost, 0.0).sum(axis=1)
    return total


def costs_to_go(runs: StepRuns) -> Floats:
    """Return the remaining cost of each run at each step, float64[runs, steps]; 0 after its end.

    Requires that all runs are done.
    """
    rates, every = cost_rates(runs), np.arange(len(runs.now))
    last = int(_end(runs)[runs.jobs.valid].max()) + 1
    costs = [accrued_cost(runs, rates, every, np.full(len(every), at)) for at in range(last + 1)]
    return costs[-1][:, None] - np.stack(costs, axis=1)


def _machine(runs: StepRuns) -> Ints:
    machine: Ints = np.maximum(runs.machine, 0)[:, None]
    return machine


def _end(runs: StepRuns) -> Ints:
    actual = np.take_along_axis(runs.jobs.actual, _machine(runs), axis=1)[:, 0]
    end: Ints = runs.start + actual
    return end
