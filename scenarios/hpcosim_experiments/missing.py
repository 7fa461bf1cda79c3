"""The runs of an experiment that have no stored result yet."""

from __future__ import annotations

from collections.abc import Mapping

from hpcosim_experiments.runs.plan import Plan, PlannedRun
from hpcosim_experiments.runs.result import RunResult
from hpcosim_experiments.store import RunStore

Results = Mapping[str, RunResult]
"""Results by key."""


def stored_results(plan: Plan, store: RunStore) -> dict[str, RunResult]:
    """Return the stored results of an experiment by key, without those of failed runs.

    Raises:
        StoreError: a file is not readable.
    """
    keys = dict.fromkeys(run.key for run in plan.runs)
    found = {key: store.read(key, jobs=plan.experiment.jobs) for key in keys}
    return {key: each for key, each in found.items() if each is not None and each.status == "ok"}


def missing_runs(plan: Plan, results: Results) -> list[PlannedRun]:
    """Return the runs without a result: one per key, those with the same jobs in sequence."""
    runs: dict[str, PlannedRun] = {}
    order: dict[bytes, int] = {}
    for run in plan.runs:
        if run.key not in results:
            runs.setdefault(run.key, run)
            order.setdefault(run.task.table, len(order))
    return sorted(runs.values(), key=lambda run: order[run.task.table])


def summary_of(plan: Plan, store: RunStore, results: Results, *, changed: bool = False) -> str:
    """Return a sentence about the runs: how many are stored, missing and left over.

    Args:
        plan: the experiment.
        store: the store.
        results: the stored results that are used.
        changed: whether the experiment file has changed since the last start.
    """
    keys = {run.key for run in plan.runs}
    count = len(plan.runs)
    different = f", {len(keys)} of them different" if len(keys) < count else ""
    parts = [f"{plan.experiment.name}: {count} runs{different}"]
    if results:
        parts.append(f"{len(results)} stored results are used")
    parts.append(f"{len(keys) - len(results)} runs to simulate")
    if left := len(store.keys() - keys):
        parts.append(f"{left} stored results of other runs are kept")
    begin = f"{plan.path} has changed since the last start. " if changed else ""
    return begin + "; ".join(parts)


def other_commits(plan: Plan, results: Results) -> str:
    """Return a warning if stored results are of another commit of hpcosim; empty: none is."""
    commits = {run.task.base.git_commit for run in plan.runs}
    count = sum(result.git_commit not in commits for result in results.values())
    if not count:
        return ""
    return f"{count} stored results are of another commit of hpcosim; --force simulates them again"
