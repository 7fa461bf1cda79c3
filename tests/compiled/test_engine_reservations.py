"""Reservations that name nodes, and explanations, on the compiled engine."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")

from support.engines import both

JOBS = [
    {"job_id": 1, "submit_s": 0, "cores": 3, "run_s": 100, "requested_s": 100},
    {"job_id": 2, "submit_s": 1, "cores": 4, "run_s": 50, "requested_s": 50},
    {"job_id": 3, "submit_s": 2, "cores": 1, "run_s": 20, "requested_s": 30},
    {"job_id": 4, "submit_s": 3, "cores": 1, "run_s": 200, "requested_s": 200},
]
"""On four cores job 2 waits for job 1; job 3 ends before, job 4 does not."""


def scenario(folder: Path, scheduler: str, node_cores: list[int], **settings: Any) -> Path:
    """Write a scenario of `JOBS` on nodes of these cores."""
    path = folder / "few.yaml"
    nodes = [
        {"count": 1, "processors": [{"cores": cores, "static_w": 9, "dynamic_w": 1}]}
        for cores in node_cores
    ]
    workload = {"inline": JOBS, **settings.pop("workload", {})}
    content = {"name": "few", "platform": {"nodes": nodes}, "workload": workload}
    path.write_text(json.dumps({**content, "scheduler": {"name": scheduler, **settings}}))
    return path


def table(folder: Path, name: str) -> list[dict[str, str]]:
    """Return the rows of a result file."""
    with (folder / name).open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "scheduler",
    [
        pytest.param("easy", marks=pytest.mark.compiles),
        pytest.param("conservative", marks=pytest.mark.compiles),
        "easy-sjf",
    ],
)
def test_whole_nodes_of_different_size_are_reserved_by_name(scheduler: str, tmp_path: Path) -> None:
    """A count of cores or nodes cannot say where a job fits."""
    whole = {"workload": {"placement": "whole_nodes"}}
    out = both(scenario(tmp_path, scheduler, [2, 1, 1, 4], **whole), tmp_path)
    assert {row["placement"] for row in table(out, "jobs.csv")} == {"whole_nodes"}


@pytest.mark.parametrize("scheduler", ["easy", "conservative"])
def test_a_job_on_one_node_is_not_placed_on_two(scheduler: str, tmp_path: Path) -> None:
    """Job 2 has to wait for the node of four cores, though others have as many together."""
    mixed = {"workload": {"inline": [*JOBS[:1], {**JOBS[1], "placement": "one_node"}, *JOBS[2:]]}}
    out = both(scenario(tmp_path, scheduler, [4, 2, 2], **mixed), tmp_path)
    assert table(out, "jobs.csv")[1]["start_s"] == "100.0"


@pytest.mark.parametrize("scheduler", ["fcfs", "sjf", "wfp3", "easy", "easy-saf", "conservative"])
def test_explanations_name_the_head_and_its_expected_start(scheduler: str, tmp_path: Path) -> None:
    """Job 2 is said to start when job 1 ends; the jobs behind it wait for it."""
    out = both(scenario(tmp_path, scheduler, [4], explain=True), tmp_path)
    said = table(out, "explanations.csv")
    assert {row["reason"] for row in said} <= {"Resources", "Priority"}
    assert ("2", "1.0", "Resources", "100.0") in [tuple(row.values())[:4] for row in said]
