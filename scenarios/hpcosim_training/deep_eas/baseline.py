"""How much better a run went than others of the same sequence."""

from __future__ import annotations

import numpy as np

from hpcosim_client.job import Floats


def better_than_mean(to_come: Floats, trajectories: int) -> Floats:
    """Return what each run still had to come at each step, less the mean of its sequence's runs.

    The baseline of the paper (equation 5); runs that are over count with 0.

    Args:
        to_come: float64[runs, steps]; the runs of a sequence are one behind the other.
        trajectories: runs of each.
    """
    by_sequence = to_come.reshape(-1, trajectories, to_come.shape[1])
    result: Floats = by_sequence - by_sequence.mean(axis=1, keepdims=True)
    return result.reshape(to_come.shape)


def by_spread(better: Floats, trajectories: int) -> Floats:
    """Return it over its spread among the runs of the same sequence, so that all count alike.

    Args:
        better: as `better_than_mean` returns it.
        trajectories: runs of each sequence.
    """
    by_sequence = better.reshape(-1, trajectories, better.shape[1])
    spread = by_sequence[:, :, 0].std(axis=1)[:, None, None]
    result: Floats = by_sequence / np.where(spread > 0.0, spread, 1.0)
    return result.reshape(better.shape)
