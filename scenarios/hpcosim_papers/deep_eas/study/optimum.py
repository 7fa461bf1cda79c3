"""A lower bound for the schedules of a small sequence.

A time-indexed integer programme decides for each job, machine and step whether the job starts
there; at each step the cores of a machine are a capacity constraint. It knows the true run times
and all jobs in advance, unlike a scheduler.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_papers.deep_eas.agent.step_costs import weights
from hpcosim_papers.deep_eas.agent.step_jobs import Machines, StepJobs
from hpcosim_scenarios.errors import OracleError
from hpcosim_scenarios.planning.solver import scipy_for

LIMIT_S = 60.0  # time limit of the solver for one sequence


class SequenceBound(NamedTuple):
    """Bounds of the sum of normalised energy-delay products over the jobs of a sequence.

    Attributes:
        least: lower bound for all schedules.
        found: best schedule found; it is the optimum if it equals `least`.
    """

    least: float
    found: float


class _Starts(NamedTuple):
    """All possible starts, int64[starts], and their costs, float64[starts]."""

    job: Ints
    machine: Ints
    step: Ints
    cost: Floats


def optimum(machines: Machines, jobs: StepJobs, horizon: int) -> SequenceBound:
    """Return the bounds for the one sequence of `jobs`.

    Args:
        machines: the machines.
        jobs: a single run.
        horizon: number of steps that contains an optimal schedule. The length of some schedule is
            not sufficient; the last submission plus the sum of all run times is.

    Raises:
        OracleError: SciPy is missing, or the solver found no schedule within its time limit.
    """
    optimize, sparse = scipy_for("the optimum of a sequence")
    starts = _starts(machines, jobs, horizon)
    count = len(starts.job)
    once = sparse.csr_array((np.ones(count), (starts.job, np.arange(count))))
    taken = _occupied_cores(machines, jobs, starts, horizon, sparse)
    result = optimize.milp(
        starts.cost,
        integrality=np.ones(count),
        bounds=optimize.Bounds(0, 1),
        constraints=[
            optimize.LinearConstraint(once, 1, 1),
            optimize.LinearConstraint(taken, -np.inf, machines.settings.cores),
        ],
        options={"time_limit": LIMIT_S, "mip_rel_gap": 1e-6},
    )
    if result.x is None:
        raise OracleError(f"the solver found no schedule for a sequence: {result.message}")
    return SequenceBound(float(result.mip_dual_bound), float(result.fun))


def _starts(machines: Machines, jobs: StepJobs, horizon: int) -> _Starts:
    cost = weights(machines, jobs)[0]
    parts = []
    for job in range(int(jobs.valid[0].sum())):
        submit = int(jobs.submit[0, job])
        for machine in range(len(machines.watts)):
            ran = int(jobs.actual[0, machine, job])
            step = np.arange(submit, horizon - ran + 1)
            product = cost[machine, job] * (step + ran - submit)
            parts.append((np.full(len(step), job), np.full(len(step), machine), step, product))
    return _Starts(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _occupied_cores(
    machines: Machines, jobs: StepJobs, starts: _Starts, horizon: int, sparse: Any
) -> Any:
    """Return the cores that each start occupies, with a row for each step of a machine."""
    ran = jobs.actual[0, starts.machine, starts.job].astype(np.int64)
    column = np.repeat(np.arange(len(ran)), ran)
    since = np.arange(len(column)) - np.repeat(np.cumsum(ran) - ran, ran)
    row = starts.machine[column] * horizon + starts.step[column] + since
    cores = jobs.cores[0, starts.job[column]].astype(np.float64)
    shape = (len(machines.watts) * horizon, len(ran))
    return sparse.csr_array((cores, (row, column)), shape=shape)
