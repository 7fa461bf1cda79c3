"""Jobs that the limits of a site never let start: pending with Slurm's reason, and the run ends."""

from __future__ import annotations

from typing import Any

import pytest

from hpcosim_client import play
from hpcosim_protocol import Partition, Platform
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.catalogue.scheduler_settings import unstartable_jobs
from hpcosim_sim.engine.jobs import submission_of
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.engine.site_events import JobAction, SiteEvents
from hpcosim_workloads.table import JobSpec
from support.simulating import cluster_of
from support.site_scenes import final_states, job, table

SCHEDULERS = ("slurm", "multifactor", "fairshare")
USERS = {"users": {"u": {"default": True}}}
ENFORCED = {"enforce": ["associations", "limits", "qos"]}
ACCOUNT = {**ENFORCED, "accounts": {"a": {"grp_tres": {"cpu": 2}, **USERS}}}
QOS = {
    **ENFORCED,
    "accounts": {"a": {"qos": ["high"], **USERS}},
    "qos": {"high": {"max_wall_s": 3600}},
}
SHORT = Partition(name="p", nodes=((0, 1),), default=True, max_time_s=3600.0)

CASES = {
    "account": (ACCOUNT, (), "AssocGrpCpuLimit", {1, 2}),
    "qos": (QOS, (), "QOSMaxWallDurationPerJobLimit", {1}),
    "partition": ({}, (SHORT,), "PartitionTimeLimit", {1}),
}


def jobs() -> list[JobSpec]:
    """Return a long job and a short one of an account and a QOS."""
    spec = {"user": "u", "account": "a", "qos": "high"}
    return [
        job(1, 0.0, 60.0, 4, requested_s=7200.0, spec=spec),
        job(2, 5.0, 60.0, 4, requested_s=600.0, spec=spec),
    ]


def run(
    name: str, settings: dict[str, Any], platform: Platform, *actions: JobAction
) -> tuple[Simulation, int]:
    """Run the jobs to their end; return the simulation and the number of wake-ups."""
    simulation = Simulation(
        platform,
        table(*jobs()),
        Rules(stuck_after_wakeups=100),
        site_events=SiteEvents(job_actions=actions),
    )
    play(
        make_policy(name, settings=settings),
        platform,
        lambda decisions, wake_on, elapsed_s: simulation.advance(
            decisions, wake_on=wake_on, elapsed_s=elapsed_s
        ),
    )
    return simulation, simulation.requests


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("case", CASES)
def test_a_job_beyond_a_limit_ends_with_slurms_reason(name: str, case: str) -> None:
    """The run ends when nothing else can happen; other jobs run as usual."""
    settings, partitions, reason, never = CASES[case]
    platform = Platform(cluster_of(2, 4).nodes, partitions=partitions)
    simulation, wakeups = run(name, settings, platform)
    expected = {number: "cancelled" if number in never else "completed" for number in (1, 2)}
    assert final_states(simulation) == expected
    assert set(simulation.recording.reasons.values()) == {reason}
    assert wakeups < 50


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_later_update_within_the_limit_lets_the_job_start(name: str) -> None:
    """The job goes on waiting, without wake-ups, until its user requests less time."""
    update = JobAction(at_s=1_000_000.0, job_id=1, kind="update", requested_s=600.0)
    simulation, wakeups = run(name, QOS, cluster_of(2, 4), update)
    assert final_states(simulation) == {1: "completed", 2: "completed"}
    assert simulation.recording.start_s[0] >= 1_000_000.0
    assert wakeups < 100


@pytest.mark.parametrize("case", CASES)
def test_such_jobs_are_known_before_the_run(case: str) -> None:
    """`hpcosim validate` lists the same jobs and reasons."""
    settings, partitions, reason, never = CASES[case]
    platform = Platform(cluster_of(2, 4).nodes, partitions=partitions)
    events = [submission_of(each) for each in jobs()]
    found = unstartable_jobs("slurm", settings, platform, events)
    assert found == dict.fromkeys(sorted(never), reason)
    assert unstartable_jobs("easy", {}, platform, events) == {}
