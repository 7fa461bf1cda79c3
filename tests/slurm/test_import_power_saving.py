"""Power saving and reservations of a Slurm cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcosim_protocol import NodeReservation
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_schedulers.power.settings import Slurm, kept_on, parse_power
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm.convert import SlurmOptions, import_slurm
from support.commands import invoke
from support.slurm_site import write_site

PROGRAMS = "SuspendProgram=/sbin/off\nResumeProgram=/sbin/on\n"
SAVING = f"""{PROGRAMS}SuspendTime=900
SuspendTimeout=60
ResumeTimeout=600
SuspendRate=20 ResumeRate=10
SuspendExcNodes=c[01-02]:1,c04
SuspendExcParts=gpu
SuspendExcStates=PLANNED,RESERVED
SlurmctldParameters=power_save_interval=20,idle_on_node_suspend
"""
RESERVATIONS = """ReservationName=maint StartTime=2026-03-02T12:00:00 EndTime=2026-03-02T14:00:00 \
Duration=02:00:00
   Nodes=c[01-04] NodeCnt=4 CoreCnt=64 Features=(null) PartitionName=cpu \
Flags=MAINT,IGNORE_JOBS,SPEC_NODES
   TRES=cpu=64
   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) \
Watts=n/a
   MaxStartDelay=(null)
   Comment=a switch of the network

ReservationName=course StartTime=2026-03-10T09:00:00 EndTime=2026-03-10T11:00:00 Duration=02:00:00
   Nodes=g1 NodeCnt=1 CoreCnt=32 Features=(null) PartitionName=gpu Flags=DAILY,PURGE_COMP=00:05:00
   Users=ada,bob Groups=(null) Accounts=physics Licenses=matlab:1 State=INACTIVE
ReservationName=past StartTime=2026-02-02T12:00:00 EndTime=2026-02-02T14:00:00 Nodes=c04 Users=ada
ReservationName=tokens StartTime=2026-03-02T12:00:00 EndTime=2026-03-02T14:00:00 Nodes=(null)
"""


def imported(
    folder: Path, more: str = "", reservations: str = "", **options: Any
) -> tuple[Scenario, ImportReport]:
    """Import the site with more lines of slurm.conf; return the scenario and the report."""
    conf = write_site(folder)
    conf.write_text(conf.read_text() + more)
    if reservations:
        (folder / "reservations.txt").write_text(reservations)
        options = {
            "reservations": folder / "reservations.txt",
            "start": "2026-03-02T08:00:00",
            **options,
        }
    report = import_slurm(conf, folder / "cluster.yaml", SlurmOptions(force=True, **options))
    return load_scenario(folder / "cluster.yaml"), report


def line_of(folder: Path, text: str) -> int:
    """Return the line of a text in slurm.conf, from 1."""
    lines = (folder / "slurm.conf").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_power_saving_becomes_the_power_manager(tmp_path: Path) -> None:
    """With the timeouts, rates, excluded nodes and partitions of slurm.conf."""
    scenario, report = imported(tmp_path, SAVING)
    manager = parse_power(scenario.scheduler.power)
    assert manager == Slurm(
        suspend_time_s=900,
        suspend_timeout_s=60,
        resume_timeout_s=600,
        suspend_rate_per_min=20,
        resume_rate_per_min=10,
        suspend_exc_nodes="c[01-02]:1,c04,g[1-2]",
        suspend_exc_states="PLANNED",
        power_save_interval_s=20,
    )
    assert isinstance(manager, Slurm)
    kept = kept_on(manager.suspend_exc_nodes, "suspend_exc_nodes", scenario.platform)
    counts = [(nodes.tolist(), count) for nodes, count in kept]
    assert counts == [([0, 1], 1), ([3], 1), ([4, 5], 2)]
    assert "SuspendExcStates: RESERVED" in report.entries["not modelled"]
    assert "SlurmctldParameters: idle_on_node_suspend" in report.entries["no effect"]
    listed = {*report.entries["not modelled"], *report.entries["no effect"]}
    assert not {each for each in listed if each.startswith(("Suspend", "Resume"))} - {
        "SuspendExcStates: RESERVED"
    }


def test_nodes_get_power_states_that_the_report_calls_guessed(tmp_path: Path) -> None:
    """Switching takes the timeouts: Slurm states nothing else."""
    scenario, report = imported(tmp_path, SAVING)
    states = [group.power_states for group in scenario.platform.nodes]
    assert all(each is not None for each in states)
    assert {(each.switch_on_s, each.switch_off_s) for each in states if each} == {(600, 60)}
    assert any(what.startswith("power states: 5 W") for what in report.entries["guessed"])


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("SuspendTimeout=60\n" + PROGRAMS, "without SuspendTime"),
        ("SuspendTime=INFINITE\n" + PROGRAMS, "without SuspendTime"),
        ("SuspendTime=-1\n" + PROGRAMS, "without SuspendTime"),
        ("SuspendTime=900\nResumeProgram=/sbin/on\n", "without SuspendProgram"),
        ("SuspendTime=900\n", "without SuspendProgram and ResumeProgram"),
    ],
)
def test_settings_of_power_saving_that_is_off(tmp_path: Path, lines: str, why: str) -> None:
    """Nodes stay on, and the report says why."""
    scenario, report = imported(tmp_path, lines)
    assert scenario.scheduler.power == {"name": "always-on"}
    assert scenario.platform.nodes[0].power_states is None
    entries = [each for each in report.entries["no effect"] if "power saving" in each]
    assert len(entries) == lines.count("\n")
    assert all(each.endswith(why) for each in entries)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("SuspendTime=soon", "SuspendTime: expected a whole number, got 'soon'"),
        ("SuspendExcNodes=c[01-09]", "SuspendExcNodes: there is no node 'c05'"),
        ("SuspendExcNodes=c[01-02]:0", "SuspendExcNodes: the set 'c[01-02]:0' is empty"),
        ("SuspendExcParts=cpu,nowhere", "SuspendExcParts: there is no partition 'nowhere'"),
        ("ResumeRate=99999999", "ResumeRate: expected an integer <= 60000, got 99999999"),
    ],
)
def test_invalid_settings_name_the_line(tmp_path: Path, line: str, what: str) -> None:
    """An error is one of slurm.conf, not of the scenario that would have been made."""
    with pytest.raises(InputError) as error:
        imported(tmp_path, f"{PROGRAMS}SuspendTime=900\n{line}\n")
    assert str(error.value) == f"{tmp_path / 'slurm.conf'}:{line_of(tmp_path, line)}: {what}"
    assert not (tmp_path / "cluster.yaml").exists()


def test_unknown_priority_flags_are_listed_with_their_line(tmp_path: Path) -> None:
    """The scenario has those that the scheduler knows, so it can be run."""
    scenario, report = imported(tmp_path, "PriorityFlags=MAX_TRES,TICKET_BASED,FAIR_TREE\n")
    assert scenario.scheduler.settings["priority"]["flags"] == ["max_tres"]
    entry = report.entries["not modelled"]["PriorityFlags: TICKET_BASED"]
    assert entry.places == [f"slurm.conf:{line_of(tmp_path, 'TICKET_BASED')}"]
    assert "PriorityFlags: FAIR_TREE" not in report.entries["not modelled"]


@pytest.mark.parametrize(
    "line",
    ["PriorityType=priority/own", "PriorityUsageResetPeriod=HOURLY", "PreemptType=preempt/x"],
)
def test_values_that_the_scheduler_rejects_name_the_line(tmp_path: Path, line: str) -> None:
    """What would fail at a line of the scenario fails at the import."""
    with pytest.raises(InputError) as error:
        imported(tmp_path, f"{line}\n")
    name = line.partition("=")[0]
    place = f"{tmp_path / 'slurm.conf'}:{line_of(tmp_path, line)}: {name}: expected one of"
    assert str(error.value).startswith(place)


def test_reservations_of_scontrol(tmp_path: Path) -> None:
    """In simulated time; one that repeats also does so before the window that Slurm prints."""
    scenario, report = imported(tmp_path, reservations=RESERVATIONS)
    assert scenario.platform.reservations == (
        NodeReservation(
            name="maint",
            nodes=((0, 3),),
            start_s=14_400,
            end_s=21_600,
            users=("root",),
            flags=("maint", "ignore_jobs"),
        ),
        NodeReservation(
            name="course",
            nodes=((4, 4),),
            start_s=3600,
            end_s=10_800,
            repeat_s=86_400,
            users=("ada", "bob"),
            accounts=("physics",),
        ),
    )
    assert report.count("dropped", "reservations that ended before second 0") == 1
    assert report.count("dropped", "reservations without nodes") == 1
    assert report.count("guessed", "reservations that repeat: also before") == 1
    missing = {"reservation: Licenses", "reservation: Flags=PURGE_COMP"}
    assert missing <= set(report.entries["not modelled"])
    assert report.written[0].endswith("2 partitions, 2 reservations")
    assert report.facts["second 0 of the simulation"] == "2026-03-02T08:00:00+00:00"


def test_times_of_reservations_are_local(tmp_path: Path) -> None:
    """In the time zone of the cluster; an offset of the start counts."""
    scenario, _ = imported(
        tmp_path,
        reservations=RESERVATIONS,
        start="2026-03-02T08:00:00+00:00",
        time_zone="Europe/Berlin",
    )
    assert scenario.platform.reservations[0].start_s == 10_800


def test_names_of_reservations_are_replaced(tmp_path: Path) -> None:
    """Users and accounts have the names of the other imports."""
    scenario, _ = imported(tmp_path, reservations=RESERVATIONS, anonymize=True)
    course = scenario.platform.reservations[1]
    assert course.users == ("user1", "user2")
    assert course.accounts == ("account1",)


def test_a_cluster_without_reservations(tmp_path: Path) -> None:
    """Slurm prints a sentence."""
    scenario, report = imported(tmp_path, reservations="No reservations in the system\n")
    assert scenario.platform.reservations == ()
    assert report.written[0].endswith("0 reservations")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("Nodes=c01\n", "1: expected a line that begins with ReservationName=, got 'Nodes=c01'"),
        ("ReservationName=a Nodes=c01\n", "1: StartTime: expected a time, got ''"),
        (RESERVATIONS.replace("Nodes=g1", "Nodes=x1"), "8: Nodes: there is no node 'x1'"),
        (
            RESERVATIONS.replace("=past", "=course"),
            "11: a second reservation has the name 'course'",
        ),
        (RESERVATIONS.replace("T14:00:00 Dur", "T12:00:00 Dur"), "1: expected an EndTime after"),
        ("slurm_load_reservations error: down\n", "1: expected `Key=Value` pairs"),
    ],
)
def test_damaged_reservations_name_the_line(tmp_path: Path, text: str, what: str) -> None:
    """Nothing is written."""
    with pytest.raises(InputError) as error:
        imported(tmp_path, reservations=text)
    assert str(error.value).startswith(f"{tmp_path / 'reservations.txt'}:{what}")
    assert not (tmp_path / "cluster.yaml").exists()


def test_reservations_need_the_time_of_second_0(tmp_path: Path) -> None:
    """Otherwise they would lie anywhere."""
    with pytest.raises(InputError, match="--reservations needs --start TIME"):
        imported(tmp_path, reservations=RESERVATIONS, start="")


def test_an_imported_cluster_saves_power(tmp_path: Path) -> None:
    """The scenario runs with Slurm's scheduler and Slurm's power saving, as it was imported."""
    imported(tmp_path, SAVING, RESERVATIONS)
    jobs = '{"job_id": 1, "submit_s": 0, "cores": 4, "run_s": 60, "requested_s": 120}\n'
    late = jobs.replace('"job_id": 1, "submit_s": 0', '"job_id": 2, "submit_s": 9000')
    (tmp_path / "jobs.jsonl").write_text(jobs + late)
    done = invoke(
        "run",
        tmp_path / "cluster.yaml",
        "--transport",
        "inproc",
        "--json",
        "--out",
        tmp_path / "out",
    )
    assert done.status == 0, done.err
    assert '"node_shutdowns": 0' not in done.out
