"""Jobs of a workload that are equal in some columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcosim_compiled.state import Ints
from hpcosim_workloads.table import JobTable


def kinds_of(table: JobTable, names: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the first row of each kind of jobs, ascending, and the kind of each row.

    Args:
        names: columns in which jobs of a kind are equal.
    """
    which = np.zeros(len(table), np.int64)
    for name in names:
        _, codes = np.unique(getattr(table, name), return_inverse=True)
        _, which = np.unique(which * (codes.max(initial=0) + 1) + codes, return_inverse=True)
    _, first, which = np.unique(which, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[which]
