"""What runs of sequences came to: rewards, and normalised energy-delay products."""

from __future__ import annotations

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_training.deep_eas.jobs import StepJobs
from hpcosim_training.deep_eas.sequences import Machines, Sequences


def normalised_edps(sequences: Sequences) -> Floats:
    """Return what each job came to, float64[runs, jobs] (paper, section II-A); 0 where is none.

    All runs must be over.
    """
    each, end = weights(sequences.machines, sequences.jobs), _end(sequences)
    own = np.take_along_axis(each, _machine(sequences), axis=1)[:, 0]
    return np.where(sequences.jobs.there, own * (end - sequences.jobs.submit), 0.0)


def mean_edp(sequences: Sequences) -> float:
    """Return the mean over all jobs of all runs."""
    return float(normalised_edps(sequences).sum() / sequences.jobs.there.sum())


def rewards(sequences: Sequences) -> Floats:
    """Return the reward of each step, float64[runs, steps] (paper, equation 2).

    Minus what each second of each job costs that is there: until it is bound, as if on the machine
    where that is least, and in the step in which it is bound what was counted too low so far. So
    all rewards of a run add up to minus its normalised energy-delay products.
    """
    jobs, there = sequences.jobs, sequences.jobs.there
    each, end = weights(sequences.machines, sequences.jobs), _end(sequences)
    own = np.take_along_axis(each, _machine(sequences), axis=1)[:, 0][there]
    least = each.min(axis=1)[there]
    run = np.nonzero(there)[0]
    submit, bound = jobs.submit[there], sequences.bound[there]
    shape = (len(there), int(end[there].max()) + 1)
    costs, changes = np.zeros(shape), np.zeros(shape)
    np.add.at(changes, (run, submit), least)
    np.add.at(changes, (run, bound), own - least)
    np.add.at(changes, (run, end[there]), -own)
    np.add.at(costs, (run, bound), (own - least) * (bound - submit))
    result: Floats = -(costs + np.cumsum(changes, axis=1))
    return result


def to_come(rewards: Floats) -> Floats:
    """Return the sum of the rewards from each step on, of the shape of what is given."""
    return np.cumsum(rewards[:, ::-1], axis=1)[:, ::-1]


def weights(machines: Machines, jobs: StepJobs) -> Floats:
    """Return what a step of each job costs on each machine, float64[runs, machines, jobs].

    Times its steps from submission to end it is its normalised energy-delay product.
    """
    least = np.maximum(jobs.expected.min(axis=1), 1)[:, None].astype(np.float64)
    energy = jobs.cores[:, None] * machines.watts[:, None] * jobs.actual
    return np.asarray(energy / least**2)


def _machine(sequences: Sequences) -> Ints:
    machine: Ints = np.maximum(sequences.machine, 0)[:, None]
    return machine


def _end(sequences: Sequences) -> Ints:
    actual = np.take_along_axis(sequences.jobs.actual, _machine(sequences), axis=1)[:, 0]
    end: Ints = sequences.start + actual
    return end
