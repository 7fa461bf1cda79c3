"""A live cluster as the state of a forecast."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from hpcosim_protocol import Platform
from hpcosim_schedulers.slurm.policy import SlurmPolicy
from hpcosim_slurm.state import LiveReservation
from hpcosim_slurm.texts import task_id
from hpcosim_twin.cluster.observation import (
    UNLIMITED_S,
    EndedJob,
    ForecastError,
    Observation,
    read_observation,
    write_observation,
)
from hpcosim_twin.cluster.observer import remembered_history, starts_of_text, usage_of
from hpcosim_twin.cluster.queue_state import AdoptedState, adopted
from hpcosim_twin.futures.reference import simulated_starts as starts_of
from support.fake_cluster import EPOCH_S, FakeCluster

GROUP = {"names": "node[0-3]", "count": 4, "processors": [{"cores": 1, "static_w": 5}]}


def site(**platform: Any) -> dict[str, Any]:
    """Return the platform and the settings of the fake cluster, as an observation has them."""
    return {
        "platform": msgspec.convert({"nodes": [GROUP], **platform}, Platform),
        "settings": {"scheduler": {"sched_interval_s": 1}},
    }


def adopted_from(cluster: FakeCluster, **more: Any) -> tuple[AdoptedState, list[str]]:
    """Return the state of a cluster, and the warnings."""
    warnings: list[str] = []
    observation = Observation(**{"state": cluster.state()} | site() | more)
    return adopted(observation, warnings.append), warnings


def starts(found: AdoptedState, run_s: float = 50.0) -> dict[int, float]:
    """Return the starts of the waiting jobs after now if all jobs run equally long, s."""
    run_times = {job.spec.job_id: run_s for job in found.state.jobs}
    now_s = found.state.now_s
    forecasts = starts_of(found.state, run_times, np.random.default_rng(1))
    return {number: at_s - now_s for number, at_s in forecasts.items()}


def busy_cluster() -> FakeCluster:
    """Return a cluster whose four nodes have run a job each for 20 s."""
    cluster = FakeCluster()
    for _ in range(4):
        cluster.submit(run_s=1000.0, limit_s=600.0)
    cluster.now_s += 20.0
    return cluster


def test_jobs_that_run_keep_their_nodes_and_times() -> None:
    """Running jobs are on their nodes since their starts, and the next one starts at their end."""
    cluster = busy_cluster()
    waiting = cluster.submit()
    found, warnings = adopted_from(cluster)
    assert warnings == []
    assert found.origin_s == EPOCH_S
    assert found.state.now_s == 20.0
    running = [job for job in found.state.jobs if job.started_s is not None]
    assert [(job.started_s, job.nodes, job.cores) for job in running] == [
        (0.0, (node,), (1,)) for node in range(4)
    ]
    assert starts(found)[waiting] == pytest.approx(30.0, abs=4.0)


def test_held_dependent_and_later_jobs_wait() -> None:
    """A held job has no start; a begin time and a dependency delay others."""
    cluster = FakeCluster(starts=False)
    held = cluster.submit(is_held=True)
    first = cluster.submit()
    after = cluster.submit(dependency=f"afterany:{first}(unfulfilled)")
    later = cluster.submit()
    cluster.jobs[later] = replace(cluster.jobs[later], eligible_s=EPOCH_S + 500.0)
    found = starts(adopted_from(cluster)[0])
    assert held not in found
    assert found[first] < 4.0
    assert 50.0 <= found[after] < 60.0
    assert 500.0 <= found[later] < 561.0


def test_nodes_that_are_down_or_drained_get_no_jobs() -> None:
    """With three nodes away, jobs start one after another."""
    cluster = FakeCluster(starts=False)
    for _ in range(2):
        cluster.submit()
    cluster.drain("node1")
    cluster.down["node2"] = cluster.down["node3"] = "DOWN*"
    found, _ = adopted_from(cluster)
    assert found.state.unavailable == (1, 2, 3)
    first, second = starts(found).values()
    assert second - first >= 50.0


def maintenance(*nodes: str, user: str = "ann", begins_s: float = 40.0) -> LiveReservation:
    """Return a reservation of 100 s."""
    begin_s = EPOCH_S + begins_s
    return LiveReservation("m", nodes, begin_s, begin_s + 100.0, begins_s <= 0.0, (user,))


def test_jobs_wait_for_the_end_of_a_reservation() -> None:
    """A job of 60 s does not start before one that begins in 40 s, except as its user."""
    cluster = FakeCluster(starts=False)
    outside, inside = cluster.submit(), cluster.submit(reservation="m")
    later = cluster.submit(limit_s=30.0)
    state = replace(cluster.state(), reservations={"m": maintenance(*cluster.names)})
    found, warnings = adopted_from(cluster, state=state)
    assert warnings == []
    times_s = starts(found, run_s=20.0)
    assert 140.0 <= times_s[outside] < 200.0
    assert 40.0 <= times_s[inside] < 100.0
    assert times_s[later] < 10.0


def test_jobs_that_run_in_a_reservation_go_on() -> None:
    """Whether or not they belong to it."""
    cluster = busy_cluster()
    cluster.jobs[1] = replace(cluster.jobs[1], reservation="m")
    state = replace(cluster.state(), reservations={"m": maintenance("node0", "node1")})
    found, warnings = adopted_from(cluster, state=state)
    assert (len(found.state.jobs), warnings) == (4, [])
    assert starts(found) == {}


def test_jobs_of_a_reservation_for_others_have_no_forecast_but_a_warning() -> None:
    """Slurm has let them in; the warning has the number of jobs and one of them."""
    cluster = FakeCluster(starts=False)
    for _ in range(2):
        cluster.submit(reservation="m")
    reservations = {"m": maintenance("node0", user="-bob")}
    found, warnings = adopted_from(
        cluster, state=replace(cluster.state(), reservations=reservations)
    )
    assert starts(found) == {}
    what = "have no forecast, as they wait for what the model does not know"
    assert warnings == [f"2 jobs {what}, such as 1"]


def test_no_more_tasks_of_an_array_run_than_it_allows() -> None:
    """One of four tasks runs, and two may: one starts now, the next one at the first end."""
    cluster = FakeCluster()
    more: dict[str, Any] = {"array": 9, "array_limit": 2, "run_s": 1000.0}
    running = cluster.submit(task=0, **more)
    cluster.starts = False
    tasks = [cluster.submit(task=index, **more) for index in (1, 2, 3)]
    assert cluster.jobs[running].state == "running"
    times_s = list(starts(adopted_from(cluster)[0]).values())
    assert len(times_s) == len(tasks)
    assert times_s[0] < 10.0
    assert 50.0 <= times_s[1] < 65.0
    assert times_s[2] - times_s[0] >= 50.0


def test_licences_are_those_of_the_cluster() -> None:
    """One job at a time has the only licence."""
    cluster = FakeCluster(starts=False)
    for _ in range(2):
        cluster.submit(licenses={"matlab": 1})
    state = replace(cluster.state(), licenses={"matlab": 1})
    first_s, second_s = starts(adopted_from(cluster, state=state)[0]).values()
    assert second_s - first_s >= 50.0


def test_partitions_that_are_down_start_no_jobs() -> None:
    """The present state of a partition counts, not that of the scenario."""
    cluster = FakeCluster(starts=False)
    cluster.submit()
    state = cluster.state()
    down = {"main": replace(state.partitions["main"], is_up=False)}
    model = site(partitions=[{"name": "main", "nodes": [[0, 3]], "default": True}])
    found, _ = adopted_from(cluster, **model)
    assert set(starts(found)) == {1}
    found, _ = adopted_from(cluster, **model, state=replace(state, partitions=down))
    assert starts(found) == {}


def test_jobs_of_a_partition_that_is_down_go_on() -> None:
    """A partition that was set down has jobs that run, and none that start."""
    cluster = busy_cluster()
    waiting = cluster.submit()
    state = cluster.state()
    down = replace(state.partitions["main"], is_up=False)
    partition = {"name": "main", "nodes": [[0, 3]], "default": True, "max_time_s": 1}
    found, warnings = adopted_from(
        cluster, **site(partitions=[partition]), state=replace(state, partitions={"main": down})
    )
    assert len(found.state.jobs) == 5
    assert warnings == []
    assert waiting not in starts(found)


def test_jobs_that_share_a_core_are_left_out_with_a_warning() -> None:
    """A second job on a core has no place in the model."""
    cluster = busy_cluster()
    cluster.jobs[2] = replace(cluster.jobs[2], nodes=("node0",))
    _, warnings = adopted_from(cluster)
    assert warnings == ["1 jobs run on cores that the model lacks, and are left out, such as 2"]


def test_devices_of_running_jobs_are_taken_whatever_their_type() -> None:
    """A job that waits for a GPU starts when the job ends that has it."""
    cluster = FakeCluster(nodes=1, cpus=2)
    cluster.submit(run_s=900.0, devices={"gpu": 1})
    waiting = cluster.submit(devices={"gpu": 1})
    cluster.jobs[waiting] = replace(
        cluster.jobs[waiting], state="pending", slurm_state="PENDING", started_s=None, nodes=()
    )
    group = {
        "names": "node0",
        "count": 1,
        "processors": [{"cores": 2, "static_w": 5}],
        "gres": {"gpu:a100": 1},
    }
    found, _ = adopted_from(cluster, **site(nodes=[group]))
    assert starts(found)[waiting] >= 50.0


def test_usage_sets_the_fair_share_of_users() -> None:
    """The raw usage of `sshare` reaches the settings of the site's users."""
    text = "root||30\n root|root|0\n  physics||30\n  physics|ann|20\n  physics|bob|10\n"
    usage = usage_of(text)
    assert usage == {"root": {"root": 0.0}, "physics": {"ann": 20.0, "bob": 10.0}}
    found, _ = adopted_from(FakeCluster(), usage_s=usage)
    policy = found.state.new_policy(np.random.default_rng(0))
    assert isinstance(policy, SlurmPolicy)
    assert policy._site.accounts["physics"].users["ann"].usage_s == 20.0


def test_remembered_jobs_are_a_history() -> None:
    """Jobs that ended count, with their limits; cancelled waiting jobs do not."""
    cluster = FakeCluster(nodes=1)
    cluster.submit(run_s=10.0)
    cluster.submit(run_s=100.0)
    cluster.submit(run_s=5.0, limit_s=30.0)
    unlimited = cluster.submit(run_s=7.0)
    cluster.jobs[unlimited] = replace(cluster.jobs[unlimited], time_limit_s=None)
    cluster.cancel(cluster.submit())
    cluster.advance(EPOCH_S + 1000.0)
    assert remembered_history(cluster.state()) == [
        EndedJob("ann", 60.0, 10.0, cores=1.0),
        EndedJob("ann", 60.0, None, cores=1.0),
        EndedJob("ann", 30.0, 5.0, cores=1.0),
        EndedJob("ann", UNLIMITED_S, 7.0, cores=1.0),
    ]


def test_expected_starts_are_read_by_job_and_task() -> None:
    """Tasks of arrays have the numbers that the state gives them; `N/A` is no start."""
    rows = [
        ("7", "7", "N/A", "1800000000"),
        ("8", "8", "N/A", "N/A"),
        ("9", "9", "3", "1800000060"),
    ]
    text = "".join("".join(f"{cell}Xy" for cell in row) + "\n" for row in rows)
    assert starts_of_text(text, "Xy") == {7: 1_800_000_000.0, task_id(9, 3): 1_800_000_060.0}


def test_a_recorded_observation_is_read_back(tmp_path: Path) -> None:
    """JSON keeps all values, also those of a job that was ended at its limit."""
    seen = Observation(
        state=busy_cluster().state(),
        **site(),
        history=(EndedJob("ann", 60.0, None), EndedJob("ann", 60.0, 3.5)),
        usage_s={"physics": {"ann": 1.5}},
        slurm_s={5: 1e9},
    )
    write_observation(seen, tmp_path / "queue.json")
    assert read_observation(tmp_path / "queue.json") == seen


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format": "x"}', b"[" * 100_000])
def test_a_file_that_is_no_observation_is_an_error(tmp_path: Path, content: bytes) -> None:
    """The error names the file and the command that writes such files."""
    path = tmp_path / "queue.json"
    path.write_bytes(content)
    with pytest.raises(ForecastError, match=r"queue\.json: .*hpcosim ask --save"):
        read_observation(path)


def test_an_empty_cluster_has_no_jobs() -> None:
    """Without jobs, second 0 is the present."""
    found, _ = adopted_from(FakeCluster())
    assert found.state.jobs == []
    assert found.state.now_s == 0.0
    assert math.isclose(found.origin_s, EPOCH_S)
