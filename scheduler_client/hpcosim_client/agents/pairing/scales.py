"""How times and energies are shown: between 0 and 1."""

from __future__ import annotations

import numpy as np

from hpcosim_client.job import Floats


def share_of(value: Floats | float, scale: float) -> Floats | float:
    """Return the share x / (x + scale) of a value; of one below 0, 0."""
    value = np.maximum(value, 0.0)
    return value / (value + scale)
