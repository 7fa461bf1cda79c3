"""The mean of a self-exciting process, as the solution of differential equations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcosim_client.arrays import Floats, Ints
from hpcosim_schedulers.forecast.calendar import HOUR_S
from hpcosim_schedulers.forecast.excitation import (
    BETA_PER_S,
    IS_RHYTHMIC,
    KERNELS,
    OF_ENDS,
    Excitation,
)

FIRST_STEP_S = 5.0
GROWTH = 1.2
"""Ratio of a step to the one before it."""
MAX_STEPS = 400


def mean_submissions(
    process: Excitation, run_s: Floats, user: Ints, after_s: Floats, horizons_s: Sequence[float]
) -> Floats:
    """Return the expected number of submissions by user, up to each horizon.

    The mean of a Hawkes process with exponential kernels follows linear differential equations
    (Dassios and Zhao 2011, DOI 10.1239/aap/1316792671); they are solved by implicit Euler steps of
    5 s and more. Run times of submissions to come count as exponential with the mean of the user.

    Args:
        process: the process, advanced to the present.
        run_s: float64[users + 1], mean run time of each user, and of new ones, s.
        user: int64[jobs], number of the user of each running job.
        after_s: float64[samples, jobs], samples of their ends, s after now.
        horizons_s: durations from now on, s, ascending, >= 0.

    Returns:
        float64[horizons, users + 1].
    """
    weights = np.vstack([process.weights(), process.common_weights])
    by_submission, by_end = weights * BETA_PER_S * ~OF_ENDS, weights * BETA_PER_S * OF_ENDS
    parts = weights * BETA_PER_S * np.vstack([process.state(), np.zeros(KERNELS)])
    source = np.append(process.user_shares(), 0.0)
    source[-1] = 1.0 - source.sum()
    source *= process.spontaneous_per_s
    ends = _Ends(user, after_s, len(source))
    mean, running = np.zeros(len(source)), np.zeros(len(source))
    found = np.zeros((len(horizons_s), len(source)))
    passed_s, step_s = 0.0, FIRST_STEP_S
    longest_s = max((float(horizons_s[-1]) if len(horizons_s) else 0.0) / MAX_STEPS, HOUR_S)
    for place, horizon_s in enumerate(horizons_s):
        while passed_s < horizon_s:
            dt = min(step_s, horizon_s - passed_s)
            factor = process.rhythm.at(process.now_s + passed_s + 0.5 * dt)
            effect = np.where(IS_RHYTHMIC, factor, 1.0) / (1.0 + dt * BETA_PER_S)
            ending = dt / (run_s + dt)
            ended = ends.mean(passed_s, passed_s + dt) + ending * running
            gain = dt * (by_submission @ effect + ending * (by_end @ effect))
            fresh = source * factor + (parts + by_end * ended[:, None]) @ effect
            count = dt * fresh / np.maximum(1.0 - gain, 0.05)
            ended += ending * count
            running = (1.0 - ending) * (running + count)
            parts += by_submission * count[:, None] + by_end * ended[:, None]
            parts /= 1.0 + dt * BETA_PER_S
            mean += count
            passed_s += dt
            step_s = min(GROWTH * step_s, longest_s)
        found[place] = mean
    return found


class _Ends:
    """The ends of running jobs in the order of time; for the arguments see `mean_submissions`."""

    def __init__(self, user: Ints, after_s: Floats, users: int) -> None:
        order = np.argsort(after_s, axis=None)
        self._after_s = after_s.ravel()[order]
        self._user = np.tile(user, len(after_s))[order]
        self._samples, self._users = max(len(after_s), 1), users

    def mean(self, from_s: float, upto_s: float) -> Floats:
        """Return the mean number of ends after `from_s`, up to `upto_s`, float64[users]."""
        low, high = np.searchsorted(self._after_s, (from_s, upto_s), side="right")
        found = np.bincount(self._user[low:high], minlength=self._users)
        mean: Floats = found / self._samples
        return mean
