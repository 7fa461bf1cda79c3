"""Waits of jobs by user, account and partition."""

from __future__ import annotations

from pathlib import Path

from hpcosim_scenarios.running.compare import groups_of

JOBS = """job_id,submit_s,start_s,end_s,state,cores,user,partition,account
1,0,10,3610,completed,2,ann,cpu,physics
2,5,25,1825,completed,1,bob,cpu,
3,5,,,rejected,1,bob,cpu,
4,0,0,3600,completed,4,ann,gpu,physics
"""


def test_groups_have_waits_and_core_hours(tmp_path: Path) -> None:
    """Jobs that did not start are left out; the group with most core-hours is the first."""
    (tmp_path / "jobs.csv").write_text(JOBS)
    assert groups_of(tmp_path, ["user", "account"]) == {
        "user": {
            "ann": {"jobs": 2, "mean_wait_s": 5.0, "max_wait_s": 10.0, "core_hours": 6.0},
            "bob": {"jobs": 1, "mean_wait_s": 20.0, "max_wait_s": 20.0, "core_hours": 0.5},
        },
        "account": {
            "physics": {"jobs": 2, "mean_wait_s": 5.0, "max_wait_s": 10.0, "core_hours": 6.0},
            "(none)": {"jobs": 1, "mean_wait_s": 20.0, "max_wait_s": 20.0, "core_hours": 0.5},
        },
    }
    assert list(groups_of(tmp_path, ["partition"])["partition"]) == ["gpu", "cpu"]
