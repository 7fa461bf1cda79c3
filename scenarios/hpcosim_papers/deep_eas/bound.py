"""A lower bound of the mean normalised energy-delay product (Deep-EAS)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_experiments.benchmark.bounds import Bound
from hpcosim_experiments.benchmark.errors import BenchmarkError
from hpcosim_experiments.benchmark.suite import InstanceFile, Suite
from hpcosim_papers.deep_eas.agent.step_costs import weights
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas, Machines, StepJobs
from hpcosim_papers.deep_eas.environments.step_jobs import step_jobs
from hpcosim_papers.deep_eas.environments.step_machines import machines_of
from hpcosim_papers.deep_eas.study.optimum import optimum
from hpcosim_scenarios.model.workload import Bernoulli
from hpcosim_scenarios.planning.solver import scipy_for
from hpcosim_scenarios.running.library import LoadedScenario

MOST_SOLVED = 13
"""Number of jobs up to which the optimum is computed: some seconds."""

FULL = 1e-6
"""Share of a machine's cores that must be free in the last second, above the solver's tolerance."""


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
    """Return the least sum of normalised energy-delay products of one sequence.

    Raises:
        OracleError: SciPy is missing, or the solver found no schedule within its time limit.
    """
    # An optimal schedule has no second in which all machines are idle and jobs wait.
    longest = int(jobs.actual[0].max(axis=0).sum())
    return optimum(machines, jobs, int(jobs.submit.max()) + longest).least


def least_cost(machines: Machines, jobs: StepJobs) -> float:
    """Return a lower bound of the sum of normalised energy-delay products of one sequence.

    The seconds of the programme end at a horizon. If no machine is full in its last second, later
    seconds change nothing: a step there costs more than in the last second, which has room.

    Raises:
        OracleError: SciPy is missing.
    """
    ran = jobs.actual[0].max(axis=0)[jobs.valid[0]].astype(np.int64)
    last = int(jobs.submit[0][jobs.valid[0]].max())
    more = int(ran.max()) + 1
    while (cost := _least_until(machines, jobs, last + more)) is None:
        more *= 2
    return cost


def _least_until(machines: Machines, jobs: StepJobs, horizon: int) -> float | None:
    """Return the optimum of the programme; None: the horizon is too short.

    Args:
        machines: the machines.
        jobs: a single run.
        horizon: number of seconds.
    """
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

    Args:
        machines: the machines.
        jobs: a single run.
        horizon: number of seconds.

    Attributes:
        cost: float64[parts], normalised energy-delay product of a step.
        jobs: number of jobs that cost anything.
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
