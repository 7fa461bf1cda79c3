"""Contention for memory bandwidth and the choice of nodes on the compiled engine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")

from hpcosim_compiled.compiler import entry
from hpcosim_compiled.contention import _rounded
from support.engines import both
from support.paths import ROOT

MEMORY = {"c_mbps": 21000, "b_per_mbps": -1.85e-05, "da": 1, "db_mbps": 169}
MEMORY |= {"dc_mbps": 25000, "dd_mbps": 100}
INEPS = sorted((ROOT / "scenarios" / "papers" / "ineps").glob("*.yaml"))
RULES = (
    "none-none",
    "shortest-high-cores",
    "low-mem-ops-high-mem",
    "smallest-low-power-one",
    "first-high-mem-bw",
    "random-random",
    "low-mem-random-one",
)


def ends_s(folder: Path) -> list[float]:
    """Return the ends of the jobs of a run, s."""
    header, *rows = (folder / "jobs.csv").read_text().splitlines()
    place = header.split(",").index("end_s")
    return [float(row.split(",")[place]) for row in rows]


@pytest.mark.compiles
def test_jobs_that_share_a_processor_end_later_than_alone(tmp_path: Path) -> None:
    """Its memory is too slow for both; one that ends gives the other its bandwidth back."""
    processor = {"cores": 4, "static_w": 50, "dynamic_w": 5, "contention": MEMORY}
    job = {"cores": 2, "req_ops": 10**11, "requested_s": 900, "memory_volume_mb": 10**6}
    jobs = [{"job_id": 1, "submit_s": 0, **job}, {"job_id": 2, "submit_s": 30, **job}]
    path = tmp_path / "two.yaml"
    scenario = {"name": "two", "platform": {"nodes": [{"count": 2, "processors": [processor]}]}}
    path.write_text(json.dumps({**scenario, "workload": {"inline": jobs}, "scheduler": "fcfs"}))
    first_s, second_s = ends_s(both(path, tmp_path / "shared"))
    assert first_s > 110
    assert second_s - 30 > 110
    alone = {"scheduler.name": "first-high-cores"}
    assert max(ends_s(both(path, tmp_path / "alone", **alone))) < max(first_s, second_s)


@pytest.mark.parametrize("path", INEPS, ids=lambda path: path.stem)
def test_the_experiments_of_ineps_are_the_same(path: Path, tmp_path: Path) -> None:
    """With rules that order jobs and nodes in different ways."""
    for rule in RULES:
        both(path, tmp_path / rule, **{"scheduler.name": rule})


@entry
def rounded(speed: float) -> float:
    """Return what compiled code gets."""
    return _rounded(speed)


def test_speeds_are_rounded_as_by_python() -> None:
    """Also where the tenth digit is close to a five."""
    rng = np.random.default_rng(0)
    near = (rng.integers(10**9, size=3000) + 0.5) / 10**9
    speeds = [*rng.random(3000), *near, *np.nextafter(near, 0), *np.nextafter(near, 1), 0.0, 1.0]
    assert [rounded(speed) for speed in map(float, speeds)] == [
        round(speed, 9) for speed in map(float, speeds)
    ]
