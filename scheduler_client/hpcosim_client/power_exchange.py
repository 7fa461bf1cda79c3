"""What the job scheduler and the power manager of one simulation tell each other."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


class PowerExchange:
    """The one place through which a job scheduler and the power manager beside it coordinate.

    | attribute | written by | read by |
    |---|---|---|
    | `planned` | the job scheduler, at each of its calls | the power manager, after it |
    | `wait_price_w` | the power manager, at each of its calls | the job scheduler, from its next |

    Attributes:
        planned: bool[nodes], idle nodes that the job scheduler reserves for a job; the power
            manager leaves them on. None are while the job scheduler is unaware of power states.
        wait_price_w: energy that a second of a job's wait is worth, J/s, above 0. A job scheduler
            that is aware of power states lets a job wait longer where that saves more energy than
            the wait is worth. Infinity: no job waits longer to save energy.
    """

    def __init__(self, node_count: int) -> None:
        self.planned: NDArray[np.bool_] = np.zeros(node_count, dtype=np.bool_)
        self.wait_price_w = math.inf
