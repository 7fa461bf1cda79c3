"""The machines of a scenario, and job sequences drawn from its model."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from hpcosim_client import View
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas, Machines
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.workload import Bernoulli
from hpcosim_schedulers.heuristics.node_keys import run_time_scale
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.synthetic.bernoulli import bernoulli
from hpcosim_workloads.table import JobTable

MAX_DRAWS = 100  # attempts to draw a sequence with at least one job


def machines_of(scenario: Scenario, settings: DeepEas, path: Path) -> Machines:
    """Return the machines of a scenario.

    Args:
        scenario: the scenario.
        settings: settings; the platform replaces `machines` and `cores`.
        path: the scenario file, for messages.

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
