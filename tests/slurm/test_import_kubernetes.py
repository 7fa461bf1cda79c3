"""Kubernetes-style tables of GPU jobs as jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcosim_slurm.files.kubernetes import KubernetesOptions, import_kubernetes
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.report import ImportReport

HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time,node\n"
)


def imported(
    tmp_path: Path, text: str, **options: Any
) -> tuple[list[dict[str, Any]], ImportReport]:
    """Return the jobs and the report of a table."""
    path, out = tmp_path / "pods.csv", tmp_path / "jobs.jsonl"
    path.write_text(text)
    report = import_kubernetes(path, out, KubernetesOptions(force=True, **options))
    return [json.loads(line) for line in out.read_text().splitlines()], report


def test_a_pod_is_a_job_on_one_node(tmp_path: Path) -> None:
    """A share of a GPU is below 1, types are part of the name, and times start at 0."""
    jobs, _ = imported(
        tmp_path,
        HEADER
        + "a,4000,8192,1,460,A100,LS,Running,100,700,160,n1\n"
        + "b,1500,1024,2,1000,A100|H100,BE,Failed,40,90,50,n2\n",
    )
    assert jobs == [
        {
            "job_id": 1,
            "submit_s": 0,
            "cores": 2,
            "run_s": 40,
            "requested_s": 40,
            "placement": "one_node",
            "name": "b",
            "qos": "BE",
            "memory_per_node_mb": 1024,
            "gres_per_node": {"gpu": 2},
            "fails": True,
        },
        {
            "job_id": 2,
            "submit_s": 60,
            "cores": 4,
            "run_s": 540,
            "requested_s": 540,
            "placement": "one_node",
            "name": "a",
            "qos": "LS",
            "memory_per_node_mb": 8192,
            "gres_per_node": {"gpu:A100": 0.46},
        },
    ]
    recorded = (tmp_path / "jobs.recorded.csv").read_text().splitlines()
    assert recorded[1:] == ["1,0,10,50,n2,FAILED", "2,60,120,660,n1,COMPLETED"]


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    """The mapping is an option."""
    jobs, _ = imported(
        tmp_path,
        "pod,vcores,born,died\nx,3000,2026-01-01T00:00:00,2026-01-01T01:00:00\n",
        columns=("cores_milli=vcores", "submit=born", "end=died"),
    )
    assert [(job["name"], job["cores"], job["run_s"]) for job in jobs] == [("x", 3, 3600)]


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a,b\n1,2\n", (), "pods.csv:1: there is no column for submit and end"),
        (HEADER, ("color=x",), "--column: expected FIELD=COLUMN with a field of name, cores_milli"),
        (HEADER + "a\n", (), "no pod with a submission and an end was found"),
        (HEADER + "a,x,1,0,0,,,,0,9,0,\n", (), "1 pods with an invalid cores_milli (line 2)"),
        (HEADER + "a,1,1,0,0,,,,9,9,9,\n", (), "1 pods that end before they start (line 2)"),
        (HEADER + "a,1,1,0,0,,,,9,9,9,\n", ("end=x",), "--column end=x: there is no such column"),
    ],
)
def test_a_table_without_jobs_is_an_error(
    tmp_path: Path, text: str, columns: tuple[str, ...], message: str
) -> None:
    """The message says what was expected."""
    with pytest.raises(InputError) as error:
        imported(tmp_path, text, columns=columns)
    assert message in str(error.value)
