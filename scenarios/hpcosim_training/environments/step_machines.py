"""The machines of a scenario, and sequences of jobs like its own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from hpcosim_client import View
from hpcosim_client.agents.deep_eas.settings import DeepEas
from hpcosim_client.heuristics.node_keys import run_time_scale
from hpcosim_client.job import Floats
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.workload import Bernoulli
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.synthetic.bernoulli import bernoulli
from hpcosim_workloads.table import JobTable

DRAWN_ANEW = 100  # attempts to draw a sequence with a job


class Machines(NamedTuple):
    """The machines, whatever the jobs.

    Attributes:
        settings: what is decided.
        watts: of a busy core of each machine, float64[machines].
        scale: requested and run times are multiplied by this on each machine, float64[machines].
    """

    settings: DeepEas
    watts: Floats
    scale: Floats


def machines_of(scenario: Scenario, settings: DeepEas, path: Path) -> Machines:
    """Return the machines of a scenario, with settings for as many.

    Args:
        scenario: the scenario.
        settings: what is decided; `machines` and `cores` are replaced.
        path: the scenario's file, for messages.

    Raises:
        ScenarioError: nodes differ in their number of cores.
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
    """Return the model that the sequences of a scenario are drawn from.

    Raises:
        ScenarioError: its workload is not of the model `bernoulli`.
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
    """Return one sequence with at least one job.

    Raises:
        WorkloadError: no sequence of many had a job.
    """
    arguments = msgspec.structs.asdict(model) | {"sequences": 1}
    for _ in range(DRAWN_ANEW):
        with suppress(WorkloadError):
            return bernoulli(rng, **arguments)
    return bernoulli(rng, **arguments)
