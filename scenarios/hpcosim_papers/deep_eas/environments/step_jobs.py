"""Job sequences as arrays, with times in whole steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcosim_client.job import Floats
from hpcosim_papers.deep_eas.agent.scene import Counts
from hpcosim_papers.deep_eas.agent.step_jobs import AFTER_ALL, DeepEas, StepJobs
from hpcosim_scenarios.errors import ScenariosError
from hpcosim_schedulers.heuristics.step_plan import INSTANT_S
from hpcosim_workloads.table import JobTable


def step_jobs(settings: DeepEas, scale: Floats, tables: Sequence[JobTable]) -> StepJobs:
    """Convert job sequences to whole steps.

    Args:
        settings: length of a step, cores of a machine, and planning horizon.
        scale: float64[machines], factor of requested and run times on each machine.
        tables: the sequences, one for each run.

    Raises:
        ScenariosError: a time is not a whole number of steps, or a job fits on no machine.
    """
    shape = (len(tables), max(len(table) for table in tables))
    valid = np.zeros(shape, dtype=np.bool_)
    submit, cores = np.full(shape, AFTER_ALL, dtype=np.int64), np.zeros(shape, dtype=np.int16)
    expected, actual = (np.zeros((shape[0], len(scale), shape[1]), np.int16) for _ in range(2))
    for run, table in enumerate(tables):
        filled = slice(len(table))
        valid[run, filled] = True
        submit[run, filled] = _whole(table.submit_s / settings.step_s, "submission")
        cores[run, filled] = table.cores
        requested, ran = (np.outer(scale, each) for each in (table.requested_s, table.run_s))
        expected[run, :, filled] = np.maximum(_whole(requested / settings.step_s, "requested"), 1)
        actual[run, :, filled] = _whole(ran / settings.step_s, "run")
        _check(settings, table, expected[run, :, filled])
    return StepJobs(valid, submit, cores, expected, actual)


def _whole(steps: Floats, what: str) -> Floats:
    rounded = np.rint(steps)
    if (np.abs(steps - rounded) > INSTANT_S).any() or (rounded >= np.iinfo(np.int16).max).any():
        raise ScenariosError(
            f"the {what} time of a job is not a whole number of steps below 32,767; Deep-EAS "
            "requires times that are multiples of step_s on every machine"
        )
    return rounded


def _check(settings: DeepEas, table: JobTable, expected: Counts) -> None:
    if (table.cores > settings.cores).any():
        raise ScenariosError(
            f"a job requests {table.cores.max()} cores; a machine has {settings.cores}"
        )
    longest = int(expected.min(axis=0).max())
    if longest > settings.horizon:
        raise ScenariosError(
            f"a job takes at least {longest} steps, longer than the horizon of {settings.horizon}; "
            "increase horizon"
        )
