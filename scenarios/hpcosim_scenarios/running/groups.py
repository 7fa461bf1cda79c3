"""Jobs of a run by user, account, partition or QOS."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

GroupedBy = Literal["partition", "account", "user", "group", "qos"]
"""Column of `jobs.csv` by which jobs are grouped."""

GROUPED_BY: tuple[GroupedBy, ...] = get_args(GroupedBy)
NO_NAME = "(none)"

Group = Mapping[str, int | float]
Groups = Mapping[str, Mapping[str, Group]]
"""Figures of each group, by kind and name of the group; see `groups_of`."""


def groups_of(folder: Path, by: Sequence[GroupedBy]) -> dict[str, dict[str, dict[str, float]]]:
    """Return figures of the jobs of a run, by user, account and so on.

    Args:
        folder: the results folder of the run.
        by: kinds of groups.

    Returns:
        For each kind and each name:

        - `jobs`: number of jobs that started.
        - `mean_wait_s`: mean time from submission to start, s.
        - `max_wait_s`: longest such time, s.
        - `core_hours`: cores times run time of these jobs, core-hours.

        Groups in order of their core-hours, the largest first.
    """
    found: dict[str, dict[str, dict[str, float]]] = {kind: {} for kind in by}
    with (folder / "jobs.csv").open(encoding="utf-8", newline="") as file:
        for job in csv.DictReader(file):
            if not job["start_s"]:
                continue
            wait_s = float(job["start_s"]) - float(job["submit_s"])
            run_s = float(job["end_s"]) - float(job["start_s"]) if job["end_s"] else 0.0
            for kind, groups in found.items():
                name = job.get(kind) or NO_NAME
                _add(groups.setdefault(name, {}), wait_s, run_s * float(job["cores"]) / 3600.0)
    return {kind: _ordered(groups) for kind, groups in found.items()}


def _add(group: dict[str, float], wait_s: float, core_hours: float) -> None:
    group["jobs"] = group.get("jobs", 0) + 1
    group["mean_wait_s"] = group.get("mean_wait_s", 0.0) + wait_s  # the sum until `_ordered`
    group["max_wait_s"] = max(group.get("max_wait_s", 0.0), wait_s)
    group["core_hours"] = group.get("core_hours", 0.0) + core_hours


def _ordered(groups: Mapping[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    for group in groups.values():
        group["mean_wait_s"] /= group["jobs"]
    return dict(sorted(groups.items(), key=lambda each: (-each[1]["core_hours"], each[0])))
