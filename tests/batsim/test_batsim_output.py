"""Batsim's output files of hpcosim's runs, read by evalys."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from typer.testing import CliRunner

from hpcosim.cli.main import app
from hpcosim_batsim.csv_files import files_of
from hpcosim_batsim.results import (
    BatsimOutcome,
    HostState,
    JobOutcome,
    StateChange,
    outcome_of,
)
from hpcosim_protocol import AllocateJob, Decision, NodeGroup, Platform, Processor, RejectJob
from hpcosim_scenarios.running.compare import compare_schedulers
from hpcosim_scenarios.running.results import BATSIM
from hpcosim_scenarios.running.run import Transport, run_scenario
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.errors import ResultsError
from support.batsim_outputs import write_outputs
from support.examples import examples
from support.power_states_runs import (
    AT_ONCE,
    drive,
    finish,
    killed_while_its_node_boots,
    nodes_of,
    off,
    off_and_on,
    play,
    scenes,
    woken,
)
from support.processes import read
from support.random_scenes import Scene
from support.simulating import cluster_of, jobs_of, simulate

SUFFIXES = ("jobs", "schedule", "machine_states", "pstate_changes", "consumed_energy")
NAMES = [f"out_{suffix}.csv" for suffix in SUFFIXES]
COUNTS = ("nb_sleeping", "nb_switching_on", "nb_switching_off", "nb_idle", "nb_computing")
MANY = examples(150)


def texts(outcome: BatsimOutcome) -> dict[str, str]:
    """Return the text of each file by its kind: `jobs` and so on."""
    return {
        name.removeprefix("out_").removesuffix(".csv"): "".join(lines)
        for name, lines in files_of(outcome).items()
    }


def rows(text: str) -> list[dict[str, str]]:
    """Return the rows of a file."""
    return list(csv.DictReader(text.splitlines()))


# Columns


def job(**changes: Any) -> JobOutcome:
    """Return a job that ran, with changed fields."""
    fields: dict[str, Any] = {
        "name": "1",
        "workload": "w0",
        "profile": "p",
        "submit_s": 1.0,
        "res": 2,
        "walltime_s": 10.0,
        "state": "COMPLETED_SUCCESSFULLY",
        "start_s": 2.0,
        "end_s": 6.0,
        "hosts": [0, 1, 3],
    }
    return JobOutcome(**fields | changes)


def outcome_of_jobs(*jobs: JobOutcome) -> BatsimOutcome:
    """Return an outcome that has only jobs."""
    return BatsimOutcome(hosts=4, jobs=jobs, states=[], version="x")


def with_energy() -> BatsimOutcome:
    """Return the outcome of a run with all five files and 15,500 J."""
    return outcome_of(off_and_on()[0].record())


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {},
            "1,w0,p,1.000000,2,10.000000,1,COMPLETED_SUCCESSFULLY,2.000000,4.000000,6.000000,"
            '1.000000,5.000000,1.250000,0-1 3,-1.000000,""',
        ),
        (
            {"energy_j": 5.5, "walltime_s": None, "metadata": 'say "hi", all'},
            "1,w0,p,1.000000,2,-1.000000,1,COMPLETED_SUCCESSFULLY,2.000000,4.000000,6.000000,"
            '1.000000,5.000000,1.250000,0-1 3,5.500000,"say ""hi"", all"',
        ),
        (
            {"state": "COMPLETED_FAILED", "name": "a,b", "profile": 'q"'},
            '"a,b",w0,"q""",1.000000,2,10.000000,0,COMPLETED_FAILED,2.000000,4.000000,6.000000,'
            '1.000000,5.000000,1.250000,0-1 3,-1.000000,""',
        ),
        (
            {"state": "REJECTED", "start_s": None, "end_s": None, "hosts": ()},
            '1,w0,p,1.000000,2,10.000000,0,REJECTED,,,,,,,,,""',
        ),
        (
            {"start_s": 2.0, "end_s": 2.0},
            "1,w0,p,1.000000,2,10.000000,1,COMPLETED_SUCCESSFULLY,2.000000,0.000000,2.000000,"
            '1.000000,1.000000,100000.000000,0-1 3,-1.000000,""',
        ),
        (
            {"submit_s": 0.0, "start_s": 0.0000004, "end_s": 0.9999996},
            "1,w0,p,0.000000,2,10.000000,1,COMPLETED_SUCCESSFULLY,0.000000,1.000000,1.000000,"
            '0.000000,1.000000,1.000000,0-1 3,-1.000000,""',
        ),
    ],
)
def test_a_row_of_jobs(changes: dict[str, Any], line: str) -> None:
    """A row has all columns, and those of a job that never ran are empty."""
    text = texts(outcome_of_jobs(job(**changes)))["jobs"]
    assert text.splitlines()[1:] == [line]
    assert len(next(iter(csv.reader([line])))) == 17


def test_ways_to_end_are_counted() -> None:
    """Jobs that ran without success count as killed, and rejected ones have not finished."""
    never = {"state": "REJECTED", "start_s": None, "end_s": None, "hosts": ()}
    jobs = [
        job(),
        job(state="COMPLETED_FAILED"),
        job(state="COMPLETED_KILLED"),
        job(state="COMPLETED_WALLTIME_REACHED"),
        job(**never),
    ]
    (row,) = rows(texts(outcome_of_jobs(*jobs))["schedule"])
    counted = {name: row[name] for name in row if name.startswith(("nb_jobs", "success"))}
    assert counted == {
        "nb_jobs": "5",
        "nb_jobs_finished": "4",
        "nb_jobs_killed": "3",
        "nb_jobs_rejected": "1",
        "nb_jobs_success": "1",
        "success_rate": "0.200000",
    }


def test_means_are_over_all_jobs() -> None:
    """As in Batsim, means are divided by the number of all jobs, with those rejected."""
    never = {"state": "REJECTED", "start_s": None, "end_s": None, "hosts": ()}
    (row,) = rows(texts(outcome_of_jobs(job(), job(**never)))["schedule"])
    assert {name: row[name] for name in row if name.startswith("mean")} == {
        "mean_slowdown": "0.625000",
        "mean_turnaround_time": "2.500000",
        "mean_waiting_time": "0.500000",
    }


def test_no_jobs_are_no_error() -> None:
    """An empty run has headers, and a schedule of zeros."""
    files = texts(outcome_of_jobs())
    assert set(files) == {"jobs", "schedule", "machine_states"}
    assert len(files["jobs"].splitlines()) == len(files["machine_states"].splitlines()) == 1
    assert rows(files["schedule"])[0]["makespan"] == "0.000000"


def test_energy_before_the_first_submission_is_not_counted() -> None:
    """The schedule's energy is that from the first submission to the last end."""
    outcome = with_energy()
    outcome.energy_before_j = 500.0
    assert rows(texts(outcome)["schedule"])[0]["consumed_joules"] == "15000.000000"


def test_unavailable_hosts_are_in_no_column_but_their_time_is() -> None:
    """As in Batsim, unavailable hosts are in no column of the states."""
    outcome = outcome_of_jobs(job())
    outcome.states = [StateChange(1.0, [3], "unavailable"), StateChange(5.0, [3], "idle")]
    files = texts(outcome)
    assert files["machine_states"].splitlines()[1:] == ["1,0,0,0,3,0", "5,0,0,0,4,0"]
    (row,) = rows(files["schedule"])
    assert (row["time_unavailable"], row["time_idle"]) == ("4.000000", "1.000000")


def test_times_of_states_keep_their_microseconds() -> None:
    """Times of states have microseconds after months, unlike Batsim's six digits."""
    outcome = outcome_of_jobs()
    outcome.states = [
        StateChange(12345678.000001, [0], "computing"),
        StateChange(12345678.000002, [0], "idle"),
    ]
    times = [row["time"] for row in rows(texts(outcome)["machine_states"])]
    assert times == ["12345678.000001", "12345678.000002"]


# Runs of hpcosim


def files_of_run(simulation: Simulation) -> dict[str, str]:
    """Return the text of each file of a simulation."""
    return texts(outcome_of(simulation.record()))


def test_a_run_with_a_node_switched_off_and_on() -> None:
    """The files of a small run equal those computed by hand."""
    simulation, _ = off_and_on()
    files = files_of_run(simulation)
    assert files["machine_states"].splitlines()[1:] == [
        "0,0,0,0,1,1",
        "0,0,0,1,0,1",
        "10,1,0,0,0,1",
        "30,0,1,0,0,1",
        "50,0,0,0,1,1",
        "100,0,0,0,2,0",
    ]
    assert files["pstate_changes"].splitlines()[1:] == [
        "0,0-1,0",
        "0,1,-2",
        "10,1,1",
        "30,1,-1",
        "50,1,0",
    ]
    assert files["consumed_energy"].splitlines()[1:] == [
        "0.000000,0.000000,s,100.000000,NA",
        "0.000000,0.000000,p,100.000000,NA",
        "10.000000,1400.000000,p,55.000000,140.000000",
        "30.000000,3700.000000,p,55.000000,115.000000",
        "50.000000,7500.000000,p,100.000000,190.000000",
        "100.000000,15500.000000,e,100.000000,160.000000",
    ]
    assert files["jobs"].splitlines()[1:] == [
        "1,w0,,0.000000,1,100.000000,1,COMPLETED_SUCCESSFULLY,0.000000,100.000000,100.000000,"
        '0.000000,100.000000,1.000000,0,11000.000000,""'
    ]
    assert files["schedule"].splitlines()[1] == (
        f"hpcosim {version('hpcosim')},15500.000000,100.000000,1.000000,100.000000,0.000000,"
        "1.000000,100.000000,0.000000,2,2,1,1,0,0,1,2,,,1.000000,100.000000,0.000000,20.000000,"
        "10.000000,20.000000,0.000000"
    )


def test_hosts_are_cores() -> None:
    """A job has the free cores with the lowest numbers on its nodes, without other jobs."""
    platform = Platform((nodes_of(1, cores=2), nodes_of(2, cores=3)))
    simulation = Simulation(platform, jobs_of((0.0, 9.0, 1), (0.0, 5.0, 4), (1.0, 9.0, 2)))
    first: list[Decision] = [AllocateJob(1, [1], [1]), AllocateJob(2, [0, 1], [2, 2])]
    drive(simulation, (0.0, first), (6.0, [AllocateJob(3, [1], [2])]))
    finish(simulation)
    found = {
        row["job_id"]: row["allocated_resources"] for row in rows(files_of_run(simulation)["jobs"])
    }
    assert found == {"1": "2", "2": "0-1 3-4", "3": "3-4"}


def test_several_processors_are_filled_as_in_the_simulation() -> None:
    """Cores are numbered over the processors of a node, in order of use."""
    group = NodeGroup(1, (Processor(1, 1.0, 10.0), Processor(2, 1.0, 20.0)))
    simulation = simulate(Platform((group,)), jobs_of((0.0, 5.0, 2), (0.0, 5.0, 1)))
    found = [row["allocated_resources"] for row in rows(files_of_run(simulation)["jobs"])]
    assert found == ["0-1", "2"]


def test_a_job_that_waits_for_its_nodes_starts_when_they_are_on() -> None:
    """At one instant the node is on before the job computes on it."""
    simulation, _ = woken()
    found = files_of_run(simulation)["machine_states"].splitlines()
    assert found[-4:] == ["55,0,1,0,2,0", "60,0,0,0,3,0", "60,0,0,0,0,3", "70,0,0,0,3,0"]


def test_a_job_killed_before_its_nodes_were_on_never_ran() -> None:
    """A job killed before its nodes were on has no start time."""
    simulation, _ = killed_while_its_node_boots()
    killed = [
        row for row in rows(files_of_run(simulation)["jobs"]) if row["final_state"].endswith("ED")
    ]
    assert [(row["starting_time"], row["allocated_resources"]) for row in killed] == [("", "")]


def test_jobs_are_in_the_order_they_were_over() -> None:
    """Jobs are sorted by the order in which they ended or were rejected."""
    simulation = Simulation(
        cluster_of(2),
        jobs_of((0, 9, 1), (0, 5, 9), (0, 5, 1, 3), (1, 5, 1)),
        Rules(kill_at_walltime=True),
    )
    drive(simulation, (0.0, [AllocateJob(1, [0]), AllocateJob(3, [1])]), (2.0, [RejectJob(4)]))
    finish(simulation)
    found = [(row["job_id"], row["final_state"]) for row in rows(files_of_run(simulation)["jobs"])]
    assert found == [
        ("2", "REJECTED"),
        ("4", "REJECTED"),
        ("3", "COMPLETED_WALLTIME_REACHED"),
        ("1", "COMPLETED_SUCCESSFULLY"),
    ]


def test_jobs_that_are_not_over_are_left_out() -> None:
    """The files of an incomplete run have only the jobs that have ended."""
    simulation = Simulation(cluster_of(2), jobs_of((0, 9, 1), (0, 5, 1), (0, 5, 1)))
    drive(simulation, (0.0, [AllocateJob(1, [0]), AllocateJob(2, [1])]), (5.0, []))
    files = files_of_run(simulation)
    assert [row["job_id"] for row in rows(files["jobs"])] == ["2"]
    assert files["machine_states"].splitlines()[-1] == "5,0,0,0,1,1"


def test_a_run_may_begin_late() -> None:
    """Times are those of the run, and pstates start at 0, as evalys requires."""
    simulation = simulate(cluster_of(1), jobs_of((1000.0, 5.0, 1)))
    files = files_of_run(simulation)
    assert files["pstate_changes"].splitlines()[1] == "0,0,0"
    assert files["consumed_energy"].splitlines()[1:] == [
        "1000.000000,0.000000,s,50.000000,NA",
        "1005.000000,550.000000,e,50.000000,110.000000",
    ]
    assert rows(files["schedule"])[0]["makespan"] == "1005.000000"


def test_switches_of_no_time_are_all_told() -> None:
    """A node that is switched off and on in one instant passes all its states."""
    simulation = Simulation(
        Platform((nodes_of(1, AT_ONCE),)), jobs_of((0.0, 5.0, 1), (9.0, 5.0, 1))
    )
    drive(simulation, (0.0, [AllocateJob(1, [0])]), (6.0, [off(0)]), (9.0, [AllocateJob(2, [0])]))
    finish(simulation)
    found = files_of_run(simulation)["machine_states"].splitlines()[2:]
    assert found == [
        "5,0,0,0,1,0",
        "6,0,0,1,0,0",
        "6,1,0,0,0,0",
        "9,0,1,0,0,0",
        "9,0,0,0,1,0",
        "9,0,0,0,0,1",
        "14,0,0,0,1,0",
    ]


@MANY
@given(scenes(vary=True))
def test_the_files_tell_the_energy_of_the_run(scene: Scene) -> None:
    """The energy at the last change equals that of the metrics."""
    simulation = play(scene).simulation
    points = outcome_of(simulation.record()).energy or []
    assert [point.time_s for point in points] == sorted(point.time_s for point in points)
    assert all(before.energy_j <= after.energy_j + 1e-6 for before, after in pairwise(points))
    if points and points[-1].time_s == simulation.now_s:
        total_j = simulation.record().energy_j
        assert points[-1].energy_j == pytest.approx(total_j, rel=1e-9, abs=1e-6)


@MANY
@given(scenes(vary=True))
def test_the_energy_of_the_states_is_the_integral(scene: Scene) -> None:
    """Power in each state times its duration adds up to the energy."""
    group = NodeGroup(
        scene.platform.node_count,
        (Processor(1, 1.0, 100.0, 10.0, 0.5),),
        power_states=scene.platform.nodes[0].power_states or AT_ONCE,
    )
    scene = scene._replace(platform=Platform((group,)))
    simulation = play(scene).simulation
    outcome = outcome_of(simulation.record())
    power_w = {
        "idle": 50.0,
        "computing": 110.0,
        "sleeping": group.power_states.sleep_w,  # type: ignore[union-attr]
        "switching_on": group.power_states.switch_on_w,  # type: ignore[union-attr]
        "switching_off": group.power_states.switch_off_w,  # type: ignore[union-attr]
    }
    energy_j, before_s = 0.0, simulation.start_s
    counts: Mapping[str, int] = {"nb_idle": outcome.hosts}
    for row in rows(texts(outcome)["machine_states"]):
        now_s = float(row.pop("time"))
        energy_j += (now_s - before_s) * sum(
            count * power_w[name.removeprefix("nb_")] for name, count in counts.items()
        )
        before_s, counts = now_s, {name: int(count) for name, count in row.items()}
    points = outcome.energy or []
    if points:
        assert points[-1].energy_j == pytest.approx(energy_j, rel=1e-7, abs=1e-3)


@MANY
@given(scenes(vary=True))
def test_hosts_are_always_all_there_and_have_one_job(scene: Scene) -> None:
    """Every row counts every core once, and a core has at most one job."""
    outcome = outcome_of(play(scene).simulation.record())
    for row in rows(texts(outcome)["machine_states"]):
        assert sum(int(row[name]) for name in COUNTS) == outcome.hosts
    state: list[HostState] = ["idle"] * outcome.hosts
    for change in outcome.states:
        for host in change.hosts:
            assert change.state in FOLLOWS[state[host]]
            state[host] = change.state
    for done in outcome.jobs:
        assert len(set(done.hosts)) == len(done.hosts) == (done.res if done.hosts else 0)


FOLLOWS: Mapping[HostState, tuple[HostState, ...]] = {
    "idle": ("computing", "switching_off"),
    "computing": ("idle",),
    "switching_off": ("sleeping",),
    "sleeping": ("switching_on",),
    "switching_on": ("idle",),
    "unavailable": (),
}


@MANY
@given(scenes(vary=True))
def test_power_states_are_those_of_the_machines(scene: Scene) -> None:
    """The files of pstates and of machine states agree at any time."""
    outcome = outcome_of(play(scene).simulation.record())
    of_pstate: dict[int, HostState] = {0: "idle", 1: "sleeping", -1: "switching_on"}
    of_pstate[-2] = "switching_off"
    found = [
        (change.time_s, host, of_pstate[change.pstate])
        for change in (outcome.pstates or [])[1:]
        for host in change.hosts
    ]
    state: list[HostState] = ["idle"] * outcome.hosts
    seen = []
    for change in outcome.states:
        for host in change.hosts:
            if change.state != "computing" and state[host] != "computing":
                seen.append((change.time_s, host, change.state))
            state[host] = change.state
    assert Counter(found) == Counter(seen)


# Written


def test_files_are_written_with_a_prefix(tmp_path: Path) -> None:
    """The prefix is a folder and the start of the names; folders are created."""
    write_outputs(tmp_path / "a" / "run1", with_energy())
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(
        f"run1_{suffix}.csv" for suffix in SUFFIXES
    )
    write_outputs(tmp_path / "a" / "run2", with_energy())
    assert len(list((tmp_path / "a").iterdir())) == 10
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_all_files_are_written_or_none(tmp_path: Path, suffix: str) -> None:
    """If one file cannot be written, no file changes."""
    for other in SUFFIXES:
        (tmp_path / f"o_{other}.csv").write_text("before")
    (tmp_path / f"o_{suffix}.csv").unlink()
    (tmp_path / f"o_{suffix}.csv").mkdir()
    with pytest.raises(ResultsError, match=f"o_{suffix}.csv is a folder"):
        write_outputs(tmp_path / "o", with_energy())
    assert len(list(tmp_path.iterdir())) == 5
    for other in set(SUFFIXES) - {suffix}:
        assert (tmp_path / f"o_{other}.csv").read_text() == "before"


SCENARIO = """
name: small
seed: 3
platform:
  nodes:
    - count: 3
      processors: [{cores: 4, clock_ghz: 2.0, static_w: 100, dynamic_w: 5, idle_fraction: 0.3}]
      power_states:
        {sleep_w: 4, switch_on_s: 60, switch_on_w: 90, switch_off_s: 30, switch_off_w: 60}
workload:
  synthetic:
    {model: poisson, jobs: 60, mean_interarrival_s: 190, cores: [1, 12], run_s: [10, 900]}
scheduler: {name: easy, power: {name: timeout, timeout_s: 100}}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A scenario whose nodes are switched off and on."""
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


@pytest.mark.slow
def test_the_format_is_written_for_any_run_and_any_transport(
    scenario: Path, tmp_path: Path
) -> None:
    """`--format batsim` adds the five files, equal on every transport."""
    transports: tuple[Transport, ...] = ("inproc", "ipc", "tcp")
    found = []
    for transport in transports:
        out = tmp_path / transport
        run_scenario(scenario, transport=transport, out=out, formats=[BATSIM])
        found.append(read(out))
    _, plain = run_scenario(scenario, transport="inproc", out=tmp_path / "plain")
    assert found[0] == found[1] == found[2]
    assert set(found[0]) - set(read(plain)) == set(NAMES)
    same = set(read(plain)) - {"run.json"}  # which lists all files
    assert {name: found[0][name] for name in same} == {name: read(plain)[name] for name in same}
    assert b",-2\n" in found[0]["out_pstate_changes.csv"]
    (row,) = rows(found[0]["out_schedule.csv"].decode())
    assert int(row["nb_machine_switches"]) > 0


def test_compared_schedulers_have_the_format_each(scenario: Path, tmp_path: Path) -> None:
    """The folder of every compared scheduler has the files."""
    compare_schedulers(scenario, ["fcfs", "easy"], out=tmp_path / "out", formats=[BATSIM, BATSIM])
    for name in ("fcfs", "easy"):
        assert set(NAMES) <= set(read(tmp_path / "out" / name))


def test_the_command_has_the_option(scenario: Path, tmp_path: Path) -> None:
    """`hpcosim run --format batsim` writes the files."""
    words = ["run", str(scenario), "--transport", "inproc", "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(app, [*words, "--format", "batsim"]).exit_code == 0
    assert set(NAMES) <= set(read(tmp_path / "out"))


# evalys

READ = """
import json, sys, warnings
warnings.simplefilter("ignore")
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
from evalys.jobset import JobSet
from evalys.mstates import MachineStatesChanges
from evalys.pstates import PowerStatesChanges
from evalys.visu.legacy import plot_mstates

prefix, picture = sys.argv[1:]
jobs = JobSet.from_csv(prefix + "_jobs.csv")
load = jobs.utilisation
jobs.gantt()
plt.savefig(picture)
states = MachineStatesChanges(prefix + "_machine_states.csv")
plot_mstates(states.df, plt.subplots()[1])
pstates = PowerStatesChanges(prefix + "_pstate_changes.csv")
print(json.dumps({
    "jobs": len(jobs.df),
    "core_s": float(load.area.sum()),
    "mean": float(jobs.mean_utilisation()),
    "hosts": [min(jobs.res_bounds), max(jobs.res_bounds)],
    "queue": len(jobs.queue),
    "total": int(states.df.total.iloc[0]),
    "slept": bool((states.df.nb_sleeping > 0).any()),
    "pstates": sorted(set(int(p) for p in pstates.pseudo_jobs.pstate)),
}))
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)  # to install it takes a while, the first time
def test_evalys_reads_what_we_write(scenario: Path, tmp_path: Path, batsim_programs: Path) -> None:
    """The package evalys reads jobs, utilisation, machine states and pstates of the run."""
    out = tmp_path / "out"
    metrics, _ = run_scenario(scenario, transport="inproc", out=out, formats=[BATSIM])
    picture = tmp_path / "gantt.png"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(batsim_programs / "python"), "-c", READ, str(out / "out"), str(picture)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    (row,) = rows((out / "out_schedule.csv").read_text())
    assert found["jobs"] == 60
    assert found["core_s"] == pytest.approx(float(row["time_computing"]), rel=1e-6)
    assert found["core_s"] == pytest.approx(metrics["utilization"] * 12 * metrics["makespan_s"])
    assert found["hosts"] == [0, 11]
    assert found["total"] == 12
    assert found["slept"]
    assert found["pstates"] == [-2, -1, 0, 1]
    assert picture.stat().st_size > 1000
