"""The drains of nodes: `drains.csv`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hpcosim_sim.record.table_rows import DRAIN_CHANGES
from hpcosim_view.run import csv_columns as read
from hpcosim_view.run.job_columns import joined


def read_drains(path: Path, nodes: int) -> dict[str, Any]:
    """Return the columns of `drain`; empty: there is no `drains.csv`.

    Raises:
        ReadResultsError: the file is damaged, or has a node that the platform lacks.
    """
    if not path.exists():
        return {}
    columns: dict[str, read.Convert] = {
        "time_s": read.times_s,
        "node": read.integers,
        "change": read.one_of(DRAIN_CHANGES),
    }
    found = joined(read.read_columns(path, columns), [*columns])
    wrong = (found["node"] < 0) | (found["node"] >= nodes)
    wrong[1:] |= found["time_s"][1:] < found["time_s"][:-1]
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise read.located(
            path, row, f"expected rows in order of time_s, nodes from 0 to {nodes - 1}"
        )
    return {
        "drain.time_s": found["time_s"],
        "drain.node": found["node"],
        "drain.drained": found["change"],
    }
