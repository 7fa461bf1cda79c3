"""Which waiting jobs hold back others under `slurm`, and how long jobs wait for switches."""

from __future__ import annotations

from typing import Any

import pytest

from hpcosim_protocol import JobRequest, NodeGroup, Partition, Platform, Processor, Switch
from hpcosim_schedulers.slurm.policy import slurm
from hpcosim_schedulers.slurm.settings import parse_site
from hpcosim_workloads.table import JobSpec
from support.golden_slurm import job_table_of
from support.simulating import cluster_of, simulate, starts

RUNS_S = 600.0


def job(number: int, submit_s: float, cores: int, run_s: float = RUNS_S, **fields: Any) -> JobSpec:
    """Return a job that ends by itself just before its limit."""
    return JobSpec(
        number, submit_s, run_s, run_s, cores, fields.pop("placement", "cores"), **fields
    )


def started(
    settings: dict[str, Any], *jobs: JobSpec, platform: Platform | None = None
) -> dict[int, float]:
    """Return the start of each job by its number."""
    policy = slurm(parse_site(settings))
    return starts(simulate(platform or cluster_of(4), job_table_of(list(jobs)), policy))


def start_of_third(settings: dict[str, Any]) -> float:
    """Return the start of a small job behind one that waits for the whole cluster."""
    third = job(3, 20, 1, 2 * RUNS_S, qos="normal", user="ann")
    jobs = (job(1, 0, 2), job(2, 10, 4, qos="low", user="ann"), third)
    return started(settings, *jobs)[3]


WEIGHTED: dict[str, Any] = {
    "priority": {"weight_qos": 1000, "weight_job_size": 1000},
    "qos": {"low": {"priority": 1}, "normal": {"priority": 0}},
}
"""The job that waits for the whole cluster has a priority of 1625, the small one of 250."""


def test_waiting_job_holds_back_a_later_one_that_would_delay_it() -> None:
    """By default, each job that lacks resources gets a planned start."""
    assert start_of_third({}) > RUNS_S
    assert start_of_third(WEIGHTED) > RUNS_S


@pytest.mark.parametrize(
    ("parameters", "early"),
    [
        ({"bf_min_age_reserve_s": 500}, True),
        ({"bf_min_prio_reserve": 1626}, True),
        ({"bf_min_prio_reserve": 1625}, False),
        ({"bf_min_prio_reserve": 1626, "backfill": False}, True),
        ({"bf_min_age_reserve_s": 500, "backfill": False}, True),
    ],
)
def test_young_or_unimportant_job_holds_back_no_other(
    parameters: dict[str, Any], early: bool
) -> None:
    """A job below `bf_min_age_reserve` or `bf_min_prio_reserve` gets no planned start."""
    start_s = start_of_third({**WEIGHTED, "scheduler": parameters})
    assert (start_s < 60) == early


def test_old_job_holds_back_others_once_it_has_waited_long_enough() -> None:
    """A job that was submitted after `bf_min_age_reserve` passed is held back."""
    late = job(3, 200, 1, 2 * RUNS_S)
    found = started({"scheduler": {"bf_min_age_reserve_s": 100}}, job(1, 0, 2), job(2, 1, 4), late)
    assert found[3] > found[2]


@pytest.mark.parametrize(
    ("qos", "early"),
    [({"min_prio_threshold": 1626}, True), ({"min_prio_threshold": 1625}, False)],
)
def test_threshold_of_a_qos_replaces_that_of_the_cluster(qos: dict[str, Any], early: bool) -> None:
    """A job below the `min_prio_threshold` of its QOS gets no planned start."""
    own = {"low": {"priority": 1, **qos}, "normal": {}}
    settings = {**WEIGHTED, "qos": own, "scheduler": {"bf_min_prio_reserve": 1}}
    assert (start_of_third(settings) < 60) == early


def test_qos_without_reservations_concerns_the_backfill_scheduler_alone() -> None:
    """A job of a QOS with `no_reserve` blocks its partition in the main scheduler only."""
    qos = {"low": {"flags": ["no_reserve"]}, "normal": {}}
    assert start_of_third({"qos": qos}) < 60
    assert start_of_third({"qos": qos, "scheduler": {"backfill": False}}) > RUNS_S


def test_job_in_two_partitions_reserves_in_each_unless_told_otherwise() -> None:
    """With `bf_one_resv_per_job`, only its first partition is kept for a waiting job."""
    platform = Platform(
        (NodeGroup(4, (Processor(1),)),),
        partitions=(
            Partition(name="first", nodes=((0, 1),), default=True),
            Partition(name="second", nodes=((2, 3),)),
        ),
    )
    jobs = (
        job(1, 0, 1, partition="first"),
        job(2, 1, 1, partition="second"),
        job(3, 2, 2, partition="first,second"),
        job(4, 3, 1, 2 * RUNS_S, partition="second"),
    )
    assert started({}, *jobs, platform=platform)[4] > RUNS_S
    one = {"scheduler": {"bf_one_resv_per_job": True}}
    assert started(one, *jobs, platform=platform)[4] < 60


@pytest.mark.parametrize("backfill", [True, False])
@pytest.mark.parametrize("stop", [True, False])
def test_job_held_by_a_limit_stops_its_partition_only_if_told_so(
    stop: bool, backfill: bool
) -> None:
    """With `assoc_limit_stop`, later jobs wait behind a job that a limit of its user holds."""
    settings = {
        "accounts": {"lab": {"users": {"ann": {"max_jobs": 1}, "bob": {}}}},
        "enforce": ["limits"],
        "scheduler": {"assoc_limit_stop": stop, "backfill": backfill},
    }
    of_ann: dict[str, Any] = {"user": "ann", "account": "lab"}
    jobs = (job(1, 0, 1, **of_ann), job(2, 1, 1, **of_ann), job(3, 2, 1, user="bob", account="lab"))
    assert (started(settings, *jobs)[3] > RUNS_S) == stop


LEAVES = Platform(
    (NodeGroup(4, (Processor(1),)),),
    switches=(
        Switch(name="a", nodes=((0, 1),)),
        Switch(name="b", nodes=((2, 3),)),
        Switch(name="top", switches=("a", "b")),
    ),
)


def start_across_leaves(wait_s: float, switches: int = 1, **scheduler: Any) -> float:
    """Return the start of a job of two nodes while each leaf switch has one free node."""
    request = JobRequest(switches=switches, switches_wait_s=wait_s, nodes_min=2)
    runs = [job(n, 0, 1, request=JobRequest(required_nodes=(n - 1,))) for n in (1, 3)]
    wide = job(5, 10, 2, request=request)
    return started({"scheduler": scheduler}, *runs, wide, platform=LEAVES)[5]


def test_job_waits_for_its_switches_for_the_stated_time() -> None:
    """A job that prefers one leaf switch runs on two as soon as its time to wait is over."""
    assert start_across_leaves(0, switches=2) < 20
    assert 110 <= start_across_leaves(100) <= 110 + 61


def test_job_waits_for_its_switches_no_longer_than_the_site_permits() -> None:
    """`max_switch_wait` bounds the time to wait, and is that of jobs that state none."""
    assert 60 <= start_across_leaves(500, max_switch_wait_s=50) <= 60 + 61
    assert 60 <= start_across_leaves(0, max_switch_wait_s=50) <= 60 + 61
    assert 310 <= start_across_leaves(0) <= 310 + 61


def test_job_that_waits_for_its_switches_runs_on_them_when_they_are_free() -> None:
    """A job gets one leaf switch before its time to wait is over if that has enough nodes."""
    request = JobRequest(switches=1, nodes_min=2)
    runs = [
        job(n, 0, 1, s, request=JobRequest(required_nodes=(n - 1,)))
        for n, s in ((1, 100), (3, 600))
    ]
    policy = slurm(parse_site({}))
    recording = simulate(
        LEAVES, job_table_of([*runs, job(5, 10, 2, request=request)]), policy
    ).recording
    row = list(recording.job_id).index(5)
    assert 100 <= recording.start_s[row] <= 170
    assert sorted(recording.nodes_of(row)) == [0, 1]
