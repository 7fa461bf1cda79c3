"""Statistics of repeats and tasks; the docstring of each function defines it."""

from __future__ import annotations

import numpy as np

from hpcosim_experiments.statistics.bootstrap import Floats, Strata

VALUE, BASE = 0, 1
"""Columns of a pair: the value of a combination, and that of the baseline."""


def mean(strata: Strata) -> Floats:
    """Return the mean over the tasks of the mean over the repeats.

    Each task has the same weight, also if the number of its repeats differs. With a single task it
    is the arithmetic mean.
    """
    means: Floats = np.mean([stratum.mean(axis=-1) for stratum in strata], axis=0)
    return means


def interquartile_mean(strata: Strata) -> Floats:
    """Return the interquartile mean: the mean without the lowest and the highest quarter.

    Of n values of all repeats and tasks together, floor(n / 4) are left out at each end. NaN if a
    value is NaN. Source: Agarwal et al. 2021, section 4.3.
    """
    values = np.sort(np.concatenate(list(strata), axis=-1), axis=-1)
    cut = values.shape[-1] // 4
    middle = values[..., cut : values.shape[-1] - cut].mean(axis=-1)
    return np.where(np.isnan(values[..., -1]), np.nan, middle)  # NaN sorts last


def paired_difference(strata: Strata) -> Floats:
    """Return the mean difference of pairs, value - baseline; each task has the same weight.

    A pair is two runs with the same labels on all axes but those of the baseline, so both have the
    same workload. Pairs are resampled as a whole, which removes the variation between workloads
    from the interval. Source: Efron, Tibshirani 1993, section 8.2 (one-sample problems).
    """
    return mean([pairs[..., VALUE] - pairs[..., BASE] for pairs in strata])


def paired_ratio(strata: Strata) -> Floats:
    """Return the ratio of the means of pairs, value / baseline; NaN if the baseline's mean is 0.

    The ratio of the means, and not the mean of the ratios, weights runs by their size and is
    defined if single values are 0. Source: Efron, Tibshirani 1993, section 10.3 (the patch data).
    """
    value = mean([pairs[..., VALUE] for pairs in strata])
    base = mean([pairs[..., BASE] for pairs in strata])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(base == 0, np.nan, value / base)


def interquartile_difference(strata: Strata) -> Floats:
    """Return the interquartile mean of the differences of pairs, value - baseline."""
    return interquartile_mean([pairs[..., VALUE] - pairs[..., BASE] for pairs in strata])


def interquartile_ratio(strata: Strata) -> Floats:
    """Return the interquartile mean of the ratios of pairs, value / baseline; NaN if one is 0.

    The ratio to the baseline is the normalised score of a task. Source: Agarwal et al. 2021,
    section 2.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [
            np.where(pairs[..., BASE] == 0, np.nan, pairs[..., VALUE] / pairs[..., BASE])
            for pairs in strata
        ]
    return interquartile_mean(ratios)
