"""Lower bounds of the normalised energy-delay product, for scenarios and small sequences.

Without SciPy, or without a schedule within the time limit of the solver, there is an `OracleError`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_experiments.benchmark.bounds import Bound
from hpcosim_experiments.benchmark.suite import BenchmarkError, InstanceFile, Suite
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas, Machines, StepJobs
from hpcosim_papers.deep_eas.agent.step_runs import weights
from hpcosim_papers.deep_eas.environments.step_machines import machines_of, step_jobs
from hpcosim_scenarios.errors import OracleError
from hpcosim_scenarios.model.workload import Bernoulli
from hpcosim_scenarios.planning.cheapest_switching import scipy_for
from hpcosim_scenarios.running.library import LoadedScenario

MOST_SOLVED = 13
"""Number of jobs up to which the optimum is computed: some seconds."""

FULL = 1e-6
"""Share of a machine's cores that must be free in the last second, above the solver's tolerance."""


LIMIT_S = 60.0  # time limit of the solver for one sequence


def least_normalised_edp(suite: Suite, instance: InstanceFile, loaded: LoadedScenario) -> float:
    """Return a lower bound of `mean_normalised_edp` over all schedules without preemption.

    Up to 13 jobs it is the optimum, by an integer programme (`study.optimum`). Otherwise a linear
    programme distributes the steps of each job over machines and seconds; it may split jobs. At
    each second the cores of a machine are its capacity. A job that runs p steps on a machine ends
    there at M + p / 2, where M is the mean of the times at which it runs. True run times and all
    submissions are known to it. Times are whole seconds, as in the paper's model; starts between
    two seconds can be moved to the earlier one. Source of the mean busy times: Goemans, Queyranne,
    Schulz, Skutella, Wang 2002: "Single machine scheduling with release dates".
    """
    model = loaded.scenario.workload.synthetic
    if not isinstance(model, Bernoulli) or model.sequences != 1:
        raise BenchmarkError(
            f"{suite.file.name}: {instance.name}: the bound needs one sequence of the workload "
            "model bernoulli"
        )
    path = suite.folder / instance.scenario
    machines = machines_of(loaded.scenario, DeepEas(), path)
    jobs = step_jobs(machines.settings, machines.scale, [loaded.jobs])
    if len(loaded.jobs) <= MOST_SOLVED:
        return exact_cost(machines, jobs) / len(loaded.jobs)
    return least_cost(machines, jobs) / len(loaded.jobs)


def exact_cost(machines: Machines, jobs: StepJobs) -> float:
    """Return the least sum of normalised energy-delay products of one sequence."""
    # An optimal schedule has no second in which all machines are idle and jobs wait.
    longest = int(jobs.actual[0].max(axis=0).sum())
    return optimum(machines, jobs, int(jobs.submit.max()) + longest).least


def least_cost(machines: Machines, jobs: StepJobs) -> float:
    """Return a lower bound of the sum of normalised energy-delay products of one sequence.

    The seconds of the programme end at a horizon. If no machine is full in its last second, later
    seconds change nothing: a step there costs more than in the last second, which has room.
    """
    ran = jobs.actual[0].max(axis=0)[jobs.valid[0]].astype(np.int64)
    last = int(jobs.submit[0][jobs.valid[0]].max())
    more = int(ran.max()) + 1
    while (cost := _least_until(machines, jobs, last + more)) is None:
        more *= 2
    return cost


def _least_until(machines: Machines, jobs: StepJobs, horizon: int) -> float | None:
    """Return the optimum of the programme; None: the horizon is too short."""
    optimize, sparse = scipy_for("the bound of a sequence")
    parts = _Parts(machines, jobs, horizon)
    cores = float(machines.settings.cores)
    result = optimize.linprog(
        parts.cost,
        A_ub=parts.taken(sparse),
        b_ub=np.full(parts.rows, cores),
        A_eq=parts.shares(sparse),
        b_eq=np.ones(parts.jobs),
        bounds=(0.0, 1.0),
        method="highs",
    )
    if result.x is None:
        return None
    free = result.slack[horizon - 1 :: horizon]
    return float(result.fun) if (free > FULL * cores).all() else None


class _Parts:
    """The variables of the programme: steps of jobs on machines at seconds.

    Attributes:
        cost: float64[parts], normalised energy-delay product of a step.
        rows: number of machines x seconds.
    """

    def __init__(self, machines: Machines, jobs: StepJobs, horizon: int) -> None:
        ran, submit = jobs.actual[0].astype(np.int64), jobs.submit[0]
        rate = weights(machines, jobs)[0]
        costly = np.flatnonzero(jobs.valid[0] & (ran > 0).all(axis=0))
        self.jobs = len(costly)
        self.rows = len(ran) * horizon
        parts: list[tuple[Ints, Ints, Floats, Floats, Floats]] = []
        for number, job in enumerate(costly.tolist()):
            second = np.arange(submit[job], horizon)
            every = np.ones(len(second))
            for machine, steps in enumerate(ran[:, job].tolist()):
                delay = second + 0.5 - submit[job] + steps / 2
                cost = rate[machine, job] * delay / steps
                cores = every * jobs.cores[0, job]
                place = np.full(len(second), number)
                parts.append((place, machine * horizon + second, cost, every / steps, cores))
        columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        self._job, self._row, self.cost, self._share, self._cores = columns

    def shares(self, sparse: Any) -> Any:
        """Return the share of its job that each step is, with a row for each job."""
        place = (self._job, np.arange(len(self.cost)))
        return sparse.csr_array((self._share, place), shape=(self.jobs, len(self.cost)))

    def taken(self, sparse: Any) -> Any:
        """Return the cores that each step takes, with a row for each machine and second."""
        place = (self._row, np.arange(len(self.cost)))
        return sparse.csr_array((self._cores, place), shape=(self.rows, len(self.cost)))


NORMALISED_EDP = Bound(least_normalised_edp, ("mean_normalised_edp",))
"""The bound in the catalogue of bounds."""


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
        horizon: number of steps that contains an optimal schedule. The length of some schedule is
            not sufficient; the last submission plus the sum of all run times is.
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
