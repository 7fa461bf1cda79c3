"""A lower bound for the schedules of a small sequence.

An integer programme over time decides for each job, machine and step whether the job starts there;
at no step do jobs take more cores than a machine has. It knows the true run times and all jobs in
advance, which no scheduler does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_scenarios.errors import OracleError
from hpcosim_scenarios.planning.solver import scipy_for
from hpcosim_training.environments.step_costs import weights
from hpcosim_training.environments.step_jobs import StepJobs
from hpcosim_training.environments.step_machines import Machines

LIMIT_S = 60.0  # of the solver, for a sequence


class Bound(NamedTuple):
    """What a sequence allows: sums of normalised energy-delay products over its jobs.

    Attributes:
        least: no schedule is better than that.
        found: the best that was found; if it is `least`, that is the optimum.
    """

    least: float
    found: float


class _Starts(NamedTuple):
    """All possible starts, with their costs: int64[starts] and float64[starts]."""

    job: Ints
    machine: Ints
    step: Ints
    cost: Floats


def optimum(machines: Machines, jobs: StepJobs, within: int) -> Bound:
    """Return what the one sequence of `jobs` allows.

    Args:
        machines: where it runs.
        jobs: a single run.
        within: a step at which all can be over in an optimal schedule: that at which they are in
            some schedule is not enough, the sum of all run times is.

    Raises:
        OracleError: SciPy is missing, or it found no schedule in time.
    """
    optimize, sparse = scipy_for("the optimum of a sequence")
    starts = _starts(machines, jobs, within)
    count = len(starts.job)
    once = sparse.csr_array((np.ones(count), (starts.job, np.arange(count))))
    taken = _taken(machines, jobs, starts, within, sparse)
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
        raise OracleError(f"the solver found no schedule of a sequence: {result.message}")
    return Bound(float(result.mip_dual_bound), float(result.fun))


def _starts(machines: Machines, jobs: StepJobs, within: int) -> _Starts:
    cost = weights(machines, jobs)[0]
    parts = []
    for job in range(int(jobs.valid[0].sum())):
        submit = int(jobs.submit[0, job])
        for machine in range(len(machines.watts)):
            ran = int(jobs.actual[0, machine, job])
            step = np.arange(submit, within - ran + 1)
            came = cost[machine, job] * (step + ran - submit)
            parts.append((np.full(len(step), job), np.full(len(step), machine), step, came))
    return _Starts(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _taken(machines: Machines, jobs: StepJobs, starts: _Starts, within: int, sparse: Any) -> Any:
    """Return the cores that each start takes, a row a step of a machine."""
    ran = jobs.actual[0, starts.machine, starts.job].astype(np.int64)
    column = np.repeat(np.arange(len(ran)), ran)
    since = np.arange(len(column)) - np.repeat(np.cumsum(ran) - ran, ran)
    row = starts.machine[column] * within + starts.step[column] + since
    cores = jobs.cores[0, starts.job[column]].astype(np.float64)
    shape = (len(machines.watts) * within, len(ran))
    return sparse.csr_array((cores, (row, column)), shape=shape)
