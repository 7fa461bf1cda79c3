"""Jobs of sequences as arrays, in whole steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.agents.deep_eas.scene import Counts
from hpcosim_client.agents.deep_eas.settings import DeepEas
from hpcosim_client.heuristics.step_plan import INSTANT_S
from hpcosim_client.job import Floats, Ints
from hpcosim_scenarios.errors import ScenariosError
from hpcosim_workloads.table import JobTable

LATER = np.iinfo(np.int32).max


class StepJobs(NamedTuple):
    """The jobs of some runs, those of a run in the order of their submission.

    Attributes:
        there: bool[runs, jobs]; False: padding behind the last job of a run.
        submit: int64[runs, jobs], the step at which it is submitted.
        cores: int16[runs, jobs], the cores it takes.
        expected, actual: int16[runs, machines, jobs], the steps it is expected to take, and takes.
    """

    there: NDArray[np.bool_]
    submit: Ints
    cores: Counts
    expected: Counts
    actual: Counts

    def take(self, which: Sequence[int] | Ints) -> StepJobs:
        """Return some of the runs, each as often as it is named."""
        return StepJobs(*(part[np.asarray(which)] for part in self))


def step_jobs(settings: DeepEas, scale: Floats, tables: Sequence[JobTable]) -> StepJobs:
    """Return sequences of jobs in steps.

    Args:
        settings: the length of a step, the cores of a machine, and the horizon of the plan.
        scale: requested and run times are multiplied by this on each machine, float64[machines].
        tables: one sequence each.

    Raises:
        ScenariosError: a job takes no whole number of steps, or fits on no machine.
    """
    shape = (len(tables), max(len(table) for table in tables))
    there = np.zeros(shape, dtype=np.bool_)
    submit, cores = np.full(shape, LATER, dtype=np.int64), np.zeros(shape, dtype=np.int16)
    expected, actual = (np.zeros((shape[0], len(scale), shape[1]), np.int16) for _ in range(2))
    for run, table in enumerate(tables):
        some = slice(len(table))
        there[run, some] = True
        submit[run, some] = _whole(table.submit_s / settings.step_s, "comes")
        cores[run, some] = table.cores
        requested, ran = (np.outer(scale, each) for each in (table.requested_s, table.run_s))
        expected[run, :, some] = np.maximum(_whole(requested / settings.step_s, "is to end"), 1)
        actual[run, :, some] = _whole(ran / settings.step_s, "ends")
        _check(settings, table, expected[run, :, some])
    return StepJobs(there, submit, cores, expected, actual)


def _whole(steps: Floats, what: str) -> Floats:
    rounded = np.rint(steps)
    if (np.abs(steps - rounded) > INSTANT_S).any() or (rounded >= np.iinfo(np.int16).max).any():
        raise ScenariosError(
            f"a job {what} at no step: Deep-EAS learns on jobs and machines whose times are whole "
            "steps, fewer than 32,767"
        )
    return rounded


def _check(settings: DeepEas, table: JobTable, expected: Counts) -> None:
    if (table.cores > settings.cores).any():
        raise ScenariosError(
            f"a job asks for {table.cores.max()} cores, more than the {settings.cores} of a machine"
        )
    longest = int(expected.min(axis=0).max())
    if longest > settings.horizon:
        raise ScenariosError(
            f"a job takes {longest} steps at the least; a horizon of {settings.horizon} is too "
            "short for it"
        )
