"""A fitted quantity, or why the accounting does not show it."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from hpcosim_client.arrays import Floats


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity of a cluster that its configuration does not say.

    Attributes:
        value: as fitted, or the default if the accounting does not show it.
        low, high: 95 % interval of the fit; None: there is none.
        observations: number of observations.
        reason: why the accounting does not show it, so that the default counts; empty: it does.
    """

    name: str
    value: float
    unit: str = ""
    low: float | None = None
    high: float | None = None
    observations: int = 0
    reason: str = ""


def share(name: str, count: int, of: int) -> Finding:
    """Return a share with Jeffreys' interval (Brown, Cai and DasGupta 2001)."""
    from scipy.stats import beta

    if not of:
        return Finding(name=name, value=0.0, reason="there are no such jobs")
    low, high = beta.ppf((0.025, 0.975), count + 0.5, of - count + 0.5).tolist()
    value = count / of
    return Finding(name=name, value=value, low=low, high=high, observations=of)


def bootstrapped(values: Floats, quantile: float, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of a quantile by the bootstrap."""
    draw = np.random.default_rng(seed)
    samples = draw.choice(values, (200, len(values)))
    found: Floats = np.quantile(np.quantile(samples, quantile, axis=1), (0.025, 0.975))
    return float(found[0]), float(found[1])


def finite(value: float) -> float | None:
    """Return a number as JSON has it: None for infinity and NaN."""
    return value if math.isfinite(value) else None
