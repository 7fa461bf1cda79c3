"""The scheduler `slurm` on the compiled engine for sites with devices, accounts and limits."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")

from support.engines import both

PROCESSOR = {"cores": 4, "static_w": 9, "dynamic_w": 1}


def jobs(folder: Path, each: list[dict[str, Any]], **settings: Any) -> list[dict[str, str]]:
    """Simulate jobs of a core on both engines, and return the rows of `jobs.csv`."""
    platform = {
        "nodes": [
            {"count": 1, "processors": [PROCESSOR], "memory_mb": 1000, "gres": {"gpu:a": 2}},
            {"count": 1, "processors": [PROCESSOR], "memory_mb": 4000, "weight": 9},
        ],
        "consumable": ["cores", "memory"],
        "partitions": [
            {"name": "all", "nodes": [[0, 1]], "default": True, "max_time_s": 1000},
            {"name": "gpu", "nodes": [[0, 0]], "priority_tier": 2},
        ],
    }
    some = {"submit_s": 0, "cores": 1, "run_s": 100, "requested_s": 100}
    inline = [{"job_id": number, **some, **job} for number, job in enumerate(each, 1)]
    content = {"name": "site", "platform": platform, "workload": {"inline": inline}}
    path = folder / "site.yaml"
    path.write_text(json.dumps({**content, "scheduler": {"name": "slurm", "settings": settings}}))
    with (both(path, folder) / "jobs.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_job_waits_for_a_device_although_cores_are_free(tmp_path: Path) -> None:
    """The third job that needs a device waits until the first has ended."""
    rows = jobs(tmp_path, [{"gres_per_node": {"gpu": 1}, "partition": "gpu"}] * 3)
    starts_s = [float(row["start_s"]) for row in rows]
    assert max(starts_s[:2]) < 100 < starts_s[2]


def test_jobs_are_placed_alike_in_a_network_of_two_levels(tmp_path: Path) -> None:
    """Both engines place jobs of many sizes on four leaf switches below two others."""
    generator, inline = np.random.default_rng(5), []
    for number in range(1, 201):
        run_s = int(generator.integers(10, 900))
        tasks = int(generator.choice([0, 2, 4]))
        cores = int(generator.choice([1, 2, 4, 8, 12, 16, 20, 24])) if tasks != 4 else 16
        inline.append(
            {
                "job_id": number,
                "submit_s": 20 * number,
                "cores": max(cores, tasks),
                "run_s": run_s,
                "requested_s": run_s + 60,
                "tasks_per_node": tasks,
            }
        )
    leaves = [{"name": f"l{k}", "nodes": [[3 * k, 3 * k + 2]]} for k in range(4)]
    upper = [("a", ["l0", "l1"]), ("b", ["l2", "l3"]), ("top", ["a", "b"])]
    weights = [{"count": 5, "processors": [PROCESSOR]}]
    weights += [{"count": 7, "processors": [PROCESSOR], "weight": 2}]
    platform = {
        "nodes": weights,
        "consumable": ["cores"],
        "switches": [*leaves, *({"name": name, "switches": below} for name, below in upper)],
    }
    content = {"name": "tree", "platform": platform, "workload": {"inline": inline}}
    path = tmp_path / "tree.yaml"
    path.write_text(json.dumps({**content, "scheduler": {"name": "slurm"}}))
    both(path, tmp_path)


def test_jobs_at_unix_times_start_alike(tmp_path: Path) -> None:
    """The rounds of pings before the first submission are skipped by both engines."""
    rows = jobs(tmp_path, [{"submit_s": 1.8e9}, {"submit_s": 1.8e9 + 400_000}])
    assert all(float(row["start_s"]) - float(row["submit_s"]) < 60 for row in rows)


def test_jobs_go_where_memory_is_free(tmp_path: Path) -> None:
    """The second job does not fit beside the first on the node of less weight."""
    rows = jobs(tmp_path, [{"memory_per_node_mb": 700}] * 2)
    assert [row["nodes"] for row in rows] == ["0", "1"]
    assert abs(float(rows[0]["start_s"]) - float(rows[1]["start_s"])) < 1


def test_a_limit_holds_the_jobs_of_a_user(tmp_path: Path) -> None:
    """A user with one running job waits, another does not."""
    users = {"ann": {"max_jobs": 1}, "bob": {}}
    rows = jobs(
        tmp_path,
        [{"user": "ann"}, {"user": "ann"}, {"user": "bob"}],
        accounts={"lab": {"users": users}},
        enforce=["limits"],
    )
    starts_s = [float(row["start_s"]) for row in rows]
    assert starts_s[1] > 100 > starts_s[2]


@pytest.mark.compiles
def test_fair_share_prefers_the_user_who_used_less(tmp_path: Path) -> None:
    """Both wait for the same cores; the one whose user has used nothing is first."""
    full = {"cores": 8, "run_s": 700, "requested_s": 700, "user": "ann"}
    rows = jobs(
        tmp_path,
        [full, {**full, "submit_s": 1}, {**full, "submit_s": 1, "user": "bob"}],
        accounts={"lab": {"users": {"ann": {}, "bob": {}}}},
        priority={"weight_fair_share": 1000},
    )
    assert float(rows[1]["start_s"]) > float(rows[2]["start_s"])


def test_jobs_that_can_never_start_are_refused_or_given_up(tmp_path: Path) -> None:
    """A job beyond the limit of its partition waits to the end; an unknown account is refused."""
    rows = jobs(
        tmp_path,
        [{"requested_s": 2000, "user": "ann"}, {"user": "ann"}, {"user": "eve", "account": "x"}],
        accounts={"lab": {"users": {"ann": {}}}},
        enforce=["associations"],
    )
    assert [row["state"] for row in rows] == ["cancelled", "completed", "rejected"]
    assert [row["reason"] for row in rows] == ["PartitionTimeLimit", "", "InvalidAccount"]
