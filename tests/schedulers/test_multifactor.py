"""The policies `multifactor` and `fairshare`: order, periods, limits and explanations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpcosim_client import PolicyError, View
from hpcosim_protocol import JobRequest, JobSubmitted, NodeGroup, Partition, Platform, Processor
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.slurm.multifactor import Priorities
from hpcosim_schedulers.slurm.policies import fairshare, multifactor
from hpcosim_schedulers.slurm.settings import parse_site
from hpcosim_workloads.table import JobTable
from support.simulating import cluster_of, simulate, starts
from support.site_scenes import job, table

ACCOUNTS: dict[str, Any] = {
    "physics": {"shares": 1, "users": {"ann": {}, "ben": {}}},
    "biology": {"shares": 1, "users": {"cat": {}}},
}


def random_jobs(seed: int, users: int = 1) -> JobTable:
    """Return 150 jobs that wait for each other on 64 cores."""
    rng = np.random.default_rng(seed)
    submit_s = np.cumsum(rng.exponential(20, 150))
    jobs = []
    for number in range(150):
        run_s = float(rng.exponential(200)) + 1
        spec = {"user": f"u{rng.integers(users)}"}
        asked_s, cores = run_s * float(rng.uniform(1, 3)), int(rng.integers(1, 33))
        at_s = float(submit_s[number])
        jobs.append(job(number + 1, at_s, run_s, cores, requested_s=asked_s, spec=spec))
    return table(*jobs)


@pytest.mark.parametrize("seed", range(3))
def test_equal_priorities_are_easy(seed: int) -> None:
    """With one user and no other factor, the schedule is that of EASY backfilling."""
    jobs, platform = random_jobs(seed), cluster_of(8, 8)
    expected = starts(simulate(platform, jobs, "easy"))
    assert starts(simulate(platform, jobs, fairshare(parse_site({})))) == expected
    basic = parse_site({"priority": {"type": "basic"}})
    assert starts(simulate(platform, jobs, multifactor(basic))) == expected


def test_fair_share_favours_who_used_less() -> None:
    """The job of the account without usage starts before an earlier job of another account."""
    spec = {name: {"user": name, "account": account} for name, account in WHERE.items()}
    jobs = table(
        job(1, 0.0, 1000.0, 8, spec=spec["ann"]),
        job(2, 1.0, 100.0, 8, spec=spec["ben"]),
        job(3, 2.0, 100.0, 8, spec=spec["cat"]),
    )
    found = starts(simulate(cluster_of(1, 8), jobs, fairshare(parse_site({"accounts": ACCOUNTS}))))
    assert (found[3], found[2]) == (1000.0, 1100.0)


WHERE = {"ann": "physics", "ben": "physics", "cat": "biology"}


def test_priorities_change_only_when_they_are_calculated() -> None:
    """Before the first PriorityCalcPeriod, usage has no effect on the order."""
    spec = {name: {"user": name, "account": account} for name, account in WHERE.items()}
    jobs = table(
        job(1, 0.0, 200.0, 8, spec=spec["ann"]),
        job(2, 1.0, 100.0, 8, spec=spec["ben"]),
        job(3, 2.0, 100.0, 8, spec=spec["cat"]),
    )
    site = {"accounts": ACCOUNTS, "priority": {"calc_period_s": 300}}
    found = starts(simulate(cluster_of(1, 8), jobs, fairshare(parse_site(site))))
    assert (found[2], found[3]) == (200.0, 300.0)
    site["priority"] = {"calc_period_s": 100}
    found = starts(simulate(cluster_of(1, 8), jobs, fairshare(parse_site(site))))
    assert (found[3], found[2]) == (200.0, 300.0)


PLATFORM = Platform(
    (NodeGroup(10, (Processor(12),), gres={"gpu:a100": 4}),),
    partitions=(
        Partition(name="normal", nodes=((0, 9),), default=True, priority_job_factor=5),
        Partition(name="low", nodes=((0, 4),), priority_job_factor=1),
        Partition(name="urgent", nodes=((0, 9),), priority_tier=2),
    ),
)


def priority(settings: dict[str, Any], at_s: float = 0.0, **fields: Any) -> int:
    """Return the priority of a job that was submitted at 0, calculated at a time."""
    site = parse_site({"priority": settings, "qos": {"normal": {"priority": 5}, "high": HIGH}})
    view, priorities = View(PLATFORM), Priorities(site, PLATFORM)
    request: dict[str, Any] = {}
    for name in ("nice", "priority", "nodes_min", "gres_per_job"):
        if name in fields:
            request[name] = fields.pop(name)
    made = JobRequest(**request) if request else None
    view.apply(0.0, [JobSubmitted(0.0, 1, fields.pop("cores", 12), 60.0, request=made, **fields)])
    priorities.update(view)
    view.apply(at_s, [])
    priorities.update(view)
    return priorities.priority(view.queue[1])


HIGH = {"priority": 10}


@pytest.mark.parametrize(
    ("settings", "fields", "expected"),
    [
        ({"weight_age": 1000, "max_age_s": 3000}, {"at_s": 600.0}, 200),
        ({"weight_age": 1000, "max_age_s": 3000}, {"at_s": 700.0}, 200),  # last calculation: 600 s
        ({"weight_age": 1000, "max_age_s": 3000}, {"at_s": 9000.0}, 1000),
        ({"weight_job_size": 200}, {"cores": 60, "nodes_min": 5}, 100),
        ({"weight_job_size": 200, "favor_small": True}, {"cores": 24, "nodes_min": 2}, 160),
        ({"weight_partition": 1000}, {}, 1000),
        ({"weight_partition": 1000}, {"partitions": ("low",)}, 200),
        ({"weight_partition": 2, "flags": ["no_normal_part"]}, {}, 10),
        ({"weight_qos": 100}, {"qos": "high"}, 100),
        ({"weight_qos": 100}, {}, 50),
        (
            {"weight_tres": {"cpu": 100, "gres/gpu": 400}},
            {"gres_per_job": {"gpu": 12}},
            130,
        ),
        ({"weight_fair_share": 1000}, {"nice": 100}, 900),
        ({"weight_fair_share": 1000}, {"nice": 5000}, 1),
        ({"weight_fair_share": 1000}, {"priority": 77}, 77),
        ({"weight_fair_share": 1, "site_factors": {"a": 40}}, {"account": "a"}, 41),
    ],
)
def test_each_factor_of_the_priority(
    settings: dict[str, Any], fields: dict[str, Any], expected: int
) -> None:
    """Each factor is normalised and weighted as in priority_multifactor.html."""
    assert priority(settings, **fields) == expected


def test_jobs_of_a_higher_tier_come_first() -> None:
    """PriorityTier of the partition precedes the priority."""
    view, priorities = View(PLATFORM), Priorities(parse_site({}), PLATFORM)
    request = JobRequest(priority=1000)
    submitted = [
        JobSubmitted(0.0, 1, 1, 60.0, request=request),
        JobSubmitted(0.0, 2, 1, 60.0, partitions=("urgent",)),
        JobSubmitted(0.0, 3, 1, 60.0),
    ]
    view.apply(0.0, submitted)
    priorities.update(view)
    assert [each.job_id for each in priorities.ordered(view)] == [2, 1, 3]


def test_priorities_that_only_rise_do_not_fall_with_the_fair_share() -> None:
    """PriorityFlags=INCR_ONLY keeps the greater priority."""
    jobs = table(
        job(1, 0.0, 1000.0, 8, spec={"user": "ann"}),
        job(2, 1.0, 100.0, 8, spec={"user": "ann"}),
        job(3, 500.0, 100.0, 8, spec={"user": "cat"}),
    )
    for flags, start_s in ((["incr_only"], 1000.0), ([], 1100.0)):
        site = parse_site({"priority": {"flags": flags}})
        assert starts(simulate(cluster_of(1, 8), jobs, fairshare(site)))[2] == start_s


def test_held_jobs_are_explained_with_the_limit() -> None:
    """A job that a limit holds has Slurm's reason; it does not delay later jobs."""
    accounts = {"a": {"users": {"ann": {"max_jobs": 1}, "cat": {}}}}
    site = parse_site({"accounts": accounts, "enforce": ["limits"]})
    jobs = table(
        *(job(number, 0.0, 100.0, 2, spec={"user": "ann"}) for number in (1, 2)),
        job(3, 1.0, 100.0, 2, spec={"user": "cat"}),
    )
    simulation = simulate(cluster_of(1, 8), jobs, fairshare(site), explain=True)
    assert starts(simulation) == {1: 0.0, 2: 100.0, 3: 1.0}
    explanations = simulation.recording.explanations
    assert "AssocMaxJobsLimit" in repr(explanations.__dict__)


def test_refused_jobs_leave_the_queue() -> None:
    """A job of an unknown account is rejected where associations are enforced."""
    site = parse_site({"accounts": ACCOUNTS, "enforce": ["associations"]})
    jobs = table(job(1, spec={"user": "eve"}), job(2, spec={"user": "ann"}))
    simulation = simulate(cluster_of(1, 8), jobs, fairshare(site))
    assert np.isnan(starts(simulation)[1])
    assert starts(simulation)[2] == 0.0


def test_a_policy_by_name_takes_the_settings_of_a_site() -> None:
    """make_policy reads the mapping `scheduler.settings`; a wrong one is a PolicyError."""
    make_policy("multifactor", settings={"priority": {"weight_age": 1}})
    with pytest.raises(PolicyError, match=r"scheduler fairshare: accounts\.a\.shares: expected"):
        make_policy("fairshare", settings={"accounts": {"a": {"shares": -1}}})
    with pytest.raises(PolicyError, match="power_awareness: aware is not supported by fairshare"):
        make_policy("fairshare", "aware")
