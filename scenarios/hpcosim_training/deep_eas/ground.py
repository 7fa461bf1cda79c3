"""What Deep-EAS learns on by a scenario: its machines, and how sequences like its own are drawn."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from hpcosim_client import View
from hpcosim_client.agents.deep_eas.settings import DeepEas
from hpcosim_client.heuristics.node_keys import run_time_scale
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.workload import Bernoulli
from hpcosim_training.deep_eas.sequences import Machines
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.synthetic.bernoulli import bernoulli
from hpcosim_workloads.table import JobTable

DRAWN_ANEW = 100  # a sequence without a job, at the most


def machines_of(scenario: Scenario, settings: DeepEas, path: Path) -> Machines:
    """Return the machines of a scenario, and settings for as many.

    Raises:
        ScenarioError: nodes are not of as many cores each.
    """
    cores = scenario.platform.cores_by_node()
    if len(set(cores)) > 1:
        raise ScenarioError(
            f"has nodes of {min(cores)} and of {max(cores)} cores; Deep-EAS takes machines of as "
            "many cores each",
            path,
            field="$.platform.nodes",
        )
    settings = msgspec.structs.replace(settings, machines=len(cores), cores=cores[0])
    view = View(scenario.platform)
    return Machines(settings, view.nodes.dynamic_w, run_time_scale(view))


def model_of(scenario: Scenario, path: Path) -> Bernoulli:
    """Return what the sequences of a scenario are drawn by.

    Raises:
        ScenarioError: it has no such sequences.
    """
    model = scenario.workload.synthetic
    if not isinstance(model, Bernoulli):
        raise ScenarioError(
            "has a workload that is not of the model bernoulli: agents are trained on sequences of "
            "that model",
            path,
            field="$.workload.synthetic",
        )
    return model


def sequence(model: Bernoulli, rng: np.random.Generator) -> JobTable:
    """Return one sequence, with a job at least.

    Raises:
        WorkloadError: not one job comes, however often it is drawn anew.
    """
    arguments = msgspec.structs.asdict(model) | {"sequences": 1}
    for _ in range(DRAWN_ANEW):
        with suppress(WorkloadError):
            return bernoulli(rng, **arguments)
    return bernoulli(rng, **arguments)
