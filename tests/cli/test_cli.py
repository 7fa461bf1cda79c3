"""The command as people and scripts use it: its output, its exit codes, its errors."""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

from hpcosim_cli.main import app
from hpcosim_client import GROUPS, scheduler_names
from hpcosim_scenarios.model.overrides import as_options, parse
from hpcosim_studies.catalogue import STUDIES
from support.paths import ROOT
from support.processes import SOON_S, Processes, Server

HPCOSIM = (sys.executable, "-m", "hpcosim_cli")
FILES = ["jobs.csv", "metrics.json", "nodes.csv", "run.json", "schedule.csv"]
PLATFORM = "platform: {nodes: [{count: 4, processors: [{cores: 2, static_w: 10, dynamic_w: 0}]}]}"
SCENARIO = f"""name: tiny
seed: 5
{PLATFORM}
workload:
  synthetic:
    {{model: poisson, jobs: 20, mean_interarrival_s: 120, cores: [1, 8], run_s: [10, 900]}}
scheduler: {{name: easy}}
"""
SWF = """; MaxProcs: 8
1 0 -1 60 2 -1 -1 2 60 -1 1 1 1 1 1 1 -1 -1
2 10 -1 60 what -1 -1 2 60 -1 1 1 1 1 1 1 -1 -1
3 20 -1 60 2 -1 -1 2 60 -1 1 1 1 1 1 1 -1 -1
"""


class Outcome:
    """What a command left: exit status, standard output and error."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def error(self) -> str:
        """The one line on standard error; there is no other, and nothing on standard output."""
        assert self.out == ""
        assert self.err.startswith("error: "), self.err
        assert self.err.endswith("\n")
        assert len(self.err.splitlines()) == 1, self.err
        return self.err.removeprefix("error: ").strip()


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written but below `tmp_path`; `tiny.yaml` is there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(SCENARIO)


def invoke(*arguments: str | Path) -> Outcome:
    """Run the command in this process."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


def command(*arguments: str | Path, **options: Any) -> Outcome:
    """Run the real command."""
    process = subprocess.run(
        [*HPCOSIM, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=SOON_S,
        check=False,
        **options,
    )
    return Outcome(process.returncode, process.stdout, process.stderr)


def written(folder: str = ".") -> list[str]:
    """Return what is in a folder."""
    return sorted(path.name for path in Path(folder).iterdir())


# What it prints


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["inproc", "ipc", "tcp"])
def test_run_prints_json_and_nothing_else(transport: str) -> None:
    """With --json standard output is metrics.json to the byte, and standard error is empty."""
    done = command("run", "tiny.yaml", "--transport", transport, "--out", "out", "--json")
    assert (done.status, done.err) == (0, "")
    assert done.out == Path("out/metrics.json").read_text()
    assert json.loads(done.out)["jobs_completed"] == 20
    assert written("out") == FILES
    assert written() == ["out", "tiny.yaml"]


def test_run_prints_a_table_and_where_the_results_are() -> None:
    """Without --json there is a line for each metric, and the results folder."""
    done = invoke("run", "tiny.yaml", "--transport", "inproc")
    assert (done.status, done.err) == (0, "")
    assert "results: results/tiny-easy" in done.out
    for name in json.loads(Path("results/tiny-easy/metrics.json").read_text()):
        assert f" {name} " in done.out
    assert written("results/tiny-easy") == FILES


def test_run_takes_scheduler_seed_and_values_from_the_command() -> None:
    """Options go before what the scenario says."""
    options = ("--scheduler", "sjf", "--seed", "6", "--set", "workload.load=2.5")
    done = invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out", *options)
    assert done.status == 0
    about = json.loads(Path("out/run.json").read_text())
    assert (about["scheduler"], about["seed"]) == ("sjf", 6)
    last = Path("out/jobs.csv").read_text().splitlines()[-1].split(",")
    assert float(last[1]) < 20 * 60 / 1.5


@pytest.mark.parametrize("transport", ["inproc", pytest.param("ipc", marks=pytest.mark.slow)])
def test_compare_prints_metrics_by_scheduler(transport: str) -> None:
    """With --json it is an object of the metrics of each, those that `run` gives."""
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


def test_validate_says_what_is_in_a_scenario() -> None:
    """Nodes, cores and jobs are counted, and nothing is written."""
    done = invoke("validate", "tiny.yaml")
    assert (done.status, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines()]
    for row in (["nodes", "4"], ["cores", "8"], ["jobs", "20"], ["scheduler", "easy"]):
        assert row in rows
    assert written() == ["tiny.yaml"]


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.yaml")), ids=lambda p: p.name)
def test_every_scenario_in_the_house_is_strictly_valid(path: Path) -> None:
    """Each scenario that is shipped can be read; a log this machine has not is no fault of it."""
    done = invoke("validate", path)
    assert done.status == 0 or "this machine has no" in done.error


def test_schedulers_lists_patterns_and_power_managers() -> None:
    """A line for each scheduler, rule, group and manager, with its settings."""
    lines = invoke("schedulers").out.splitlines()
    assert (
        "  easy                     EASY backfilling: a reservation for the head of the queue"
        in lines
    )
    names = {line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "}
    assert {"fcfs", "JOB-NODE", "PATH.py:FUNCTION", "low-mem", "all-heuristics", "slurm"} <= names
    assert not names & {"low-mem-high-cores"}
    assert "settings: warm, timeout_s=0.0" in {line.strip() for line in lines}


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
    """It is printed, and nothing else is done."""
    assert invoke("--version").out == f"hpcosim {importlib.metadata.version('hpcosim')}\n"


def test_reproduce_lists_studies_and_knows_no_other() -> None:
    """Without a study it lists them; a wrong name is bad input with the nearest one."""
    done = invoke("reproduce")
    assert (done.status, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines()] == list(STUDIES)
    done = invoke("reproduce", "node-centrik")
    assert done.status == 2
    assert "unknown study 'node-centrik'; did you mean node-centric?" in done.error


@pytest.mark.parametrize("words", ["run tiny.yaml", "compare tiny.yaml --schedulers fcfs"])
def test_a_format_that_is_not_known_is_bad_input(words: str) -> None:
    """The error lists those that are; nothing runs."""
    done = invoke(*words.split(), "--format", "pajé")
    assert (done.status, done.error) == (2, "--format: expected one of batsim, got 'pajé'")
    assert written() == ["tiny.yaml"]


@pytest.mark.parametrize("name", get_command(app).commands)  # type: ignore[attr-defined]
def test_every_subcommand_has_help(name: str) -> None:
    """--help of each describes its use and exits 0."""
    done = invoke(name, "--help")
    assert (done.status, done.err) == (0, "")
    assert f" {name} [OPTIONS]" in done.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["run"],
        ["run", "tiny.yaml", "--nonsense"],
        ["run", "tiny.yaml", "--transport", "pigeon"],
        ["run", "tiny.yaml", "--seed", "-1"],
        ["run", "tiny.yaml", "--seed", "x"],
        ["compare", "tiny.yaml"],
        ["serve"],
        ["serve", "tiny.yaml", "--idle-timeout-s", "0"],
        ["serve", "tiny.yaml", "--max-decisions", "0"],
        ["schedule"],
    ],
    ids=" ".join,
)
def test_a_wrong_use_of_the_command_is_bad_input(arguments: list[str]) -> None:
    """What the command line itself does not allow exits 2, says why, and writes nothing."""
    done = invoke(*arguments)
    assert done.status == 2
    assert done.error
    assert written() == ["tiny.yaml"]


# Bad scenarios


def scenario(text: str) -> None:
    """Write `bad.yaml`."""
    Path("bad.yaml").write_text(text)


WORKLOAD = "workload: {synthetic: {model: lublin, jobs: 5, processors: 8}}"
BAD = {
    "no file": (None, ["bad.yaml: no such file"]),
    "an empty file": ("", ["bad.yaml:", "a mapping"]),
    "a sentence": ("good morning\n", ["bad.yaml:1", "a mapping"]),
    "not yaml": ("name: [x\nseed: 1\n", ["bad.yaml:2: is not YAML"]),
    "a tab": ("name: x\n\tseed: 1\n", ["bad.yaml:2: is not YAML"]),
    "a python object": ("name: !!python/object/apply:os.getcwd []\n", ["bad.yaml:1: is not YAML"]),
    "two documents": (f"name: a\n{PLATFORM}\n---\nname: b\n", ["bad.yaml:", "is not YAML"]),
    "a null byte": ("name: x\x00\n", ["bad.yaml", "is not YAML"]),
    "no name": (f"{PLATFORM}\n{WORKLOAD}\n", ["bad.yaml:1", "`name`"]),
    "a name that is a path": (
        f"name: ../x\n{PLATFORM}\n{WORKLOAD}\n",
        ["bad.yaml:1: name: expected a name of 1 to 100"],
    ),
    "no platform": (f"name: x\n{WORKLOAD}\n", ["bad.yaml:1", "`platform`"]),
    "no workload": (f"name: x\n{PLATFORM}\n", ["bad.yaml:1", "`workload`"]),
    "an unknown key below": (
        "name: x\nplatform:\n  nodes:\n    - count: 1\n      processors:\n"
        f"        - {{cores: 1, clok_ghz: 2}}\n{WORKLOAD}\n",
        [
            "bad.yaml:6: platform.nodes[0].processors[0]: unknown key 'clok_ghz'",
            "did you mean 'clock_ghz'?",
        ],
    ),
    "negative cores": (
        f"name: x\n{PLATFORM.replace('cores: 2', 'cores: -2')}\n{WORKLOAD}\n",
        ["bad.yaml:2: platform.nodes[0].processors[0].cores: expected an integer >= 1"],
    ),
    "half a core": (
        f"name: x\n{PLATFORM.replace('cores: 2', 'cores: 0.5')}\n{WORKLOAD}\n",
        ["bad.yaml:2: platform.nodes[0].processors[0].cores: "],
    ),
    "cores in words": (
        f"name: x\n{PLATFORM.replace('cores: 2', 'cores: two')}\n{WORKLOAD}\n",
        ["bad.yaml:2: platform.nodes[0].processors[0].cores: ", "an integer"],
    ),
    "no nodes": (
        f"name: x\nplatform: {{nodes: []}}\n{WORKLOAD}\n",
        ["bad.yaml:2: platform.nodes: ", ">= 1"],
    ),
    "negative power": (
        f"name: x\n{PLATFORM.replace('10', '-10')}\n{WORKLOAD}\n",
        ["bad.yaml:2: platform.nodes[0].processors[0].static_w: expected a number >= 0"],
    ),
    "power that is no number": (
        f"name: x\n{PLATFORM.replace('10', '.nan')}\n{WORKLOAD}\n",
        ["bad.yaml:2: platform.nodes[0].processors[0].static_w: "],
    ),
    "two sources": (
        f"name: x\n{PLATFORM}\nworkload:\n  swf: a.swf\n  json: a.jsonl\n",
        ["bad.yaml:4: workload: ", "trace, synthetic, inline), got swf and json"],
    ),
    "no source": (
        f"name: x\n{PLATFORM}\nworkload: {{load: 1.5}}\n",
        ["bad.yaml:3: workload: ", "trace, synthetic, inline), got none"],
    ),
    "an unknown model": (
        f"name: x\n{PLATFORM}\nworkload: {{synthetic: {{model: magic}}}}\n",
        ["bad.yaml:3: workload.synthetic.model: expected one of bernoulli, lublin", "got 'magic'"],
    ),
    "a window that goes backwards": (
        f"name: x\n{PLATFORM}\nworkload: {{swf: a.swf, jobs: [9, 3]}}\n",
        ["bad.yaml:3: workload: ", "jobs: expected [first, last] with first < last"],
    ),
    "an empty workload": (
        f"name: x\n{PLATFORM}\nworkload: {{json: empty.jsonl}}\n",
        ["bad.yaml: workload: expected at least one job"],
    ),
    "a missing workload": (
        f"name: x\n{PLATFORM}\nworkload: {{swf: gone.swf}}\n",
        ["gone.swf: "],
    ),
    "a workload that is a folder": (
        f"name: x\n{PLATFORM}\nworkload: {{json: .}}\n",
        ["Is a directory"],
    ),
    "a trace nobody knows": (
        f"name: x\n{PLATFORM}\nworkload: {{trace: nasa-ipcs}}\n",
        ["'nasa-ipcs'", "did you mean nasa-ipsc"],
    ),
    "an unknown scheduler": (
        f"name: x\n{PLATFORM}\n{WORKLOAD}\nscheduler: {{name: easi}}\n",
        ["there is no scheduler 'easi'; did you mean easy"],
    ),
    "a corrupt line": (
        f"name: x\n{PLATFORM}\nworkload: {{swf: corrupt.swf}}\n",
        ["corrupt.swf:3: "],
    ),
    "more cores than a number can hold": (
        f"name: x\n{PLATFORM.replace('cores: 2', 'cores: 100000000000000000000')}\n{WORKLOAD}\n",
        ["bad.yaml"],
    ),
    "an impossible date": (f"name: x\nseed: 2020-13-45\n{PLATFORM}\n{WORKLOAD}\n", ["bad.yaml"]),
    "nested too deep": ("[" * 5000, ["bad.yaml"]),
    "a null in a path": (f'name: x\n{PLATFORM}\nworkload: {{swf: "a\\0b"}}\n', ["null"]),
    "a file that is too large": (
        "#" * (2**20 + 1),
        ["bad.yaml: expected a scenario of at most 1048576 bytes"],
    ),
}


# Of errors in the file, in its scheduler and in its jobs one each: who finds them differs.
SOME = ("no file", "an unknown key below", "an unknown scheduler", "a corrupt line")
OTHERS = ("run", "run --transport inproc", "compare")


@pytest.mark.parametrize(
    ("words", "which"),
    [
        *(("validate", which) for which in BAD),
        *(
            pytest.param(words, which, marks=pytest.mark.slow if words == "run" else ())
            for words in OTHERS
            for which in SOME
        ),
    ],
)
def test_a_bad_scenario_is_an_error_in_one_line(words: str, which: str) -> None:
    """File, line, field and advice are in the one line; exit 2; nothing is written."""
    text, parts = BAD[which]
    Path("corrupt.swf").write_text(SWF)
    Path("empty.jsonl").write_text("\n")
    if text is not None:
        scenario(text)
    before = written()
    options = ["--schedulers", "easi" if "easi" in (text or "") else "fcfs"]
    options = options if words == "compare" else []
    done = invoke(*words.split(), "bad.yaml", *options)
    assert done.status == 2, done.err
    for part in parts:
        assert part in done.error
    assert written() == before


@pytest.mark.parametrize(
    "change",
    [
        "workload.load",
        "=1",
        "workload.load=[1]",
        "workload.load={a: 1}",
        "workload.load='x",
        "workload.load=much",
        "workload.lod=1",
        "seed.x=1",
        "nodes.0=1",
        "platform.nodes.7.count=1",
        "platform.nodes.\u00b2.count=1",
        f"platform.nodes.{'9' * 5000}.count=1",
        "seed=2020-13-45",
    ],
    ids=lambda change: change[:24],
)
def test_a_bad_change_is_an_error_in_one_line(change: str) -> None:
    """A --set that is none, or of no field there is, exits 2."""
    done = invoke("run", "tiny.yaml", "--transport", "inproc", "--set", change)
    assert done.status == 2
    assert done.error
    assert written() == ["tiny.yaml"]


@given(
    value=st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="ascii", exclude_categories=["Cc"]))
)
def test_changes_survive_the_way_to_the_server_process(value: Any) -> None:
    """The options made of changes are read as the same changes, to the type and the last bit."""
    (option,) = as_options({"workload.load": value})
    back = parse([option.removeprefix("--set=")])["workload.load"]
    assert (type(back), back) == (type(value), value)


def test_an_unknown_scheduler_is_bad_input_with_advice() -> None:
    """The nearest names are given, for run, compare and schedule."""
    for words in (
        ["run", "tiny.yaml", "--scheduler", "conservativ"],
        ["compare", "tiny.yaml", "--schedulers", "fcfs,conservativ"],
        ["schedule", "conservativ"],
    ):
        done = invoke(*words)
        assert done.status == 2
        assert "there is no scheduler 'conservativ'; did you mean conservative" in done.error
    assert written() == ["tiny.yaml"]


@pytest.mark.parametrize("names", ["", ",", " , "])
def test_compare_without_schedulers_is_bad_input(names: str) -> None:
    """A list of no names exits 2."""
    done = invoke("compare", "tiny.yaml", "--schedulers", names)
    assert (done.status, done.error) == (
        2,
        "no scheduler is named; expected names separated by commas",
    )


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["inproc", "ipc"])
def test_a_corrupt_line_is_left_out_and_counted_if_lenient(transport: str) -> None:
    """With --lenient the rest is run, and the results say how many lines were left out."""
    Path("corrupt.swf").write_text(SWF)
    scenario(f"name: x\n{PLATFORM}\nworkload: {{swf: corrupt.swf}}\n")
    done = command(
        "run", "bad.yaml", "--lenient", "--out", "out", "--transport", transport, "--json"
    )
    assert done.status == 0
    metrics = json.loads(done.out)
    assert (metrics["jobs_completed"], metrics["jobs_skipped"]) == (2, 1)
    assert json.loads(Path("out/run.json").read_text())["skipped"] == {"corrupt_lines": 1}
    assert "corrupt_lines" in invoke("validate", "bad.yaml", "--lenient").out


@pytest.mark.parametrize("transport", ["inproc", pytest.param("ipc", marks=pytest.mark.slow)])
def test_jobs_larger_than_the_platform_are_rejected_and_counted(transport: str) -> None:
    """A job that never fits is counted as rejected, and the others run."""
    jobs = [{"job_id": i, "submit_s": i, "cores": 7 + i, "run_s": 5} for i in range(3)]
    Path("jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
    scenario(f"name: x\n{PLATFORM}\nworkload: {{json: jobs.jsonl}}\n")
    done = invoke("run", "bad.yaml", "--transport", transport, "--out", "out", "--json")
    assert done.status == 0
    assert "warning: 1 of 3 jobs were rejected; the first, job 2: " in done.err
    metrics = json.loads(done.out)
    assert (metrics["jobs"], metrics["jobs_completed"], metrics["jobs_rejected"]) == (3, 2, 1)


def test_a_workload_of_nothing_but_too_large_jobs_ends() -> None:
    """Nothing can run, and the run is done, not stuck."""
    scenario(SCENARIO.replace("cores: [1, 8]", "cores: [9, 12]"))
    done = invoke("run", "bad.yaml", "--transport", "inproc", "--json")
    assert done.status == 0
    assert json.loads(done.out)["jobs_rejected"] == 20


@pytest.mark.slow
def test_two_scenarios_of_one_name_cannot_be_served() -> None:
    """A name must say which scenario is meant."""
    Path("again.yaml").write_text(SCENARIO)
    done = command("serve", "tiny.yaml", "again.yaml")
    assert done.status == 2
    assert "again.yaml: name: tiny.yaml has the same name, 'tiny'" in done.error


@pytest.mark.slow
def test_a_scenario_of_more_jobs_than_allowed_is_not_served() -> None:
    """The limit on jobs holds for what is served, too."""
    done = command("serve", "tiny.yaml", "--max-jobs", "19")
    assert done.status == 2
    assert "19" in done.error


# Servers that are not there


@pytest.mark.slow
def test_ping_of_nobody_fails() -> None:
    """Exit 1 and a line, soon."""
    done = invoke("ping", "--connect", "tcp://127.0.0.1:9")
    assert done.status == 1
    assert "no server answers at tcp://127.0.0.1:9" in done.error


@pytest.mark.slow
def test_ping_of_a_server_succeeds(processes: Processes, tmp_path: Path) -> None:
    """Exit 0 and silence; the server goes on."""
    server = Server(processes, tmp_path / "tiny.yaml", out=tmp_path / "out")
    for _ in range(2):
        done = invoke("ping", "--connect", server.address)
        assert (done.status, done.out, done.err) == (0, "", "")
    assert server.process.poll() is None
    server.process.terminate()
    assert server.end() == 0


@pytest.mark.parametrize("words", ["ping --connect", "schedule fcfs --connect"])
@pytest.mark.parametrize("address", ["nonsense", "", "tcp://", "tcp://127.0.0.1", "carrier://x"])
def test_invalid_address(words: str, address: str) -> None:
    """An address without a known transport, or without a port, is bad input with an example."""
    done = invoke(*words.split(), address)
    assert done.status == 2
    assert repr(address) in done.error
    assert "such as tcp://127.0.0.1:28080" in done.error


@pytest.mark.slow
@pytest.mark.parametrize("address", ["tcp://127.0.0.1", "ipc://" + "x" * 200])
def test_an_address_that_cannot_be_listened_at_is_an_error(address: str) -> None:
    """A server that can't bind says so in a line."""
    done = command("serve", "tiny.yaml", "--bind", address)
    assert done.status == 1
    assert f"cannot listen at {address}" in done.error


# Disks


def small_files() -> None:
    """Allow files of 1000 bytes, as a full disk would."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["inproc", "ipc"])
def test_a_full_disk_is_an_error_and_earlier_results_stay(transport: str) -> None:
    """The metrics are printed, the command fails, and the earlier results are unchanged."""
    words = ("run", "tiny.yaml", "--transport", transport, "--out", "out", "--json")
    assert command(*words).status == 0
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    done = command(*words, "--force", "--set=workload.synthetic.jobs=100", preexec_fn=small_files)
    assert done.status == 1
    assert json.loads(done.out)["jobs"] == 100
    assert done.err == "error: out: the results cannot be written: File too large\n"
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == before
    assert written() == ["out", "tiny.yaml"]


@pytest.mark.slow
def test_a_service_on_a_full_disk_goes_on_and_fails_in_the_end() -> None:
    """A server for two sessions whose results don't fit serves both, and exits 1."""
    address = f"ipc://{Path.cwd()}/server.sock"
    many = "--set=workload.synthetic.jobs=100"
    serve = ["serve", "tiny.yaml", many, "--bind", address, "--sessions", "2", "--out", "out"]
    server = subprocess.Popen(
        [*HPCOSIM, *serve],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        preexec_fn=small_files,
    )
    try:
        for _ in range(2):
            assert command("schedule", "fcfs", "--connect", address).status == 0
        _, log = server.communicate(timeout=SOON_S)
        assert server.returncode == 1
        events = [json.loads(line)["event"] for line in log.splitlines()]
        assert events.count("results_not_written") == 2
        assert written("out") == []
    finally:
        server.kill()
        server.wait()


# Pictures


@pytest.mark.slow
def test_draw_makes_a_png_and_an_svg_and_the_same_ones_again() -> None:
    """The pictures of a run are the same to the byte, however often they are drawn."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    pictures = []
    for _ in range(2):
        done = command("draw", "out")
        assert (done.status, done.err) == (0, "")
        assert done.out.split() == ["out/schedule.png", "out/schedule.svg"]
        pictures.append([Path(path).read_bytes() for path in done.out.split()])
        for path in done.out.split():
            Path(path).unlink()
    assert pictures[0] == pictures[1]
    png, svg = pictures[0]
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert svg.startswith(b"<?xml")
    assert b"</svg>" in svg


@pytest.mark.slow
def test_draw_takes_another_name() -> None:
    """--out is where the pictures go."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    assert invoke("draw", "out", "--out", "v1.2").status == 0
    assert written() == ["out", "tiny.yaml", "v1.2.png", "v1.2.svg"]
    assert written("out") == FILES


@pytest.mark.parametrize("name", FILES[:-1])
def test_draw_of_what_is_no_results_folder_is_bad_input(name: str) -> None:
    """A folder that lacks a file that is drawn from, or any, is an error in a line."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    Path("out", name).unlink()
    done = invoke("draw", "out")
    if name == "metrics.json":  # nothing of it is drawn
        assert done.status == 0
        return
    assert done.status == 2
    assert "out is no results folder" in done.error


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.json", "[]"),
        ("run.json", "7"),
        ("jobs.csv", "a,b\n1,2\n"),
        ("jobs.csv", "job_id,submit_s,start_s,end_s,state,cores,nodes\n1,x,y,z,completed,1,0\n"),
        ("nodes.csv", "start_s,end_s,nodes,state,power_w\n0,1,all,idle,5\n"),
    ],
)
def test_draw_of_damaged_results_is_an_error_in_one_line(name: str, text: str) -> None:
    """Files that are not what a run writes are bad input, and no traceback."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    Path("out", name).write_text(text)
    assert invoke("draw", "out").status == 2


@pytest.mark.slow
def test_draw_where_nothing_can_be_written_is_an_error_in_one_line() -> None:
    """Pictures to a folder that does not exist: the error names the path."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    done = invoke("draw", "out", "--out", "nowhere/x")
    assert done.status == 2
    assert "can't write nowhere/x" in done.error


@pytest.mark.slow
def test_draw_takes_the_name_of_a_client_as_it_is() -> None:
    """A scheduler that calls itself `$x^{$` is drawn like any other."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    about = json.loads(Path("out/run.json").read_text())
    Path("out/run.json").write_text(json.dumps(about | {"scheduler": "$x^{$"}))
    assert invoke("draw", "out").status == 0


@pytest.mark.slow
def test_draw_of_a_run_in_which_nothing_ran() -> None:
    """Where all jobs were too large there is still the power of idle nodes to draw."""
    scenario(SCENARIO.replace("cores: [1, 8]", "cores: [9, 12]"))
    invoke("run", "bad.yaml", "--transport", "inproc", "--out", "out")
    assert invoke("draw", "out").status == 0


# What it costs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "packages"),
    [
        ("hpcosim_protocol", []),
        ("hpcosim_client.catalogue.power", ["client"]),
        ("hpcosim_server.service.service", ["server", "workloads"]),
        ("hpcosim_scenarios.running.serving", ["server", "workloads", "scenarios"]),
    ],
)
def test_what_is_imported_is_not_heavy(module: str, packages: list[str]) -> None:
    """Neither a scheduler nor a server imports torch, matplotlib or SciPy, nor one the other."""
    code = f"import sys, {module}; print(' '.join(sys.modules))"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert module in modules
    ours = {name.split(".")[0] for name in modules if name.startswith("hpcosim_")}
    assert ours == {"hpcosim_protocol", *(f"hpcosim_{name}" for name in packages)}
    assert not {"torch", "matplotlib", "scipy", "typer"} & set(modules)


@pytest.mark.slow
def test_help_imports_neither_numpy_nor_matplotlib() -> None:
    """--help answers at once, for it imports little."""
    code = (
        "import sys\nfrom hpcosim_cli.main import main\nsys.argv = ['hpcosim', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nsys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert not {"torch", "matplotlib", "numpy", "simpy", "zmq"} & set(done.stderr.split())


@pytest.mark.slow
def test_the_installed_command_is_the_same() -> None:
    """`hpcosim` is on the path of the environment it was installed in."""
    done = subprocess.run(
        [Path(sys.executable).with_name("hpcosim"), "schedulers"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert done.stdout == invoke("schedulers").out


@pytest.mark.slow
def test_a_pipe_that_closes_early_is_no_traceback() -> None:
    """`hpcosim schedulers | head -0` ends without a word."""
    done = subprocess.run(
        f"{sys.executable} -m hpcosim_cli schedulers | true",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
