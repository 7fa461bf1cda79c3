"""The output of commands, for people and for programs."""

from __future__ import annotations

import importlib.metadata
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from hpcosim.cli.main import app
from hpcosim_papers.studies.study import STUDIES
from hpcosim_scenarios.shipped import shipped_scenarios
from hpcosim_schedulers import GROUPS, scheduler_names
from support.commands import (
    FILES,
    PLATFORM,
    SCENARIO,
    SWF,
    command,
    invoke,
    write_scenario,
    written,
)
from support.paths import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["inproc", "ipc", "tcp"])
def test_run_prints_json_and_nothing_else(transport: str) -> None:
    """With --json, standard output is the content of metrics.json, and standard error is empty."""
    done = command("run", "tiny.yaml", "--transport", transport, "--out", "out", "--json")
    assert (done.status, done.err) == (0, "")
    assert done.out == Path("out/metrics.json").read_text()
    assert json.loads(done.out)["jobs_completed"] == 20
    assert written("out") == FILES
    assert written() == ["out", "tiny.yaml"]


def test_run_prints_a_table_and_where_the_results_are() -> None:
    """Without --json, the table has a row per metric, and the last line is the results folder."""
    done = invoke("run", "tiny.yaml", "--transport", "inproc")
    assert (done.status, done.err) == (0, "")
    assert "results: results/tiny-easy" in done.out
    for name in json.loads(Path("results/tiny-easy/metrics.json").read_text()):
        assert f" {name} " in done.out
    assert written("results/tiny-easy") == FILES


def test_run_takes_scheduler_seed_and_values_from_the_command() -> None:
    """Options replace the values of the scenario."""
    options = ("--scheduler", "sjf", "--seed", "6", "--set", "workload.load=2.5")
    done = invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out", *options)
    assert done.status == 0
    about = json.loads(Path("out/run.json").read_text())
    assert (about["scheduler"], about["seed"]) == ("sjf", 6)
    last = Path("out/jobs.csv").read_text().splitlines()[-1].split(",")
    assert float(last[1]) < 20 * 60 / 1.5


@pytest.mark.parametrize("transport", ["inproc", pytest.param("ipc", marks=pytest.mark.slow)])
def test_compare_prints_metrics_by_scheduler(transport: str) -> None:
    """With --json, the output is an object with the metrics of `run` by scheduler."""
    words = ["compare", "tiny.yaml", "--schedulers", "fcfs, easy", "--json", "--out", "both"]
    done = invoke(*words, "--transport", transport)
    assert (done.status, done.err) == (0, "")
    metrics = json.loads(done.out)
    assert list(metrics) == ["fcfs", "easy"]
    for name in metrics:
        one = invoke(
            "run",
            "tiny.yaml",
            "--scheduler",
            name,
            "--transport",
            "inproc",
            "--out",
            "o",
            "--force",
            "--json",
        )
        assert json.loads(one.out) == metrics[name]
        assert written(f"both/{name}") == FILES


def test_compare_prints_a_column_for_each() -> None:
    """The table has a column per scheduler, in the order given, and nothing is written."""
    done = invoke("compare", "tiny.yaml", "--schedulers", "sjf,ljf,fcfs")
    assert done.status == 0
    head = next(line for line in done.out.splitlines() if "metric" in line)
    assert [word for word in head.split() if word.isalpha()] == [
        "metric",
        "unit",
        "sjf",
        "ljf",
        "fcfs",
    ]
    assert written() == ["tiny.yaml"]


def test_validate_prints_a_summary() -> None:
    """The summary has the numbers of nodes, cores and jobs, and nothing is written."""
    done = invoke("validate", "tiny.yaml")
    assert (done.status, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines()]
    for row in (["nodes", "4"], ["cores", "8"], ["jobs", "20"], ["scheduler", "easy"]):
        assert row in rows
    assert written() == ["tiny.yaml"]


def test_validate_prints_json_with_units_in_names() -> None:
    """With --json, the summary is an object, with empty mappings where no rule applied."""
    summary = json.loads(invoke("validate", "tiny.yaml", "--seed", "6", "--json").out)
    assert summary["seed"] == 6
    assert summary["workload"] == "synthetic poisson"
    assert 0 < summary["offered_load"] < 2
    assert summary["submission_span_s"] > 0
    assert (summary["jobs_read"], summary["dropped_jobs"], summary["changed_jobs"]) == (20, {}, {})


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"economics.price_per_kwh": 0.25}, ["electricity price 0.25 EUR/kWh"]),
        (
            {"economics.tariff": "t.csv", "economics.tariff_repeat_s": 86400},
            ["electricity price t.csv, EUR/kWh, repeated every 86,400 s"],
        ),
        ({"economics.co2_g_per_kwh": 380}, ["carbon intensity 380 g/kWh"]),
        (
            {"economics.series": "c.csv", "economics.start": "2024-03-01T08:00"},
            ["carbon intensity c.csv, g/kWh", "date of time 0 2024-03-01T08:00"],
        ),
    ],
)
def test_validate_lists_price_and_carbon_intensity(
    changes: dict[str, object], lines: list[str]
) -> None:
    """The summary states the rates of `economics` with units, and the JSON has its given keys."""
    Path("t.csv").write_text("time_s,price_per_kwh\n0,0.2\n43200,0.3\n")
    dated = "2024-03-01T00:00,300\n2024-03-20T00:00,200\n"
    Path("c.csv").write_text(f"time,co2_g_per_kwh\n{dated}")
    options = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    out = invoke("validate", "tiny.yaml", *options).out
    shown = [" ".join(line.split()) for line in out.splitlines()]
    assert [line for line in shown if line.startswith(("electricity", "carbon", "date"))] == lines
    economics = json.loads(invoke("validate", "tiny.yaml", *options, "--json").out)["economics"]
    given = {key.removeprefix("economics."): value for key, value in changes.items()}
    assert economics == {"currency": "EUR", **given}


def test_validate_counts_dropped_and_changed_jobs_by_rule() -> None:
    """A corrupt line is dropped, and a job with capped cores is changed."""
    Path("corrupt.swf").write_text(SWF)
    write_scenario(
        f"name: x\n{PLATFORM}\nworkload: {{swf: corrupt.swf, lenient: true, max_cores: 1}}\n"
    )
    summary = json.loads(invoke("validate", "bad.yaml", "--json").out)
    assert summary["workload"] == "swf corrupt.swf"
    assert (summary["jobs_read"], summary["jobs"]) == (2, 2)
    assert summary["dropped_jobs"] == {"corrupt_lines": 1}
    assert summary["changed_jobs"] == {"cores_capped": 2}


def test_validate_warns_of_jobs_that_are_larger_than_the_platform() -> None:
    """The warning has their number and the first of them; the scenario is valid."""
    write_scenario(SCENARIO.replace("cores: [1, 8]", "cores: [9, 12]"))
    done = invoke("validate", "bad.yaml")
    assert done.status == 0
    assert "warning: 20 of 20 jobs can never run on the platform" in done.err
    assert "rejected: 1, 2, 3, 4, 5, ..." in done.err


@pytest.mark.parametrize("kill", ["true", "false"])
def test_validate_counts_jobs_that_run_longer_than_requested(kill: str) -> None:
    """The line says what the setting does to them."""
    jobs = "[{job_id: 1, submit_s: 0, cores: 1, run_s: 9, requested_s: 5}]"
    write_scenario(f"name: x\n{PLATFORM}\nkill_at_walltime: {kill}\nworkload: {{inline: {jobs}}}\n")
    out = invoke("validate", "bad.yaml").out
    line = next(line for line in out.splitlines() if "over the requested time" in line)
    assert " 1; " in line
    assert {"true": "true ends them", "false": "false lets them"}[kill] in line


def test_validate_counts_jobs_that_need_more_than_requested_on_slower_nodes() -> None:
    """A requested time is wall time on every node; a run time is longer on a slower one."""
    jobs = "[{job_id: 1, submit_s: 0, cores: 1, run_s: 100, requested_s: 100}]"
    nodes = [
        f"{{count: 1, processors: [{{cores: 1, clock_ghz: {clock}, static_w: 1, dynamic_w: 1}}]}}"
        for clock in (2.0, 2.5)
    ]
    write_scenario(
        f"name: x\nplatform: {{nodes: [{', '.join(nodes)}]}}\n"
        f"workload: {{reference_clock_ghz: 2.5, inline: {jobs}}}\n"
    )
    summary = json.loads(invoke("validate", "bad.yaml", "--json").out)
    assert summary["jobs_over_requested_time"] == 1
    assert summary["jobs_over_on_fastest_nodes"] == 0
    assert "1 on the slowest nodes, 0 on the fastest" in invoke("validate", "bad.yaml").out


def test_killed_jobs_are_seen() -> None:
    """A run says how many jobs were killed, warns if they are many, and compare has a row."""
    jobs = "[{job_id: 1, submit_s: 0, cores: 1, run_s: 9, requested_s: 5}]"
    write_scenario(f"name: x\n{PLATFORM}\nkill_at_walltime: true\nworkload: {{inline: {jobs}}}\n")
    done = invoke("run", "bad.yaml", "--transport", "inproc")
    assert "0 of 1 jobs completed; 1 killed at their requested time." in done.out
    assert "warning: 1 of 1 jobs were killed at their requested time" in done.err
    compared = invoke("compare", "bad.yaml", "--schedulers", "fcfs,easy", "--transport", "inproc")
    assert "jobs_timed_out" in compared.out


def test_jobs_beyond_their_requests_are_seen() -> None:
    """Without kill_at_walltime a run says how many jobs ran longer than requested."""
    jobs = "[{job_id: 1, submit_s: 0, cores: 1, run_s: 9, requested_s: 5}]"
    write_scenario(f"name: x\n{PLATFORM}\nworkload: {{inline: {jobs}}}\n")
    done = invoke("run", "bad.yaml", "--transport", "inproc")
    assert "1 of 1 jobs ran longer than requested." in done.out


def test_no_job_of_the_demo_needs_more_than_it_requests() -> None:
    """The first scenario that a user sees has no jobs beyond their requests on any node."""
    summary = json.loads(invoke("validate", "demo", "--json").out)
    assert summary["jobs_over_requested_time"] == 0


@pytest.mark.parametrize("words", ["run --transport inproc", "validate"])
def test_many_dropped_jobs_are_a_warning(words: str) -> None:
    """The warning has the number, the rule and the setting that keeps the jobs."""
    Path("zero.swf").write_text(SWF.replace("60 what", "0 2"))
    write_scenario(f"name: x\n{PLATFORM}\nworkload: {{swf: zero.swf}}\n")
    done = invoke(*words.split(), "bad.yaml")
    assert done.status == 0
    assert "warning: 1 of 3 jobs of the log were dropped: 1 by rule run_time_unkno" in done.err
    assert "set workload.zero_run_time to keep" in done.err


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.yaml")), ids=lambda p: p.name)
def test_shipped_scenarios_are_valid(path: Path) -> None:
    """A shipped scenario is valid, unless its job log is not on this machine."""
    done = invoke("validate", path)
    assert done.status == 0 or "this machine has no" in done.error


def test_scenarios_lists_the_shipped_scenarios() -> None:
    """The table and the JSON object have a name and a description per scenario."""
    contents = json.loads(invoke("scenarios", "--json").out)
    assert list(contents) == list(shipped_scenarios())
    assert contents["demo"].startswith("600 synthetic jobs")
    everyday, everything = invoke("scenarios").out, invoke("scenarios", "--all").out
    assert "deep_eas/lambda_0.9" not in everyday
    assert "hpcosim scenarios --all" in everyday
    assert everything.index("office-hours") < everything.index("deep_eas/lambda_0.9")
    assert everything.index(" demo ") < everything.index(" conformance ")


def test_scenarios_prints_a_scenario_that_runs(tmp_path: Path) -> None:
    """The printed YAML of a shipped scenario is a scenario file."""
    (tmp_path / "copy.yaml").write_text(invoke("scenarios", "demo").out)
    assert "32" in invoke("validate", "copy.yaml").out


def test_scenarios_says_how_to_copy_the_files_that_a_scenario_reads(tmp_path: Path) -> None:
    """On standard error; after the command the printed scenario is valid."""
    done = invoke("scenarios", "office-hours")
    (tmp_path / "copy.yaml").write_text(done.out)
    note, copying = done.err.rsplit(": ", 1)
    assert note == "note: the scenario reads more files; copy them, too"
    subprocess.run(shlex.split(copying), check=True)
    assert invoke("validate", "copy.yaml").status == 0


def test_schedulers_lists_patterns_and_power_managers() -> None:
    """A line for each scheduler, rule, group and manager, with its settings."""
    lines = invoke("schedulers", "--all").out.splitlines()
    assert (
        "  easy                     EASY backfilling: a reservation for the head of the queue"
        in lines
    )
    names = {line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "}
    assert {"fcfs", "JOB-NODE", "PATH.py:FUNCTION", "low-mem", "all-heuristics", "slurm"} <= names
    assert not names & {"low-mem-high-cores"}
    assert "settings: warm, timeout_s=0.0" in {line.strip() for line in lines}


def test_schedulers_lists_those_of_papers_on_request_only() -> None:
    """A cluster of one's own needs few of them; the last line says how to see the others."""
    short, whole = invoke("schedulers").out, invoke("schedulers", "--all").out
    assert "conservative" in short
    assert "keep-idle" in short
    assert "JOB-NODE" not in short
    assert "hpcosim schedulers --all" in short.splitlines()[-1]
    for everyday, special in (("slurm", "snf"), ("carbon-aware", "minmin"), ("easy", "easy-ORDER")):
        assert whole.index(f"\n  {everyday} ") < whole.index(f"\n  {special} ")


def test_schedulers_as_json_has_all_names() -> None:
    """With the members of the groups, for programs."""
    listed = json.loads(invoke("schedulers", "--json").out)
    assert listed["names"] == scheduler_names()
    assert listed["groups"]["minmin-family"]["members"] == list(GROUPS["minmin-family"])
    assert listed["power_managers"]["timeout"]["settings"] == {
        "timeout_s": "required",
        "wait_price_w": None,
    }


def test_version_is_that_of_the_distribution() -> None:
    """`--version` prints the version of the distribution and exits."""
    assert invoke("--version").out == f"hpcosim {importlib.metadata.version('hpcosim')}\n"


def test_reproduce_lists_studies() -> None:
    """Without a study, it prints a line per study; an unknown name gets the nearest one."""
    done = invoke("reproduce")
    assert (done.status, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines()] == list(STUDIES)
    done = invoke("reproduce", "node-centrik")
    assert done.status == 2
    assert "unknown study 'node-centrik'; did you mean node-centric?" in done.error


@pytest.mark.parametrize("words", ["run tiny.yaml", "compare tiny.yaml --schedulers fcfs"])
def test_an_unknown_format_is_bad_input(words: str) -> None:
    """The error lists the known formats, and nothing runs."""
    done = invoke(*words.split(), "--format", "pajé")
    assert (done.status, done.error) == (2, "--format: expected one of batsim, got 'pajé'")
    assert written() == ["tiny.yaml"]


@pytest.mark.parametrize("name", get_command(app).commands)  # type: ignore[attr-defined]
def test_every_subcommand_has_help(name: str) -> None:
    """--help of each command prints its usage and exits with status 0."""
    done = invoke(name, "--help")
    assert (done.status, done.err) == (0, "")
    assert f" {name} [OPTIONS]" in done.out


@pytest.mark.slow
def test_a_closed_standard_error_loses_no_result() -> None:
    """A run whose caller closed standard error writes its results."""
    line = f"{sys.executable} -m hpcosim.cli run tiny.yaml --out out 2>&-"
    done = subprocess.run(line, shell=True, stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == 0
    assert Path("out/run.json").exists()


def test_closed_standard_streams_are_no_traceback() -> None:
    """A watched run without standard streams starts at once, as without a terminal."""
    live = f"{sys.executable} -m hpcosim.cli run tiny.yaml --watch --speed max --out out"
    done = subprocess.run(f"{live} <&- >&- 2>err", shell=True, timeout=60, check=False)
    assert (done.returncode, "Traceback" in Path("err").read_text()) == (0, False)
    table = f"{sys.executable} -m hpcosim.cli schedulers >&- 2>err"
    assert subprocess.run(table, shell=True, timeout=60, check=False).returncode == 0


def test_draw_into_a_folder_is_wrong_usage(tmp_path: Path) -> None:
    """The path of the images is not a folder."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    done = invoke("show", "draw", "out", "--out", str(tmp_path))
    assert done.status == 2
    assert "is a folder; expected the path of a file" in done.error
