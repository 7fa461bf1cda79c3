"""Forecasts of every kind of waiting jobs on every distinct node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints, Job
from hpcosim_papers.ineps.agent.site import Kind, Option

NONE = Option(np.inf, np.inf, np.inf, np.inf)


class Waiting(NamedTuple):
    """The waiting jobs of a kind.

    Attributes:
        kind: the kind.
        job: the first of the jobs, in submission order.
        waiting: number of the jobs.
    """

    kind: Kind
    job: Job
    waiting: int


class Grid(NamedTuple):
    """Kinds of waiting jobs by distinct nodes.

    Attributes:
        waiting: the kinds.
        nodes: int64[nodes], numbers of the distinct nodes.
        options: float64[kinds, nodes, 4], the fields of `Option`; `NONE`: the job does not fit.
    """

    waiting: list[Waiting]
    nodes: Ints
    options: NDArray[np.float64]

    @property
    def starts_s(self) -> Floats:
        """Start of each option, float64[kinds, nodes], simulated seconds."""
        starts: Floats = self.options[:, :, 0]
        return starts

    def costs_j(self, horizon_s: float, prices_w: Floats) -> Floats:
        """Return the cost of each option, float64[kinds, nodes, weights], in J."""
        ends_s, extra_j = self.options[..., 1], self.options[..., 2]
        later_s = np.maximum(ends_s - horizon_s, 0.0)
        # Infinite times (`NONE`) are replaced, because infinity times a price of 0 is NaN.
        costs = np.where(later_s[..., None] < np.inf, later_s[..., None], 0.0) * prices_w
        return np.maximum(extra_j[..., None] + costs, 1e-9)
