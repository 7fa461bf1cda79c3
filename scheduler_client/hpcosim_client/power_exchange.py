"""Shared state of the job scheduler and the power manager of one simulation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


class PowerExchange:
    """Shared state of a job scheduler and the power manager beside it.

    | attribute | written by | read by |
    |---|---|---|
    | `planned` | the job scheduler, at each call | the power manager, after it |
    | `wait_price_w` | the power manager, at each call | the job scheduler, at its next call |
    | `idle_since_s` | the power manager, at each call | the job scheduler, at its next call |
    | `switches` | the power manager, before each call of the job scheduler | the job scheduler |

    Attributes:
        planned: bool[nodes], idle nodes that the job scheduler has reserved; the power manager
            leaves them on. All false if the job scheduler is unaware of power states.
        wait_price_w: price of a job's wait in J/s, > 0. A job scheduler that is aware of power
            states delays a job if that saves more energy than the delay costs. Infinity, the
            default: no job is delayed to save energy.
        idle_since_s: float64[nodes], since when each node was idle at the last call, simulated
            seconds; NaN: it was not, or the manager keeps no such times.
        switches: whether there is a power manager that may switch nodes off.
    """

    def __init__(self, node_count: int) -> None:
        self.planned: NDArray[np.bool_] = np.zeros(node_count, dtype=np.bool_)
        self.wait_price_w = math.inf
        self.idle_since_s: NDArray[np.float64] = np.full(node_count, np.nan)
        self.switches = False
