"""The columns of the tables of an experiment, with types that do not depend on its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from hpcosim_experiments.runs.plan import Plan, PlannedRun
from hpcosim_experiments.statistics.rows import Label
from hpcosim_scenarios.running.library import LoadedScenario, open_loaded
from hpcosim_server.record.metrics import Metrics
from hpcosim_server.record.results import metrics_of
from hpcosim_workloads.table import job_table

Kind = Literal["text", "integer", "number", "truth"]
Columns = Mapping[str, Kind]

STATE: Columns = {"run_key": "text", "status": "text", "error": "text"}
PROVENANCE: Columns = {
    "hpcosim": "text",
    "python": "text",
    "git_commit": "text",
    "policy": "text",
    "workload_sha256": "text",
}
BREAKDOWN: Columns = {"breakdown": "text", "class": "text"}


def axis_columns(plan: Plan) -> dict[str, Kind]:
    """Return the columns of the axes."""
    return {
        name: _kind_of([value.label for value in axis.values]) for name, axis in plan.axes.items()
    }


def metric_columns(run: PlannedRun) -> dict[str, Kind]:
    """Return the columns of the metrics of the whole run: those of a simulation without jobs."""
    opened = open_loaded(LoadedScenario(run.scenario, job_table(job_id=[]), {}, None), "")
    return metric_kinds(metrics_of(opened.simulation.record(), opened.run))


def metric_kinds(metrics: Metrics) -> dict[str, Kind]:
    """Return the columns of metrics."""
    return {
        name: "integer" if isinstance(value, int) else "number" for name, value in metrics.items()
    }


def _kind_of(labels: Sequence[Label]) -> Kind:
    if all(isinstance(label, bool) for label in labels):
        return "truth"
    if all(isinstance(label, int) for label in labels):
        return "integer"
    return "text" if any(isinstance(label, str) for label in labels) else "number"
