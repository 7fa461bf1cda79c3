"""Forecasts of jobs that are not submitted: `hpcosim ask ways`."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpcosim.cli.ask import words_of_forecast
from hpcosim_protocol import Platform
from hpcosim_slurm.state import LivePartition
from hpcosim_twin.answers.asked import asked_job
from hpcosim_twin.cluster.observation import (
    EndedJob,
    ForecastError,
    Observation,
    write_observation,
)
from support.commands import invoke
from support.fake_cluster import EPOCH_S, FakeCluster

PROCESSORS = [{"cores": 4, "static_w": 5, "dynamic_w": 5}]
PLATFORM = {
    "nodes": [{"names": "node[0-1]", "count": 2, "processors": PROCESSORS, "memory_mb": 8000}],
    "consumable": ["cores", "memory"],
    "partitions": [
        {"name": "main", "nodes": [[0, 1]], "default": True, "default_memory_per_core_mb": 100},
        {"name": "one", "nodes": [[0, 0]]},
    ],
}
HISTORY = tuple(EndedJob("ann", 600.0, float(run_s)) for run_s in range(100, 300, 10))


def observed(busy_cpus: int = 0) -> Observation:
    """Return two nodes of four CPUs, some of which are busy for ten minutes at most."""
    cluster = FakeCluster(nodes=2, cpus=4)
    if busy_cpus:
        cluster.submit(cpus=busy_cpus, run_s=1000.0, limit_s=600.0, memory_mb=100)
    cluster.now_s += 5.0
    names = tuple(cluster.names)
    partitions = {
        "main": LivePartition("main", names, is_up=True, is_default=True, time_limit_s=3600.0),
        "one": LivePartition("one", names[:1], is_up=True, time_limit_s=900.0),
    }
    live = cluster.state()
    return Observation(
        state=type(live)(live.at_s, live.jobs, live.nodes, partitions),
        platform=msgspec.convert(PLATFORM, Platform),
        settings={},
        history=HISTORY,
    )


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    """Return a recorded queue in which all CPUs are busy."""
    path = tmp_path / "queue.json"
    write_observation(observed(8), path)
    return path


def answers(path: Path, *words: str) -> list[dict[str, Any]]:
    """Return the answers of the command."""
    result = invoke("ask", "ways", *words, "--state", path, "--futures", "40", "--json")
    assert result.status == 0, result.err
    found: list[dict[str, Any]] = json.loads(result.out)["jobs"]
    return found


def test_a_job_that_fits_starts_within_an_hour_for_certain(tmp_path: Path) -> None:
    """On an idle cluster each range is some seconds wide."""
    path = tmp_path / "queue.json"
    write_observation(observed(), path)
    (found,) = answers(path, "-n 2 -t 10:00")
    assert found["chance_to_start_within_1_h"] == 1.0
    low, high = found["start"]["ranges"]["0.95"]
    assert EPOCH_S <= low <= high <= EPOCH_S + 120.0


def test_a_job_waits_for_what_runs(busy: Path) -> None:
    """Its start follows from the history of the user whose job runs, and not from its limit."""
    (found,) = answers(busy, "-n 8 -t 10:00")
    assert EPOCH_S + 100.0 < found["start"]["median_s"] < EPOCH_S + 400.0
    ranges = found["start"]["ranges"]
    widths = [ranges[each][1] - ranges[each][0] for each in ("0.5", "0.8", "0.95")]
    assert widths == sorted(widths)
    assert found["end"]["median_s"] > found["start"]["median_s"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("-n 9", "9 cores"),
        ("-N 3", "3"),
        ("-n 1 -t 2:00:00", "partition main permits at most 01:00:00 on at most 2 nodes"),
        ("-N 2 -p one", "2"),
    ],
)
def test_a_job_that_can_never_start_is_an_error(busy: Path, options: str, why: str) -> None:
    """It says what is asked for in vain."""
    result = invoke("ask", "ways", options, "--state", busy)
    assert result.status == 2
    assert result.error.startswith(f"{options!r} can never start: ")
    assert why in result.error


def test_the_way_that_ends_first_is_told_with_its_certainty(busy: Path) -> None:
    """Of two jobs of one user with the same limit, neither is better; chances add up to one."""
    same = answers(busy, "-n 8 -t 10:00", "-n 8 -t 10:00", "user=ann")
    assert [each["chance_to_end_first"] for each in same] == [0.5, 0.5]
    assert same[0]["start"] == same[1]["start"]
    two = answers(busy, "-n 8 -t 10:00", "-n 8 -t 1:00:00", "user=ann")
    chances = [each["chance_to_end_first"] for each in two]
    assert chances[0] > chances[1]
    assert sum(chances) == pytest.approx(1.0)
    low, high = two[0]["chance_to_end_first_95"]
    assert low < chances[0] < high


def test_other_questions_change_no_answer(busy: Path) -> None:
    """An answer is the same whatever else is asked, if all are planned for the same time."""
    alone = answers(busy, "-n 8 -t 10:00")
    beside = answers(busy, "-n 8 -t 10:00", "-n 8 -t 5:00")
    assert alone[0]["start"] == beside[0]["start"]


def test_answers_are_shown_as_a_table(busy: Path) -> None:
    """A line for each job, with local times and the chances."""
    result = invoke("ask", "ways", "-n 8 -t 10:00", "-n 8", "--state", busy)
    head, first, second = result.out.splitlines()
    assert head.split("  ")[0] == "JOB"
    for row, options in ((first, "-n 8 -t 10:00"), (second, "-n 8")):
        assert row.startswith(options)
        assert datetime.fromisoformat(row.split()[len(options.split())]).year == 2027
        assert "100 %" in row


def test_earlier_answers_are_for_waiting_jobs_only(busy: Path) -> None:
    """No option is ignored in silence."""
    result = invoke("ask", "ways", "-n 1", "--earlier", "old.json", "--state", busy)
    assert result.status == 2
    assert "--earlier applies only to the question queue" in result.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--json --samples 5", ["queue", "--json", "--futures", "5"]),
        ("--record=a.json -j 2", ["queue", "--save=a.json", "--workers", "2"]),
        ("-j4", ["queue", "--workers=4"]),
        (
            "--job -n1 --state a.json --job=-n2 --user ann",
            ["ways", "-n1", "-n2", 'user="ann"', "--state", "a.json"],
        ),
    ],
)
def test_arguments_of_the_former_command_are_those_of_ask(arguments: str, words: list[str]) -> None:
    """`hpcosim forecast` goes on to work."""
    assert words_of_forecast(arguments.split()) == ["ask", *words]


def test_options_of_sbatch_describe_the_job() -> None:
    """Tasks, nodes, memory and the limit are those that Slurm would take."""
    seen = observed()
    job = asked_job("-n 6 --ntasks-per-node=4 -c 1 -t 1:00:00 --gres=gpu:2", seen, "ann").job
    assert (job.cpus, job.nodes_min, job.time_limit_s, job.devices) == (6, 2, 3600.0, {"gpu": 2})
    assert job.memory_mb == 300  # 100 for each CPU, three of which are on a node
    whole = asked_job("-N 2 --exclusive --mem=4G -p one", seen).job
    assert (whole.nodes_min, whole.nodes_max, whole.memory_mb) == (2, 2, 4096)
    assert (whole.is_exclusive, whole.partition, whole.time_limit_s) == (True, "one", 900.0)
    assert asked_job("-t 0 -p one", seen).job.time_limit_s == 900.0  # 0: that of the partition


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("-n x", "invalid int value"),
        ("--frobnicate", "unrecognized arguments"),
        ("-p nowhere", "no partition 'nowhere'; the cluster has main, one"),
        ("-n -1", "--ntasks: expected"),
        ("-t soon", "soon"),
        ("-n '1", "No closing quotation"),
        ("--mem lots", "lots"),
        ("-N 3-1", "--nodes: expected a range such as 1-3, got 3-1"),
        ("-C '(('", "expected a feature"),
    ],
)
def test_wrong_options_are_named(options: str, error: str) -> None:
    """An error says which options it is about, and what is wrong."""
    with pytest.raises(ForecastError) as caught:
        asked_job(options, observed())
    assert str(caught.value).startswith(f"{options!r}: ")
    assert error in str(caught.value)
