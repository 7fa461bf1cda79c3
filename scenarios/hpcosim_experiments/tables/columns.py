"""The columns of the tables of an experiment, with types that do not depend on its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from hpcosim_experiments.errors import ExperimentFileError
from hpcosim_experiments.model.axes import key_in
from hpcosim_experiments.runs.plan import Plan
from hpcosim_experiments.statistics.rows import Label
from hpcosim_scenarios.model.economics import load_economics
from hpcosim_scenarios.running.library import open_scenario
from hpcosim_sim.record.economics import UNKNOWN
from hpcosim_sim.record.metrics import LEAD_CLASSES_S, OVERRUNS, errors_by_lead
from hpcosim_sim.record.results import metrics_of
from hpcosim_sim.record.tables import JOBS
from hpcosim_workloads.table import job_table

Kind = Literal["text", "integer", "number", "truth"]
Columns = Mapping[str, Kind]

STATE: Columns = {"run_key": "text", "status": "text", "error": "text"}
PROVENANCE: Columns = {
    "hpcosim": "text",
    "python": "text",
    "git_commit": "text",
    "policy_name": "text",
    "workload_sha256": "text",
}
BREAKDOWN: Columns = {"breakdown": "text", "class": "text"}


def axis_columns(plan: Plan) -> dict[str, Kind]:
    """Return the columns of the axes."""
    return {
        name: _kind_of([value.label for value in axis.values]) for name, axis in plan.axes.items()
    }


def check_names(plan: Plan, metrics: Columns) -> None:
    """Check that no axis has the name of another column.

    Raises:
        ExperimentFileError: one has; has the field.
    """
    taken = {*STATE, *metrics, *PROVENANCE, *BREAKDOWN}
    if plan.experiment.jobs:
        taken |= {column.name for column in JOBS.columns}
    for name in plan.axes:
        if name in taken:
            what = f"the results have a column {name!r}; give the axis another name and a path"
            raise ExperimentFileError(what, field=key_in("$.axes", name))


def metric_columns(plan: Plan) -> dict[str, Kind]:
    """Return the columns of the metrics: those of simulations without jobs, and of overruns.

    Raises:
        ScenarioError: a price or carbon intensity cannot be read.
    """
    one_of_each = {run.scenario.economics is None: run.scenario for run in reversed(plan.runs)}
    columns: dict[str, Kind] = {}
    for scenario in one_of_each.values():
        rates = UNKNOWN
        if scenario.economics is not None:
            rates = load_economics(scenario.economics, Path()).rates
        opened = open_scenario(scenario, job_table(job_id=[]), "", rates=rates)
        for name, value in metrics_of(opened.simulation.record(), opened.run).items():
            columns[name] = _kind(value)
    columns |= dict.fromkeys(OVERRUNS, "integer")
    if any(run.scenario.scheduler.explain for run in plan.runs):
        leads_s = np.array([longest_s for _, longest_s in LEAD_CLASSES_S.values()])
        one_of_each_class = errors_by_lead(np.zeros(len(leads_s)), leads_s)
        columns |= {name: _kind(value) for name, value in one_of_each_class.items()}
    return columns


def _kind(value: float) -> Kind:
    return "integer" if isinstance(value, int) else "number"


def _kind_of(labels: Sequence[Label]) -> Kind:
    if all(isinstance(label, bool) for label in labels):
        return "truth"
    if all(isinstance(label, int) for label in labels):
        return "integer"
    return "text" if any(isinstance(label, str) for label in labels) else "number"
