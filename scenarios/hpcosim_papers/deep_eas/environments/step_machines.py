"""The machines of a scenario, and job sequences as arrays with times in whole steps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from hpcosim_client import View
from hpcosim_client.job import Floats
from hpcosim_papers.deep_eas.agent.step_jobs import AFTER_ALL, Counts, DeepEas, Machines, StepJobs
from hpcosim_scenarios.errors import ScenarioError, ScenariosError
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.workload import Bernoulli
from hpcosim_schedulers.heuristics.esjf import INSTANT_S
from hpcosim_schedulers.heuristics.job_node import run_time_scale
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.synthetic.bernoulli import bernoulli
from hpcosim_workloads.table import JobTable

MAX_DRAWS = 100  # attempts to draw a sequence with at least one job


def machines_of(scenario: Scenario, settings: DeepEas, path: Path) -> Machines:
    """Return the machines of a scenario.

    Args:
        settings: settings; the platform replaces `machines` and `cores`.

    Raises:
        ScenarioError: nodes differ in their number of cores.
    """
    cores = scenario.platform.cores_by_node()
    if len(set(cores)) > 1:
        raise ScenarioError(
            f"nodes have {min(cores)} to {max(cores)} cores; Deep-EAS requires the same number of "
            "cores on every node",
            path,
            field="$.platform.nodes",
        )
    settings = msgspec.structs.replace(settings, machines=len(cores), cores=cores[0])
    view = View(scenario.platform)
    return Machines(settings, view.nodes.dynamic_w, run_time_scale(view))


def model_of(scenario: Scenario, path: Path) -> Bernoulli:
    """Return the workload model of a scenario.

    Raises:
        ScenarioError: the model is not `bernoulli`.
    """
    model = scenario.workload.synthetic
    if not isinstance(model, Bernoulli):
        raise ScenarioError(
            "expected the workload model bernoulli, which draws the job sequences of a training",
            path,
            field="$.workload.synthetic",
        )
    return model


def sequence(model: Bernoulli, rng: np.random.Generator) -> JobTable:
    """Draw one sequence with at least one job.

    Raises:
        WorkloadError: `MAX_DRAWS` sequences in a row had no job.
    """
    arguments = msgspec.structs.asdict(model) | {"sequences": 1}
    for _ in range(MAX_DRAWS):
        with suppress(WorkloadError):
            return bernoulli(rng, **arguments)
    return bernoulli(rng, **arguments)


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
