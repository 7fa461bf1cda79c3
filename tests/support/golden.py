"""Reference results with their platforms and jobs."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from hpcosim_protocol import Contention, NodeGroup, Platform, Processor
from hpcosim_workloads.table import PLACEMENTS, JobTable, job_table
from support.paths import SHARED

GOLDEN = SHARED / "golden"


def golden(name: str) -> Any:
    """Return the path of a golden file; skip the test if it is missing."""
    path = GOLDEN / name
    if not path.is_file():
        pytest.skip(f"the golden results are not on this machine: no {path}")
    return json.loads(path.read_text(encoding="utf-8"))


def golden_platform(rows: list[dict[str, Any]]) -> Platform:
    """Return the cluster of a golden file."""
    return Platform(
        tuple(
            NodeGroup(
                1,
                (
                    Processor(
                        cores=row["cores"],
                        clock_ghz=row["clock_rate"],
                        static_w=row["static_power"],
                        dynamic_w=row["dynamic_power"],
                        idle_fraction=row["min_power"],
                        flops_per_cycle=row["dpflops_per_cycle"],
                        contention=Contention(
                            row["c"], row["b"], row["da"], row["db"], row["dc"], row["dd"]
                        ),
                    ),
                ),
            )
            for row in rows
        )
    )


def golden_jobs(rows: list[dict[str, Any]]) -> JobTable:
    """Return the workload of a golden file."""
    return job_table(
        job_id=[row["id"] for row in rows],
        submit_s=[row["submit"] for row in rows],
        run_s=[row["req_ops"] / 1e9 for row in rows],
        requested_s=[row["req_time"] for row in rows],
        cores=[row["cores"] for row in rows],
        placement=PLACEMENTS.index("one_node"),
        ops=[math.ceil(row["req_ops"] / row["ipc"]) for row in rows],
        memory_mb=[row["mem"] for row in rows],
        memory_volume_mb=[row["mem_vol"] for row in rows],
    )
