"""The offered load of a workload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.jobs import jobs_of as jobs_in
from hpcosim_scenarios.model.jobs import load_warnings, offered_load
from support.simulating import cluster_of, jobs_of


def test_offered_load_is_work_over_capacity() -> None:
    """It is the sum of core-seconds / (cores of the platform x span of submissions)."""
    jobs = jobs_of((0.0, 30.0, 2), (60.0, 60.0, 4), (100.0, 10.0, 1))
    assert offered_load(jobs, cluster_of(2, 4), None) == pytest.approx(310 / (8 * 100))


def test_offered_load_of_simultaneous_jobs_is_undefined() -> None:
    """Jobs that are submitted at one instant have no rate."""
    assert offered_load(jobs_of((5.0, 30.0, 2), (5.0, 60.0, 4)), cluster_of(2), None) is None


def test_run_times_at_a_reference_clock_are_those_on_an_average_core() -> None:
    """On cores of twice the reference clock the load is half as high."""
    jobs = jobs_of((0.0, 30.0, 2), (100.0, 60.0, 4))
    slow, fast = cluster_of(2, 4, clock_ghz=1.5), cluster_of(2, 4, clock_ghz=3.0)
    usual = offered_load(jobs, slow, 1.5)
    assert usual is not None
    assert offered_load(jobs, fast, 1.5) == pytest.approx(usual / 2)
    assert offered_load(jobs, fast, None) == pytest.approx(usual)


def test_jobs_with_operations_run_at_the_speed_of_an_average_core() -> None:
    """Their run time in the table is that at 10^9 operations per second."""
    jobs = jobs_of((0.0, 30.0, 2), (100.0, 60.0, 4))
    with_operations = replace(jobs, ops=np.array([30e9, 60e9]))
    usual = offered_load(jobs, cluster_of(2, 4), None)
    assert usual is not None
    fast = cluster_of(2, 4, clock_ghz=2.0)
    assert offered_load(with_operations, fast, None) == pytest.approx(usual / 2)


@pytest.mark.parametrize("source", ["inline", "json"])
def test_listed_jobs_have_no_warning_about_the_load(tmp_path: Path, source: str) -> None:
    """Jobs in the scenario file are examples; the same jobs in a file of their own are not."""
    jobs = [
        f'{{"job_id": {number}, "submit_s": {number}, "cores": 2, "run_s": 9}}'
        for number in range(3)
    ]
    (tmp_path / "jobs.jsonl").write_text("\n".join(jobs))
    value = "jobs.jsonl" if source == "json" else f"[{', '.join(jobs)}]"
    (tmp_path / "a.yaml").write_text(
        "name: x\nplatform: {nodes: [{count: 1, processors: "
        f"[{{cores: 2, static_w: 1, dynamic_w: 1}}]}}]}}\nworkload: {{{source}: {value}}}\n"
    )
    scenario = load_scenario(tmp_path / "a.yaml")
    warnings = load_warnings(scenario, jobs_in(scenario, tmp_path))
    assert len(warnings) == (1 if source == "json" else 0)
