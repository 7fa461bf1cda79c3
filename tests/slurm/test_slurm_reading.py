"""Reading a cluster from recorded outputs of Slurm 22.05's commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_slurm import reading, texts
from hpcosim_slurm.config import Rights, check_rights, check_version, parse_config
from hpcosim_slurm.errors import ReadingError, SlurmError
from hpcosim_slurm.state import LiveJob

RECORDED = Path(__file__).parent / "recorded"
SEPARATOR = "QXZW"


def recorded(name: str) -> str:
    """Return a recorded output as the tools decode it."""
    return (RECORDED / name).read_bytes().decode(errors="replace")


@pytest.fixture(scope="module")
def found() -> dict[str, LiveJob]:
    """The recorded jobs by Slurm's text for them."""
    parsed = reading.parse(recorded("squeue.txt"), SEPARATOR)
    assert all(job.id == number for number, job in parsed.items())
    return {job.name_in_slurm: job for job in parsed.values()}


def test_hostile_text_is_the_text_of_its_job_only(found: dict[str, LiveJob]) -> None:
    """Newlines, quotes, separators and bytes that are no UTF-8 stay in the name and the comment."""
    assert found["1"].name == 'evil "name" = x\ny|z\x1f\ufffd'
    assert found["1"].comment == 'a=b JobId=7\nname=q" (null)'
    assert (found["1"].state, found["1"].nodes) == ("running", ("node0",))


def test_a_running_job_has_no_end(found: dict[str, LiveJob]) -> None:
    """Slurm prints the latest possible end of a running job, which is not its end."""
    job = found["2"]
    assert job.started_s is not None
    assert job.ended_s is None
    assert job.time_limit_s == 26 * 3600


def test_jobs_that_are_over_have_exit_codes(found: dict[str, LiveJob]) -> None:
    """The wait status of Slurm becomes the exit code, and 128 + 15 after SIGTERM."""
    assert (found["3"].slurm_state, found["3"].exit_code) == ("FAILED", 3)
    assert (found["4"].slurm_state, found["4"].exit_code) == ("CANCELLED", 143)
    assert found["3"].ended_s is not None


def test_waiting_tasks_of_an_array_are_jobs(found: dict[str, LiveJob]) -> None:
    """Each task has a number of its own, which it keeps when it starts."""
    tasks = [found[f"5_{task}"] for task in range(1, 6)]
    assert [job.state for job in tasks] == ["running"] + ["pending"] * 4
    assert [job.id for job in tasks] == [texts.task_id(5, task) for task in range(1, 6)]
    assert [label for label in found if label.startswith("6_")] == [
        f"6_{task}" for task in (1, 3, 5, 8, 9, 10, 11, 12)
    ]


def test_node_counts_of_a_waiting_job_are_those_it_asks_for(found: dict[str, LiveJob]) -> None:
    """`sbatch -N2-3` asks for two to three nodes."""
    assert (found["5_2"].nodes_min, found["5_2"].nodes_max) == (2, 3)
    assert (found["11"].nodes_min, found["11"].cpus) == (3, 3)


def test_a_held_job_is_not_eligible(found: dict[str, LiveJob]) -> None:
    """It has priority 0, and no time from which it may start."""
    job = found["9"]
    assert (job.is_held, job.priority, job.eligible_s) == (True, 0, None)
    assert (job.memory_mb, job.devices, job.features) == (1500, {"gpu": 2}, "a|b")
    assert job.is_exclusive
    assert job.time_limit_s == 5400


def test_components_of_a_heterogeneous_job_name_it(found: dict[str, LiveJob]) -> None:
    """Both components have the number of the first."""
    assert [found[label].heterogeneous for label in ("7", "8", "9")] == [7, 7, None]


def test_a_device_count_of_a_job_is_for_each_node(found: dict[str, LiveJob]) -> None:
    """`--gpus-per-node=1 --mem-per-cpu=10M -n 3` on nodes of one CPU."""
    job = found["10"]
    assert (job.devices, job.devices_together, job.memory_mb) == ({"gpu": 1}, {}, 10)


def test_tasks_know_the_limit_of_their_array(found: dict[str, LiveJob]) -> None:
    """Slurm shows it only with those that wait; `5_1` runs."""
    assert [(found[f"5_{task}"].task, found[f"5_{task}"].array_limit) for task in (1, 2, 5)] == [
        (1, 2),
        (2, 2),
        (5, 2),
    ]
    assert (found["5_2"].array, found["11"].array) == (5, None)


def test_licences_of_a_job() -> None:
    """One is the number that is not stated."""
    text = recorded("squeue.txt").replace(
        "(null)QXZW(null)QXZWOK", "matlab:3,abaqusQXZW(null)QXZWOK"
    )
    assert reading.parse(text, SEPARATOR)[2].licenses == {"matlab": 3, "abaqus": 1}


def test_reservations_have_windows_nodes_and_users() -> None:
    """Excluded users keep their sign, and a reservation of licences has no nodes."""
    found = reading.parse_reservations(recorded("reservations.txt"))
    assert (found["m1"].nodes, found["m1"].users) == (("node2", "node3"), ("root",))
    assert (found["m1"].start_s, found["m1"].end_s) == (1795411361.0, 1795418561.0)
    assert found["m1"].flags == ("IGNORE_JOBS", "MAINT", "SPEC_NODES")
    assert (found["daily"].accounts, found["daily"].is_active) == (("hpcosim",), True)
    assert (found["cores"].users, found["lic"].nodes) == (("-root",), ())
    assert reading.parse_reservations("No reservations in the system\n") == {}


def test_licences_of_the_cluster() -> None:
    """Their numbers are those that there are, used or not."""
    assert reading.parse_licenses(recorded("licenses.txt")) == {"abaqus": 2, "matlab": 5}
    assert reading.parse_licenses("No licenses configured in Slurm.\n") == {}


def test_missing_fields_are_an_error() -> None:
    """A table that is cut off is no table of fewer jobs."""
    text = recorded("squeue.txt")
    with pytest.raises(ReadingError, match=r"squeue: expected \d+ fields for each job"):
        reading.parse(text[: len(text) // 2], SEPARATOR)
    assert reading.parse("", SEPARATOR) == {}


def test_a_state_of_a_later_version_does_not_end_a_job() -> None:
    """A job in an unknown state runs if it has nodes, and otherwise waits."""
    text = recorded("squeue.txt").replace("RUNNING", "DREAMING").replace("PENDING", "DREAMING")
    states = {job.name_in_slurm: job.state for job in reading.parse(text, SEPARATOR).values()}
    assert (states["2"], states["11"]) == ("running", "pending")


def test_nodes_have_states_and_reasons() -> None:
    """The reason of a drain has free text that looks like fields."""
    found = reading.parse_nodes(recorded("nodes.txt"))
    assert list(found) == ["node0", "node1", "node2", "node3"]
    node = found["node3"]
    assert (node.is_available, node.reason) == (False, "fan = broken State=IDLE [x]")
    assert (node.cpus, node.memory_mb, node.devices) == (1, 4000, {"gpu": 2})
    assert (node.features, node.partitions) == (("a", "b"), ("main",))
    assert found["node0"].is_available


@pytest.mark.parametrize(
    ("state", "is_available", "is_responding", "power"),
    [
        ("IDLE", True, True, "on"),
        ("DOWN*", False, False, "on"),
        ("DOWN+NOT_RESPONDING", False, False, "on"),
        ("UNKNOWN", False, False, "on"),
        ("MIXED+DRAIN", False, True, "on"),
        ("IDLE+POWERED_DOWN", True, True, "off"),
        ("IDLE+CLOUD+POWERED_DOWN+NOT_RESPONDING", True, True, "off"),
        ("IDLE~", True, True, "off"),
        ("ALLOCATED+POWERING_UP", True, True, "switching_on"),
        ("MIXED#", True, True, "switching_on"),
        ("IDLE+POWERING_DOWN", True, True, "switching_off"),
        ("ALLOCATED+POWER_DOWN", True, True, "on"),
        ("IDLE+INVALID_REG", False, True, "on"),
    ],
)
def test_states_of_nodes(state: str, is_available: bool, is_responding: bool, power: str) -> None:
    """Flags and symbols of sinfo(1) say whether jobs may start and whether the node is on."""
    allocated = 1 if state[0] in "AM" else 0
    row = f"NodeName=n CPUAlloc={allocated} CPUTot=2 AvailableFeatures=(null) Gres=(null) "
    text = f"{row}RealMemory=10 AllocMem=0 State={state} Partitions=a,b Later=7\n"
    node = reading.parse_nodes(text)["n"]
    assert (node.is_available, node.is_responding, node.power) == (
        is_available,
        is_responding,
        power,
    )


def test_partitions_have_their_limits() -> None:
    """`UNLIMITED` and `NONE` are no limits, a time with days is one."""
    text = recorded("partitions.txt")
    main = reading.parse_partitions(text)["main"]
    assert (main.is_up, main.is_default, len(main.nodes)) == (True, True, 4)
    assert (main.time_limit_s, main.default_time_s) == (None, None)
    limited = text.replace("MaxTime=UNLIMITED", "MaxTime=1-02:03:04").replace(
        "State=UP", "State=DOWN"
    )
    main = reading.parse_partitions(limited)["main"]
    assert (main.time_limit_s, main.is_up) == (93784, False)


def test_a_partition_without_a_field_is_an_error() -> None:
    """The message names the partition and the field."""
    text = recorded("partitions.txt").replace("MaxTime=", "Max=")
    with pytest.raises(ReadingError, match="partition: main: the field 'MaxTime' is missing"):
        reading.parse_partitions(text)


def test_the_configuration_says_what_the_cluster_can_do() -> None:
    """No accounts, no power saving, memory not counted."""
    config = parse_config(recorded("config.txt"))
    assert (config.name, config.version, config.slurm_user) == ("hpcosim", "22.05.8", "root")
    assert (config.has_accounts, config.is_memory_counted) == (False, False)
    assert (config.suspend_program, config.private) == ("", frozenset())
    assert config.remembered_s == 300


@pytest.mark.parametrize("version", ["20.11.9", "25.05.1", "unknown"])
def test_an_unsupported_version_is_an_error(version: str) -> None:
    """The message has the version and those that are supported."""
    with pytest.raises(SlurmError, match=rf"Slurm {version}: expected a version from 21.08"):
        check_version(version)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gpu:2", {"gpu": 2}),
        ("gpu", {"gpu": 1}),
        ("gres:gpu:1", {"gpu": 1}),
        ("gres/gpu:a100:3", {"gpu:a100": 3}),
        ("gres/gpu=2", {"gpu": 2}),
        ("gpu:a100:4(S:0-1,3),gpu:h100:2,shard:8", {"gpu:a100": 4, "gpu:h100": 2, "shard": 8}),
        ("gpu:1,bandwidth:lustre:no_consume:4G,burst:2G", {"gpu": 1}),
        ("(null)", {}),
        ("N/A", {}),
        ("gres:none", {}),
    ],
)
def test_devices(text: str, count: dict[str, int]) -> None:
    """Sockets are left out, and what is no countable device."""
    assert texts.devices_of(text) == count


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [("0:30", 30), ("10:00", 600), ("1:00:00", 3600), ("2-12:00:00", 216000), ("UNLIMITED", None)],
)
def test_durations(text: str, expected_s: float | None) -> None:
    """Minutes and seconds are the last two numbers."""
    assert texts.duration_s(text) == expected_s


@pytest.mark.parametrize(
    ("text", "mb"), [("4000", 4000), ("80M", 80), ("1.50G", 1536), ("1024K", 1)]
)
def test_sizes(text: str, mb: float) -> None:
    """A size without a suffix is in MiB."""
    assert texts.memory_mb(text) == mb


def test_a_long_array_is_bounded() -> None:
    """The first tasks of an array of millions are told."""
    assert texts.tasks_of("0-3999999%5") == list(range(texts.MAX_WAITING_TASKS))
    with pytest.raises(ReadingError, match="expected tasks of an array"):
        texts.tasks_of("1-5,...")


def test_missing_rights_are_errors() -> None:
    """Each message names the user, the right and how to give it."""
    plain = Rights("ada", "", sees_all_jobs=True, changes_jobs=False, changes_nodes=False)
    check_rights(plain, "shadow")
    with pytest.raises(SlurmError, match=r"ada may not change .* mode hold .* AdminLevel=Operator"):
        check_rights(plain, "hold")
    operator = Rights("ada", "Operator", sees_all_jobs=True, changes_jobs=True, changes_nodes=False)
    check_rights(operator, "place")
    with pytest.raises(SlurmError, match=r"ada may not switch nodes.*AdminLevel=Administrator"):
        check_rights(operator, "place", power=True)
    blind = Rights("ada", "", sees_all_jobs=False, changes_jobs=False, changes_nodes=False)
    with pytest.raises(SlurmError, match=r"ada does not see the jobs of others"):
        check_rights(blind, "shadow")
