"""The results of an experiment, the input of its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hpcosim_experiments.statistics.rows import Label, Rows


class Results(NamedTuple):
    """The results of an experiment.

    Attributes:
        name: name of the experiment.
        axes: labels of each axis, by its name, in the order of the experiment file.
        rows: one row per run: labels by axis, `run_key`, `status` (`ok` or `failed`), `error`,
            metrics by name (None: the run failed) and provenance.
        breakdowns: one row per run and class of jobs: labels by axis, `breakdown`, `class`, and
            metrics by name.
        jobs: a `pyarrow.Table` with one row per run and job, or None.
    """

    name: str
    axes: Mapping[str, tuple[Label, ...]]
    rows: Rows
    breakdowns: Rows = ()
    jobs: Any = None
