"""Limits of associations, QOS and partitions, with Slurm's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpcosim_client import View
from hpcosim_protocol import (
    JobCompleted,
    JobRequest,
    JobSubmitted,
    NodeGroup,
    Partition,
    Platform,
    Processor,
)
from hpcosim_schedulers.slurm.limits import Limits, counted_tres
from hpcosim_schedulers.slurm.multifactor import Priorities
from hpcosim_schedulers.slurm.policies import fairshare
from hpcosim_schedulers.slurm.settings import parse_site
from support.simulating import simulate
from support.site_scenes import job, table

PLATFORM = Platform(
    (NodeGroup(10, (Processor(12),), gres={"gpu": 2}),),
    partitions=(
        Partition(name="normal", nodes=((0, 9),), default=True, max_time_s=86_400.0),
        Partition(name="short", nodes=((0, 9),), max_time_s=600.0, deny_accounts=("account2",)),
        Partition(name="closed", nodes=((0, 9),), state="down"),
    ),
)

# The accounts, QOS and limits of the scene `limits` that was recorded with Slurm 22.05.
SCENE: dict[str, Any] = {
    "accounts": {
        "account1": {"users": {"user1": {}, "user2": {}, "user3": {"max_jobs": 3}}},
        "account2": {"grp_tres": {"cpu": 48}, "users": {"user4": {}, "user5": {}}},
    },
    "qos": {
        "normal": {},
        "two": {"max_jobs_per_user": 2, "max_submit_jobs_per_user": 6},
        "cpu36": {"grp_tres": {"cpu": 36}},
        "gpu1": {"max_tres_per_user": {"gres/gpu": 1}},
        "wall1": {"max_wall_s": 120, "flags": ["deny_on_limit"]},
    },
    "enforce": ["associations", "limits", "qos"],
}


class Site:
    """A view with limits, to which jobs are submitted."""

    def __init__(self, settings: dict[str, Any]) -> None:
        site = parse_site(settings)
        self.view = View(PLATFORM)
        self.priorities = Priorities(site, PLATFORM, counted_tres(site))
        self.limits = Limits(site, PLATFORM, self.priorities.charges)
        self._next = 1

    def submit(self, user: str, account: str, cores: int = 1, **fields: Any) -> Any:
        """Submit a job, count it unless it is refused, and return it and the refusal."""
        requested_s, partitions = fields.pop("requested_s", 60.0), fields.pop("partitions", ())
        qos, request = fields.pop("qos", "normal"), JobRequest(**fields) if fields else None
        event = JobSubmitted(
            self.view.now_s,
            self._next,
            cores,
            requested_s,
            user=user,
            account=account,
            qos=qos,
            partitions=partitions,
            request=request,
        )
        self._next += 1
        self.view.apply(self.view.now_s, [event])
        self._update()
        submitted = self.view.queue[event.job_id]
        refusal = self.limits.refusal(submitted, self.view)
        if refusal:
            del self.view.queue[event.job_id]
        else:
            self.limits.submit(submitted)
        return submitted, refusal

    def start(self, waiting: Any) -> str:
        """Start a job unless a limit holds it, and return the reason."""
        reason = self.limits.held(waiting, self.view.now_s)
        if not reason:
            assert self.view.start(waiting)
            self.limits.start(waiting)
        return reason

    def end(self, running: Any, at_s: float) -> None:
        """End a job."""
        self.view.apply(at_s, [JobCompleted(at_s, running.job_id, "completed")])
        self._update()

    def _update(self) -> None:
        self.priorities.update(self.view)
        self.limits.update(self.view)


def test_the_recorded_scene_of_limits_has_the_same_reasons() -> None:
    """Jobs that Slurm 22.05 held in the scene `limits` are held for the same reasons."""
    site = Site(SCENE)
    two = [site.submit("user1", "account1", 12, qos="two") for _ in range(7)]
    assert [refusal for _, refusal in two] == [*[""] * 6, "QOSMaxSubmitJobPerUserLimit"]
    reasons = [site.start(each) for each, _ in two[:3]]
    assert reasons == ["", "", "QOSMaxJobsPerUserLimit"]
    group = [site.submit("user2", "account1", 12, qos="cpu36")[0] for _ in range(4)]
    assert [site.start(each) for each in group] == ["", "", "", "QOSGrpCpuLimit"]
    request = {"qos": "gpu1", "gres_per_node": {"gpu": 1}}
    gpus = [site.submit("user2", "account1", 1, **request)[0] for _ in range(2)]
    assert [site.start(each) for each in gpus] == ["", "QOSMaxGRESPerUser"]
    many = [site.submit("user3", "account1")[0] for _ in range(4)]
    assert [site.start(each) for each in many] == ["", "", "", "AssocMaxJobsLimit"]
    account = [site.submit("user4", "account2", cores)[0] for cores in (36, 24)]
    assert [site.start(each) for each in account] == ["", "AssocGrpCpuLimit"]
    assert site.start(site.submit("user5", "account2", 12)[0]) == ""
    assert site.submit("user1", "account1", qos="wall1", requested_s=120)[1] == ""
    refusal = site.submit("user1", "account1", qos="wall1", requested_s=180)[1]
    assert refusal == "QOSMaxWallDurationPerJobLimit"


def test_an_ended_job_makes_room_for_another() -> None:
    """A job counts until it ends."""
    site = Site(SCENE)
    jobs = [site.submit("user1", "account1", qos="two")[0] for _ in range(3)]
    assert [bool(site.start(each)) for each in jobs] == [False, False, True]
    site.end(jobs[0], 5.0)
    assert site.start(jobs[2]) == ""


def test_a_limit_of_the_qos_replaces_that_of_the_association() -> None:
    """The QOS comes first in Slurm's hierarchy of limits, also if it permits more."""
    accounts = {"a": {"users": {"u": {"max_jobs": 1, "grp_tres": {"cpu": 1}}}}}
    qos = {"normal": {}, "more": {"max_jobs_per_user": 3, "grp_tres": {"cpu": 20}}}
    site = Site({"accounts": accounts, "qos": qos, "enforce": ["limits"]})
    jobs = [site.submit("u", "a", 6, qos="more")[0] for _ in range(4)]
    assert [site.start(each) for each in jobs] == ["", "", "", "QOSMaxJobsPerUserLimit"]


def test_limits_of_every_account_above_hold() -> None:
    """GrpTRES of an account limits the jobs of accounts below it together."""
    accounts = {
        "top": {"grp_tres": {"cpu": 20}},
        "left": {"parent": "top", "users": {"u": {}}},
        "right": {"parent": "top", "users": {"v": {}}},
    }
    site = Site({"accounts": accounts, "enforce": ["limits"]})
    assert site.start(site.submit("u", "left", 12)[0]) == ""
    assert site.start(site.submit("v", "right", 12)[0]) == "AssocGrpCpuLimit"


def test_used_minutes_hold_jobs_until_they_decay() -> None:
    """GrpTRESMins holds jobs once past usage has reached it; with `safe`, before."""
    accounts = {"a": {"grp_tres_mins": {"cpu": 10}, "users": {"u": {}}}}
    settings = {"accounts": accounts, "priority": {"decay_half_life_s": 3600}}
    site = Site({**settings, "enforce": ["limits"]})
    first = site.submit("u", "a", 12, requested_s=90)[0]
    assert site.start(first) == ""
    site.end(first, 60.0)
    waiting = site.submit("u", "a", 1)[0]
    assert site.start(waiting) == "AssocGrpCPUMinutesLimit"
    site.view.apply(3600.0, [])
    site.priorities.update(site.view)
    assert site.start(waiting) == ""
    safe = Site({**settings, "enforce": ["safe"]})
    assert safe.start(safe.submit("u", "a", 12, requested_s=90)[0]) == "AssocGrpCPUMinutesLimit"


@pytest.mark.parametrize(
    ("rules", "fields", "reason"),
    [
        ({"max_tres_per_job": {"cpu": 4}}, {"cores": 5}, "AssocMaxCpuPerJobLimit"),
        ({"max_tres_per_job": {"node": 1}}, {"nodes_min": 2}, "AssocMaxNodePerJobLimit"),
        ({"max_wall_s": 30}, {}, "AssocMaxWallDurationPerJobLimit"),
        ({"grp_tres_run_mins": {"cpu": 1}}, {"cores": 2}, "AssocGrpCPURunMinutesLimit"),
        ({"grp_jobs": 0}, {}, "AssocGrpJobsLimit"),
        ({"grp_tres": {"gres/gpu": 1}}, {"gres_per_task": {"gpu": 2}}, "AssocGrpGRES"),
        ({}, {"partitions": ("short",), "requested_s": 601.0}, "PartitionTimeLimit"),
        ({}, {"partitions": ("closed",)}, "PartitionDown"),
        ({}, {}, ""),
    ],
)
def test_each_limit_has_the_reason_of_slurm(
    rules: dict[str, Any], fields: dict[str, Any], reason: str
) -> None:
    """A job beyond a limit waits with Slurm's reason."""
    accounts = {"a": {"users": {"u": rules}}}
    site = Site({"accounts": accounts, "enforce": ["limits"]})
    submitted, refusal = site.submit("u", "a", **fields)
    assert (refusal, site.start(submitted)) == ("", reason)


@pytest.mark.parametrize(
    ("user", "account", "fields", "refusal"),
    [
        ("nobody", "account1", {}, "InvalidAccount"),
        ("user4", "account1", {}, "InvalidAccount"),
        ("user4", "account2", {"partitions": ("short",)}, "AccountNotAllowed"),
        ("user1", "account1", {}, ""),
    ],
)
def test_jobs_without_permission_are_refused(
    user: str, account: str, fields: dict[str, Any], refusal: str
) -> None:
    """Unknown associations and accounts that a partition denies are refused at submission."""
    assert Site(SCENE).submit(user, account, **fields)[1] == refusal


@pytest.mark.parametrize("seed", range(3))
def test_a_schedule_never_exceeds_the_limits(seed: int) -> None:
    """At every start, the running jobs of each user and account are within the limits."""
    rng = np.random.default_rng(seed)
    jobs = [
        job(
            number,
            float(rng.uniform(0, 500)),
            float(rng.exponential(60)) + 1,
            int(rng.integers(1, 13)),
            spec={"user": f"u{rng.integers(4)}", "account": "a"},
        )
        for number in range(1, 80)
    ]
    jobs.sort(key=lambda each: each.submit_s)
    users = {f"u{number}": {"max_jobs": 2} for number in range(4)}
    accounts = {"a": {"grp_tres": {"cpu": 30}, "users": users}}
    site = parse_site({"accounts": accounts, "enforce": ["limits"]})
    recording = simulate(PLATFORM, table(*jobs), fairshare(site)).recording
    runs = [
        (recording.start_s[row], recording.end_s[row], jobs[row].user, jobs[row].cores)
        for row in range(len(jobs))
    ]
    for at_s, _, user, _ in runs:
        running = [each for each in runs if each[0] <= at_s < each[1]]
        assert sum(each[2] == user for each in running) <= 2
        assert sum(each[3] for each in running) <= 30
