"""Recordings of Batsim: the bridge sends the recorded messages and writes the recorded files."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.bridge.run import BatsimOptions
from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_batsim.inputs.workload_json import read_workloads
from hpcosim_batsim.results import results_of
from support.batsim_outputs import write_outputs
from support.batsim_recording import INPUTS, Event, RecordedScheduler, Recording, recording, rows_of

TOLERANCE_S = 0.010
# Batsim's own messages cross its simulated network one by one. On cluster512 that takes 0.6 to
# 2.4 ms each, and in this recording 32 jobs start at one instant, and 20 of them end at one.
BURSTS_S = {"walltime": 0.050}


Row = dict[str, str]


class Run(NamedTuple):
    """The command line of a recording."""

    platform: str
    workload: str
    mmax: int
    options: BatsimOptions


RUNS: Mapping[str, Run] = {
    "fcfs-small-delays": Run("small_platform", "test_delays", 4, BatsimOptions()),
    "kill5": Run("small_platform", "test_delays", 0, BatsimOptions(forward_profiles=True)),
    "samesubmit": Run("small_platform", "test_same_submit_time", 4, BatsimOptions()),
    "walltime": Run("cluster512", "test_walltime", 32, BatsimOptions()),
    "submitter-ack": Run(
        "small_platform",
        "test_delays",
        0,
        BatsimOptions(dynamic_jobs=True, acknowledge_dynamic_jobs=True),
    ),
    "sleeper-no_net_128": Run(
        "energy_platform_homogeneous_no_net_128",
        "test_energy_minimal_load50",
        16,
        BatsimOptions(energy=True),
    ),
}
names = pytest.mark.parametrize("name", RUNS)


class Replayed(NamedTuple):
    """A replayed recording.

    Attributes:
        texts: the messages of the bridge as it sent them.
    """

    recorded: Recording
    bridge: Bridge
    texts: list[str]
    messages: list[dict[str, Any]]

    def events(self) -> list[Event]:
        """Return all events, in order."""
        return [event for message in self.messages for event in message["events"]]


def replay(name: str) -> Replayed:
    """Replay the decisions of a recording."""
    recorded, run = recording(name), RUNS[name]
    bridge = Bridge(
        read_workloads([INPUTS / "workloads" / f"{run.workload}.json"]),
        read_platform(INPUTS / "platforms" / f"{run.platform}.xml", limit=run.mmax),
        run.options,
    )
    scheduler = RecordedScheduler(recorded)
    texts = [bridge.first_message().decode()]
    messages = [json.loads(texts[0])]
    while not bridge.ended:
        reply = scheduler.reply(messages[-1])
        texts.append(bridge.next_message(json.dumps(reply).encode()).decode())
        messages.append(json.loads(texts[-1]))
    return Replayed(recorded, bridge, texts, messages)


@names
def test_scheduler_is_told_the_same_at_the_start(name: str) -> None:
    """All fields of `SIMULATION_BEGINS` are equal; properties may have additional entries."""
    replayed = replay(name)
    ours, theirs = (events[0]["data"] for events in (replayed.events(), replayed.recorded.events()))
    for data in (ours, theirs):
        assert {Path(path).name for path in data.pop("workloads").values()} == {
            f"{RUNS[name].workload}.json"
        }
    for host, like in zip(ours["compute_resources"], theirs["compute_resources"], strict=True):
        assert like["properties"].items() <= host["properties"].items()
        host["properties"] = like["properties"]
    assert ours == theirs


@names
def test_scheduler_is_told_of_the_same_events(name: str) -> None:
    """Each recorded event is sent once, with equal data and a time within the tolerance."""
    replayed = replay(name)
    theirs = {key(event): event["timestamp"] for event in replayed.recorded.events()[1:]}
    ours = {key(event): event["timestamp"] for event in replayed.events()[1:]}
    assert len(replayed.events()) == len(replayed.recorded.events()) == len(theirs) + 1
    assert ours.keys() == theirs.keys()
    for event, time_s in ours.items():
        assert abs(time_s - theirs[event]) < tolerance_s(name), event


@names
def test_events_come_in_the_same_order(name: str) -> None:
    """Events that are further apart than the tolerance have the recorded order."""
    replayed = replay(name)
    theirs = [key(event) for event in replayed.recorded.events()[1:]]
    ours = [key(event) for event in replayed.events()[1:]]
    if name not in BURSTS_S:
        assert ours == theirs
    latest_s = 0.0
    times_s = {key(event): event["timestamp"] for event in replayed.recorded.events()}
    for event in ours:
        assert times_s[event] > latest_s - tolerance_s(name)
        latest_s = max(latest_s, times_s[event])


@names
def test_messages_hold_an_instant_each(name: str) -> None:
    """Each message has the events of one instant, and times never decrease.

    Only the end of static jobs has a message of its own, after that of the last submission.
    """
    last_s = -1.0
    for message in replay(name).messages[1:-1]:
        times_s = [event["timestamp"] for event in message["events"]]
        assert times_s
        assert times_s == sorted(times_s)
        if message["events"][0]["type"] == "NOTIFY":
            assert last_s <= message["now"]
        else:
            assert last_s < message["now"]
        assert times_s[-1] <= message["now"]
        last_s = message["now"]


@names
def test_jobs_file_is_the_same(name: str, tmp_path: Path) -> None:
    """Jobs have the recorded states, hosts and, within the tolerance, times."""
    ours, theirs = files(name, "jobs", tmp_path)
    by_job = {(row["workload_name"], row["job_id"]): row for row in theirs}
    assert len(ours) == len(theirs)
    for row in ours:
        assert_near(row, by_job[row["workload_name"], row["job_id"]], tolerance_s(name))


@names
def test_schedule_file_is_the_same(name: str, tmp_path: Path) -> None:
    """All aggregates are equal, except wall-clock times and version."""
    (ours,), (theirs,) = files(name, "schedule", tmp_path)
    hosts = int(theirs["nb_computing_machines"])
    for column in ("batsim_version", "scheduling_time", "simulation_time"):
        del ours[column], theirs[column]
    assert_near(ours, theirs, tolerance_s(name) * hosts)  # times are sums over hosts


@names
def test_machine_states_file_is_the_same(name: str, tmp_path: Path) -> None:
    """After each burst of changes the number of hosts in each state is equal."""
    ours, theirs = (
        settled(rows, tolerance_s(name)) for rows in files(name, "machine_states", tmp_path)
    )
    for row, like in zip(ours, theirs, strict=True):
        assert_near(row, like, tolerance_s(name))


@pytest.mark.parametrize("file", ["jobs", "machine_states", "pstate_changes", "consumed_energy"])
def test_energy_files_are_the_same_byte_by_byte(file: str, tmp_path: Path) -> None:
    """Without network time the energy files are equal byte by byte."""
    replayed = replay("sleeper-no_net_128")
    write_outputs(tmp_path / "o", results_of(replayed.bridge.run))
    theirs = replayed.recorded.folder / f"o_{file}.csv"
    assert (tmp_path / f"o_{file}.csv").read_text() == theirs.read_text()


def test_messages_are_the_same_byte_by_byte() -> None:
    """Without network time all messages after the first are equal byte by byte.

    Hosts in the first message have an additional property.
    """
    replayed = replay("sleeper-no_net_128")
    assert replayed.texts[1:] == replayed.recorded.texts[1:]


@names
def test_jobs_and_profiles_are_printed_the_same(name: str) -> None:
    """Jobs in messages equal those of the recording byte by byte, numbers included."""
    replayed = replay(name)
    jobs = re.compile(r'"job":\{[^{}]*\}(?:,"profile":\{[^{}]*\})?')
    ours, theirs = replayed.texts, replayed.recorded.texts
    assert jobs.findall("".join(ours)) == jobs.findall("".join(theirs)) != []


def test_profiles_are_printed_the_same_at_the_start() -> None:
    """The profiles in `SIMULATION_BEGINS` have the recorded bytes: numbers with six decimals."""
    replayed = replay("sleeper-no_net_128")
    ours, theirs = replayed.texts[0], replayed.recorded.texts[0]
    assert ours[ours.index('"profiles":') :] == theirs[theirs.index('"profiles":') :]


def test_summary_is_the_same_without_network(tmp_path: Path) -> None:
    """Without network time every value of the summary is equal, except version and wall times."""
    (ours,), (theirs,) = files("sleeper-no_net_128", "schedule", tmp_path)
    for column in ("batsim_version", "scheduling_time", "simulation_time"):
        del ours[column], theirs[column]
    assert ours == theirs


def test_same_input_gives_the_same_bytes() -> None:
    """Two runs have equal messages and files."""

    def text(replayed: Replayed) -> str:
        return json.dumps(replayed.messages)

    assert text(replay("submitter-ack")) == text(replay("submitter-ack"))


def key(event: Event) -> str:
    """Return an event without its time."""
    return json.dumps([event["type"], event["data"]], sort_keys=True)


def tolerance_s(name: str) -> float:
    """Return the tolerance of times, s."""
    return BURSTS_S.get(name, TOLERANCE_S)


def files(name: str, file: str, folder: Path) -> tuple[list[Row], list[Row]]:
    """Return the rows of a file of this run, and of the recording."""
    replayed = replay(name)
    write_outputs(folder / "o", results_of(replayed.bridge.run))
    return rows_of(folder / f"o_{file}.csv"), replayed.recorded.rows(file)


def assert_near(row: Row, like: Row, tolerance: float) -> None:
    """Check that two rows have equal columns and texts, and near numbers."""
    assert list(row) == list(like)
    for column, value in row.items():
        try:
            assert abs(float(value) - float(like[column])) < tolerance, (column, row, like)
        except ValueError:
            assert value == like[column], (column, row, like)


def settled(rows: list[Row], tolerance: float) -> list[Row]:
    """Return the rows that hold for longer than the tolerance."""
    after = [float(row["time"]) for row in rows[1:]] + [math.inf]
    return [
        row
        for row, next_s in zip(rows, after, strict=True)
        if next_s - float(row["time"]) > tolerance
    ]
