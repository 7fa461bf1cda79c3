"""Heuristics, rules, agents and search on workloads that no agent was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcosim_client import Policy, make_policy
from hpcosim_client.agents.pairing.rule import Rule, pairing_rule
from hpcosim_client.agents.pairing.settings import Objective
from hpcosim_experiments.report.markdown import document, table
from hpcosim_experiments.statistics.bootstrap import Bootstrap, Estimate, estimate
from hpcosim_experiments.statistics.rows import Row, Rows, where, write_rows
from hpcosim_experiments.statistics.statistic import mean
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_server.record.folder import prepare
from hpcosim_studies.ineps.experiments import OBJECTIVES
from hpcosim_studies.ineps.unseen_training import distil
from hpcosim_studies.ineps.unseen_workloads import INSTANCES, KINDS, SEEDS, Unseen, unseen
from hpcosim_studies.papers import papers_folder, scenario_path
from hpcosim_studies.pool import in_parallel
from hpcosim_studies.study import Request

HEURISTIC, TUNED, RULE, AGENT, DISTILLED, SEARCH = (
    "best heuristic",
    "best rule",
    "rule",
    "agent",
    "distilled",
    "search",
)
POLICIES = (HEURISTIC, TUNED, RULE, AGENT, DISTILLED, SEARCH)

BEST_HEURISTICS: Mapping[Objective, Mapping[str, str]] = {
    "energy": {
        "exp1": "minmin-immediate",
        "exp2": "first-high-cores-one",
        "exp3": "minmin-immediate",
        "exp4_mem": "maxmin",
        "exp4_comp": "first-high-cores",
        "exp4_mixed": "minmin-immediate",
    },
    "edp": {
        "exp1": "minmin-immediate",
        "exp2": "minmin-immediate",
        "exp3": "minmin-immediate",
        "exp4_mem": "maxmin",
        "exp4_comp": "first-high-cores",
        "exp4_mixed": "maxmin",
    },
}
"""The best of 88 deterministic heuristics on the first validation workloads."""

BEST_RULES: Mapping[Objective, Mapping[str, Rule]] = {
    "energy": {
        "exp1": Rule("cheapest", 0.0, 0),
        "exp2": Rule("costliest", 0.1, 2),
        "exp3": Rule("costliest", 0.1, 3),
        "exp4_mem": Rule("costliest", 0.0, 3),
        "exp4_comp": Rule("longest", 0.3, 2),
        "exp4_mixed": Rule("longest", 0.3, 3),
    },
    "edp": {
        "exp1": Rule("cheapest", 0.1, 3),
        "exp2": Rule("costliest", 0.1, 1),
        "exp3": Rule("cheapest", 0.3, 3),
        "exp4_mem": Rule("costliest", 0.1, 3),
        "exp4_comp": Rule("costliest", 0.3, 2),
        "exp4_mixed": Rule("longest", 0.3, 2),
    },
}
"""The best of the 36 rules on the first validation workloads of each experiment."""

METRICS: Mapping[Objective, str] = {"energy": "energy_j", "edp": "edp_js"}
COLUMNS = ("experiment", "objective", "number", "load", "resampled", "policy", "value")


class Task(NamedTuple):
    """A run.

    Attributes:
        workload: the workload.
        objective: minimised quantity.
        policy: one of `POLICIES`.
        models: folder of the distilled networks.
    """

    workload: Unseen
    objective: Objective
    policy: str
    models: Path


def reproduce(request: Request) -> None:
    """Write `results.csv` and `summary.md`; of a training also the distilled networks."""
    out = request.out
    prepare(out, force=request.force or request.train)  # there is no experiment to continue
    models = out if request.train else papers_folder() / "ineps" / request.name
    if request.train:
        for objective in OBJECTIVES:
            distil(objective, models / f"{objective}.safetensors", request.workers)
    tasks = [
        Task(workload, objective, policy, models)
        for kind in KINDS
        for objective in OBJECTIVES
        for policy in POLICIES
        for workload in unseen(kind, "final")
    ]
    rows = in_parallel(run_one, tasks, request.workers, request.name)
    write_rows(out / "results.csv", COLUMNS, rows, digits=None)
    (out / "summary.md").write_text(summary(rows), encoding="utf-8")


def run_one(task: Task) -> Row:
    """Run a policy on a workload, and return a row of `results.csv`."""
    one, objective = task.workload, task.objective
    library = Library([scenario_path("ineps", one.kind)])
    opened = open_scenario(library.first, one.draw(library.first_jobs), task.policy)
    metrics: Mapping[str, Any] = run_in_process(opened, _make(task))
    labels = (one.kind, objective, one.number, one.load, int(one.resampled), task.policy)
    return dict(zip(COLUMNS, (*labels, metrics[METRICS[objective]]), strict=True))


def _make(task: Task) -> Policy:
    kind, objective = task.workload.kind, task.objective
    if task.policy == TUNED:
        return pairing_rule(objective, BEST_RULES[objective][kind])
    trained = papers_folder() / "ineps" / f"pairing-{kind.partition('_')[0]}"
    names = {
        HEURISTIC: BEST_HEURISTICS[objective][kind],
        RULE: f"pairing-rule-{objective}",
        AGENT: f"pairing:{trained / f'{objective}.safetensors'}",
        DISTILLED: f"pairing:{task.models / f'{objective}.safetensors'}",
        SEARCH: f"pairing-search-{objective}",
    }
    return make_policy(names[task.policy])


PAIRS = (
    (SEARCH, RULE),
    (SEARCH, TUNED),
    (SEARCH, AGENT),
    (SEARCH, HEURISTIC),
    (DISTILLED, RULE),
    (AGENT, RULE),
    (RULE, HEURISTIC),
)


def difference(rows: Rows, policy: str, base: str) -> Estimate:
    """Return the mean relative difference of a policy to another one, in %, with its interval.

    Workloads are resampled as a whole: the differences are paired.

    Args:
        rows: the values on the same workloads, in the same order for each policy.
        policy: the policy.
        base: the policy that it is compared with.
    """
    value, other = (
        np.array([row["value"] for row in where(rows, policy=name)]) for name in (policy, base)
    )
    return estimate([100.0 * (value / other - 1.0)], mean, Bootstrap())


def summary(rows: Rows) -> str:
    """Return the comparison as Markdown."""
    parts = []
    for objective in OBJECTIVES:
        lines = []
        for kind in dict.fromkeys(row["experiment"] for row in rows):
            found = where(rows, experiment=kind, objective=objective)
            known = {row["policy"] for row in found}
            lines.append(
                [
                    kind,
                    *(
                        _cell(difference(found, *pair)) if known.issuperset(pair) else ""
                        for pair in PAIRS
                    ),
                ]
            )
        head = ["workloads of", *(f"{one} to {other}" for one, other in PAIRS)]
        parts += [[f"## Objective {objective}"], table(head, lines)]
    return document(
        ["# Unseen workloads"],
        [
            f"Mean difference in %, with its 95 % bootstrap interval, over {INSTANCES} workloads "
            "of each experiment; negative: the first is better. Workloads are the experiment's "
            "jobs in random order or drawn with replacement, submitted at the experiment's rate, "
            f"twice and a quarter of it. Their seed is {SEEDS['final']}, which no training, "
            "validation or choice uses."
        ],
        *parts,
    )


def _cell(found: Estimate) -> str:
    return f"{found.value:+.2f} ({found.low:+.2f} to {found.high:+.2f})"
