"""Questions beyond the waiting jobs: advice, the map of waits, and changes of the cluster."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hpcosim_slurm.state import LiveJob
from hpcosim_twin.answers.changes import Change, changed, effect_of
from hpcosim_twin.answers.questions import (
    AdviceQuestion,
    AnyQuestion,
    ChangeQuestion,
    Effort,
    MapQuestion,
    Picture,
    QueueQuestion,
    WaysQuestion,
    answer,
)
from hpcosim_twin.answers.table import advice_lines, effect_lines, map_lines
from hpcosim_twin.cluster.observation import EndedJob, ForecastError, Observation
from hpcosim_twin.cluster.queue_state import adopted
from support.fake_cluster import EPOCH_S
from twin.test_forecast_asked import observed

EFFORT = Effort(futures=20, seed=3)


def with_jobs(seen: Observation, *jobs: LiveJob) -> Observation:
    """Return an observation with further jobs."""
    every = {**seen.state.jobs, **{job.id: job for job in jobs}}
    return replace(seen, state=dataclasses.replace(seen.state, jobs=every))


def job(number: int, **more: Any) -> LiveJob:
    """Return a job of one CPU that waits."""
    asked: dict[str, Any] = {
        "name": "x",
        "user": "ann",
        "partition": "main",
        "state": "pending",
        "slurm_state": "PENDING",
        "submitted_s": EPOCH_S,
        "cpus": 1,
        "nodes_min": 1,
        "nodes_max": 0,
        "eligible_s": EPOCH_S,
        "time_limit_s": 600.0,
        "memory_mb": 100,
    }
    return LiveJob(id=number, **{**asked, **more})


def past(count: int = 60) -> list[LiveJob]:
    """Return jobs of two accounts that are over, one every ten minutes."""
    over = {"state": "over", "slurm_state": "COMPLETED"}
    return [
        job(
            100 + at,
            **over,
            account=("a", "b")[at % 2],
            cpus=4,
            submitted_s=EPOCH_S - 600.0 * (count - at),
            started_s=EPOCH_S - 600.0 * (count - at),
            ended_s=EPOCH_S - 600.0 * (count - at) + 300.0,
        )
        for at in range(count)
    ]


def asked(seen: Observation, question: AnyQuestion, effort: Effort = EFFORT) -> dict[str, Any]:
    """Return an answer."""
    return answer(question, Picture(seen, adopted(seen)), effort)


def test_a_reason_is_told_in_words() -> None:
    """Each waiting job has Slurm's reason and what it means."""
    seen = with_jobs(observed(8), job(50, reason="Resources"), job(51, reason="QOSMaxCpuPerUser"))
    rows = asked(seen, QueueQuestion())["jobs"]
    assert [each["reason"] for each in rows] == ["Resources", "QOSMaxCpuPerUser"]
    assert "in use" in rows[0]["meaning"]
    assert "limit" in rows[1]["meaning"]


def test_a_chance_until_a_date_is_told() -> None:
    """It grows from 0 to 1, and is there only if a date is asked for."""
    seen = observed(8)
    chances = [
        asked(seen, WaysQuestion(("-n 8 -t 10",), by_s=EPOCH_S + after_s))["jobs"][0]
        for after_s in (1.0, 3600.0)
    ]
    assert [each["chance_to_start_by"] for each in chances] == [0.0, 1.0]
    assert "chance_to_start_by" not in asked(seen, WaysQuestion(("-n 8 -t 10",)))["jobs"][0]


def test_a_free_partition_is_advised() -> None:
    """A job that waits for a busy partition starts at once in another one with a free node."""
    seen = observed(8)
    seen = changed(seen, Change(add={"node0": 1}))
    main = dataclasses.replace(seen.state.partitions["main"], nodes=("node0", "node1"))
    other = dataclasses.replace(main, name="other", nodes=("node0-added-1",), is_default=False)
    live = dataclasses.replace(seen.state, partitions={"main": main, "other": other})
    partitions = (
        replace(seen.platform.partitions[0], nodes=((0, 1),)),
        replace(seen.platform.partitions[1], name="other", nodes=((2, 2),)),
    )
    seen = replace(seen, state=live, platform=replace(seen.platform, partitions=partitions))
    found = asked(with_jobs(seen, job(50, cpus=4)), AdviceQuestion(job_id=50))
    first = found["ways"][0]
    assert first["what"] == "partition other"
    assert first["chance_to_start_sooner"] == 1.0
    assert first["median_gain_s"] > 60.0
    assert any("partition other" in line for line in advice_lines(found))


def test_a_limit_that_users_need_is_advised() -> None:
    """It is one within which 95 % of the user's jobs ended, and is named with this share."""
    seen = replace(observed(8), history=tuple(EndedJob("ann", 3600.0, 200.0) for _ in range(200)))
    found = asked(seen, AdviceQuestion(way="-n 8 -t 60", user="ann"))
    (limit,) = [each["what"] for each in found["ways"] if "time limit" in each["what"]]
    assert limit.startswith("time limit 00:05:00: 100 % of such jobs")


@pytest.mark.parametrize(
    ("question", "what"),
    [
        (AdviceQuestion(), "expected either job_id or way"),
        (AdviceQuestion(job_id=1, way="-n 1"), "expected either job_id or way"),
        (AdviceQuestion(job_id=99), "job 99 does not wait"),
        (AdviceQuestion(job_id=50), "job 50 is held (JobHeldUser); no other request helps"),
        (MapQuestion(partition="none"), "no partition 'none'; the cluster has main, one"),
        (ChangeQuestion(Change()), "no change is given"),
        (ChangeQuestion(Change(drain="n9")), "drain: unknown node 'n9'"),
        (ChangeQuestion(Change(add={"n9": 1})), "add: unknown node 'n9'"),
        (ChangeQuestion(Change(settings={"x": 1})), "settings: "),
        (ChangeQuestion(Change(settings={"scheduler.bf_interval_s": -1})), "settings: scheduler"),
        (ChangeQuestion(Change(settings={"priority": 1})), "settings: priority: expected a map"),
        (ChangeQuestion(Change(settings={"accounts": {"a": 1}})), "settings: accounts.a: expected"),
        (ChangeQuestion(Change(scheduler="/etc/passwd")), "scheduler: expected one without a file"),
        (ChangeQuestion(Change(scheduler="rl:x")), "scheduler: expected one without a file"),
        (ChangeQuestion(Change(power={"name": "x"})), "power.name: there is no power manager 'x'"),
        (ChangeQuestion(Change(power={"name": "timeout"})), "power.timeout_s: is missing"),
        (ChangeQuestion(Change(power={"name": "icon"})), "the power manager icon contains"),
        (ChangeQuestion(Change(power={"name": "oracle"})), "power: expected a manager"),
        (ChangeQuestion(Change(power={"name": "timeout", "timeout_s": 1})), "no node has power"),
        (ChangeQuestion(Change(power={"name": "rl", "model": "/x"})), "without a file"),
    ],
)
def test_a_question_that_does_not_fit_is_an_error_of_one_line(
    question: AnyQuestion, what: str
) -> None:
    """It says what is wrong; no file that a question names is opened."""
    seen = with_jobs(observed(), job(50, is_held=True, reason="JobHeldUser", eligible_s=None))
    with pytest.raises(ForecastError) as found:
        asked(seen, question)
    assert what in str(found.value)
    assert "\n" not in str(found.value)


def test_a_map_has_a_wait_for_each_shape() -> None:
    """Jobs of both nodes wait at least as long as jobs of one; shapes follow the partition."""
    found = asked(with_jobs(observed(4), *past()), MapQuestion())
    assert [(each["nodes"], each["hours"]) for each in found["cells"]] == [(1, 1.0), (2, 1.0)]
    one, two = (each["median_wait_s"] for each in found["cells"])
    assert one <= two
    assert list(map_lines(found))[1].split() == ["NODES", "1", "H"]
    never = asked(observed(), MapQuestion(nodes=(3,), hours=(1.0,)))
    assert never["cells"][0]["median_wait_s"] is None


def test_further_nodes_shorten_waits_and_use_energy() -> None:
    """Both are shown, for all jobs and by account; the futures are the same both ways."""
    seen = with_jobs(observed(8), *past())
    question = ChangeQuestion(Change(add={"node1": 2}), days=0.2, price_per_kwh=0.5)
    found = asked(seen, question)
    waits = found["waits"][0]["mean_wait_s"]
    assert found["waits"][0]["account"] == "all"
    assert waits["is_shown"]
    assert waits["interval"][1] < 0.0
    energy = found["energy_kwh"]
    assert energy["is_shown"]
    assert found["cost"]["difference"] == pytest.approx(0.5 * energy["difference"])
    assert found["waits"][0]["unstarted_changed"] == 0.0
    assert any(line.startswith("mean wait, all") for line in effect_lines(found))


def test_a_change_without_effect_is_no_difference() -> None:
    """Noise of the futures is not called a difference: they are paired."""
    seen = with_jobs(observed(8), *past())
    change = Change(settings={"scheduler.max_switch_wait_s": 10})
    effect = effect_of(change, seen, adopted(seen), 7200.0, 10, 0)
    assert effect.waits[0].wait_s.difference == effect.energy_j.difference == 0.0
    assert not effect.waits[0].wait_s.is_shown
    assert not effect.energy_j.is_shown


def test_energy_of_an_idle_time_is_that_of_its_nodes() -> None:
    """Without jobs it is the idle power of the nodes times the time, though nothing happens."""
    seen = observed()
    effect = effect_of(Change(add={"node0": 2}), seen, adopted(seen), 1000.0, 2, 0)
    idle_w = sum(group.count * group.idle_w for group in seen.platform.nodes)
    assert effect.energy_j.now == pytest.approx(1000.0 * idle_w)
    assert effect.energy_j.changed == pytest.approx(2 * effect.energy_j.now)


def test_switching_nodes_off_saves_energy() -> None:
    """With power states, a power manager is a change; idle nodes go off."""
    seen = observed()
    states = {"sleep_w": 1.0, "switch_on_s": 60.0, "switch_off_s": 10.0}
    states |= {"switch_on_w": 10.0, "switch_off_w": 10.0}
    plain = msgspec.to_builtins(seen.platform)
    plain["nodes"][0]["power_states"] = states
    seen = replace(seen, platform=msgspec.convert(plain, type(seen.platform)))
    change = Change(power={"name": "timeout", "timeout_s": 100})
    effect = effect_of(change, seen, adopted(seen), 10_000.0, 2, 0)
    assert effect.energy_j.difference < -0.5 * effect.energy_j.now


def test_jobs_that_never_start_are_told() -> None:
    """A job of all nodes never starts once one of them is drained, and counts in no mean."""
    seen = with_jobs(observed(), job(50, cpus=8, nodes_min=2), job(51))
    found = asked(seen, ChangeQuestion(Change(drain="node1"), days=0.001))
    never = found["waits"][0]["unstarted_changed"]
    assert never >= 1.0
    assert found["waits"][0]["unstarted_now"] == 0.0
    assert f"all: {never:.1f} jobs never start then, 0.0 now" in list(effect_lines(found))


def test_the_same_question_has_the_same_answer() -> None:
    """Bytes are equal for equal seeds, and differ for others."""
    seen = with_jobs(observed(8), *past())
    question = ChangeQuestion(Change(drain="node1"), days=0.05)
    first, second = (msgspec.json.encode(asked(seen, question)) for _ in range(2))
    assert first == second
    assert first != msgspec.json.encode(asked(seen, question, EFFORT._replace(seed=4)))
