"""The scheduler `slurm` does what a real Slurm did with 40 jobs of many shapes.

The scenes were recorded with Slurm 22.05.8 on the micro cluster of `support.golden_slurm`, without
accounts, and on 12 nodes below two levels of switches. Times are seconds after the first
submission. No constant was fitted to single jobs; the phase of slurmctld's loop is that of its
logged passes.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hpcosim_protocol import NodeGroup, Partition, Platform, Processor, Switch
from hpcosim_schedulers.slurm.policy import slurm
from hpcosim_schedulers.slurm.settings import parse_site
from support.golden_slurm import OVERHEAD_S, job_table_of, micro_cluster
from support.sbatch_jobs import NODES, sbatch_job
from support.simulating import simulate

RECORDED = Path(__file__).parent / "recorded"
FIRST = 1001
DIFFERENT = {
    "mixed-a": set[int](),
    "mixed-b": set[int](),
    "mixed-c": set[int](),
    # An iteration of the real main loop came in the next second, and ended a job 1 s earlier.
    "mixed-d": {1024, 1031},
    # A node was free later than in the simulation, so that two jobs swapped their nodes at 430 s.
    "two-levels": {1028, 1029, 1033, 1036, 1037, 1038, 1040},
}
"""Jobs that start more than 5 s apart, or on other nodes."""


def cluster_of(name: str) -> tuple[Platform, tuple[str, ...]]:
    """Return the cluster of a scene, and the names of its nodes."""
    if name != "two-levels":
        return micro_cluster(), NODES
    leaves = [Switch(name=f"l{at}", nodes=((3 * at, 3 * at + 2),)) for at in range(4)]
    middle = [Switch(name="a", switches=("l0", "l1")), Switch(name="b", switches=("l2", "l3"))]
    platform = Platform(
        (NodeGroup(12, (Processor(12),), 48_000.0),),
        consumable=("cores", "memory"),
        partitions=(
            Partition(
                name="normal", nodes=((0, 11),), default=True, default_memory_per_core_mb=2800.0
            ),
        ),
        switches=(*leaves, *middle, Switch(name="top", switches=("a", "b"))),
    )
    return platform, tuple(f"t{number}" for number in range(1, 13))


def settings_of(scene: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the recorded cluster."""
    start = datetime(1970, 1, 1) + timedelta(seconds=scene["epoch_s"])
    return {
        "priority": {
            "weight_age": 50_000,
            "weight_partition": 1_000_000,
            "weight_job_size": 200_000,
            "max_age_s": 18_000,
            "start_time": start.isoformat(),
        },
        "scheduler": {
            "bf_max_job_user": 200,
            "bf_max_job_test": 1200,
            "default_queue_depth": 1200,
            **{name: scene[name] for name in ("loop_s", "loop_begin_s", "bf_begin_s")},
        },
        "enforce_part_limits": "all",
        "job_requeue": False,
        "dtstart_s": scene["dtstart_s"],
    }


@pytest.mark.parametrize("name", DIFFERENT)
def test_mixed_scene_repeats_job_by_job(name: str) -> None:
    """The jobs start within 5 s of the real ones, on the same nodes, by the same scheduler."""
    scene = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
    jobs = []
    for number, each in enumerate(scene["jobs"], FIRST):
        job = sbatch_job(number, each["submit_s"], each["seconds"], each["options"].split())
        late_s = 0.0 if each["seconds"] < 0 else OVERHEAD_S
        jobs.append(job._replace(qos="", run_s=job.run_s + late_s))
    policy = slurm(parse_site(settings_of(scene)))
    platform, names = cluster_of(name)
    recording = simulate(platform, job_table_of(jobs), policy).recording
    wrong = set()
    for row, number in enumerate(recording.job_id):
        real = scene["jobs"][number - FIRST]
        nodes = ",".join(names[node] for node in sorted(recording.nodes_of(row)))
        same = nodes == real["nodes"] and policy.started_by[number] == real["by"]
        if not same or abs(recording.start_s[row] - real["start_s"]) > 5.0:
            wrong.add(number)
    assert wrong == DIFFERENT[name]
