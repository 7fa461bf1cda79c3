"""Wrong usage of the command: one line on standard error that says how to fix it, and status 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hpcosim.cli.main import app
from support.paths import ROOT

DEMO = "scenarios/demo.yaml"

WRONG = {
    # the command line
    "run": "missing argument 'SCENARIO'; see `hpcosim run --help`",
    "rum x": "no such command 'rum'. Did you mean 'run'?",
    f"run {DEMO} --sed 1": "no such option: --sed",
    f"run {DEMO} --seed 1s": "--seed: expected an integer without a unit; see `hpcosim run",
    f"run {DEMO} --seed -1": "--seed: expected a value greater than or equal to 0",
    f"run {DEMO} --seed": "option '--seed' requires an argument",
    f"run {DEMO} --json=yes": "option '--json' does not take a value",
    f"run {DEMO} {DEMO}": "unexpected extra argument",
    f"run {DEMO} --set workload.load 2": "did you mean --set workload.load=2?",
    f"run {DEMO} --seed 1 --set seed 2 --json": "did you mean --set seed=2?",
    f"compare {DEMO} --schedulers fcfs easy lxf": "did you mean --schedulers fcfs,easy,lxf?",
    f"compare {DEMO} --power always-on timeout": "did you mean --power always-on,timeout?",
    f"compare {DEMO} --schedulers [fcfs,easy]": "separated by commas, such as fcfs,easy, got '[",
    f"run {DEMO} --scheduler backfill": "no scheduler 'backfill'; did you mean easy, conservative",
    f"run {DEMO} --scheduler fifo": "did you mean fcfs?",
    f"run {DEMO} --scheduler xyzzy": "there is no scheduler 'xyzzy'; `hpcosim schedulers` lists",
    "run backfilling": "experiment, not a scenario: use `hpcosim experiment backfilling`",
    "run scenarios/experiments/backfilling.yaml": "use `hpcosim experiment scenarios/experiments/",
    "serve scenarios/experiments/backfilling.yaml": "use `hpcosim experiment scenarios/experimen",
    "experiment demo": "FILE: demo is a scenario: `hpcosim run demo` runs it; an experiment names",
    f"experiment {DEMO}": f"FILE: {DEMO} is a scenario: `hpcosim run {DEMO}` runs it",
    f"run {DEMO} --transport udp": "--transport: 'udp' is not one of 'ipc', 'tcp', 'inproc'",
    f"compare {DEMO}": "nothing to compare; expected --schedulers, --power or both",
    f"compare {DEMO} --platforms {DEMO},nowhere.yaml": "nowhere.yaml: no such file or shipped",
    f"compare {DEMO} --platforms {DEMO},demo": "two platforms have the name 'demo'",
    f"compare {DEMO} --platforms {DEMO} --baseline easy": "--baseline compares policies on one",
    f"compare {DEMO} --power {{name:": "power: expected power managers such as `always-on, {name: ",
    f"compare {DEMO} --power timeot": "there is no power manager 'timeot'; did you mean timeout?",
    f"compare {DEMO} --power slurm": "--power slurm: suspend_time_s: is missing; expected a "
    "mapping such as {name: slurm, suspend_time_s: 900}",
    f"compare {DEMO} --power rl": "--power rl: model: is missing; expected a mapping such as {name",
    f"compare {DEMO} --schedulers easy,fcfs --baseline esy": "did you mean 'easy'?",
    "ping tcp://localhost": "ADDRESS: 'tcp://localhost' has no port; expected tcp://HOST:PORT",
    f"serve {DEMO} --listen tcp://127.0.0.1:9": "such option: --listen; did you mean --bind?",
    "ping --timeout-s 3s": "--timeout-s: expected a number without a unit",
    "train deep_eas": "no such file or shipped recipe; did you mean deep-eas?",
    f"train {DEMO}": "is a scenario; expected a recipe, which names it in",
    "train pairing --set budget.iteration=1": "override budget.iteration: unknown key 'iteration'; "
    "did you mean 'iterations'?",
    "train scenarios": "scenarios is not a regular file; expected a recipe (YAML)",
    "serve": "missing argument 'FILE...'",
    f"serve {DEMO} --set limits.idle_timeout_s=0": "override limits.idle_timeout_s: expected a "
    "number >= 0.1, got 0",
    f"serve {DEMO} --set limits.max_decisions=0": "expected an integer >= 1, got 0",
    f"serve {DEMO} --set limits.max_decision=9": "'max_decision'; did you mean 'max_decisions'?",
    f"serve {DEMO} --set limit.max_jobs=9": "unknown key 'limit'; did you mean 'limits'?",
    "schedule": "missing argument",
    # scenario files
    "run demo.yaml": "SCENARIO: demo.yaml: no such file or shipped scenario; did you mean demo?",
    "run dmo": "SCENARIO: dmo: no such file or shipped scenario; did you mean demo?",
    "run lambda_0.9": "did you mean deep_eas/lambda_0.9?",
    "validate scenarios/dmo.yaml": "did you mean scenarios/demo.yaml?",
    "compare nowhere/x.yaml --schedulers fcfs": "`hpcosim scenarios` lists the shipped scenarios",
    "run scenarios": "scenarios is a folder; expected a scenario file (YAML), such as scenarios/",
    "run /dev/zero": "/dev/zero is not a regular file",
    f"serve {DEMO} demo.yml": "demo.yml: no such file or shipped scenario; did you mean demo?",
    "train pairing --seeds 1,-2": "--seeds: expected integers >= 0, such as 0,1,2",
    "train pairing --seeds 1,2,1": "override seeds.2: 1 is there twice",
    "train pairing --stop soon": "--stop: expected NAME=VALUE, such as minutes=30, got 'soon'",
    "train pairing -j 0": "error: --workers / -j: expected a value greater than",
    "train pairing --seeds 1,2 --resume --out x": "x/seed-1: no checkpoint.safetensors",
    "train pairing --set environment.validation=gone.yaml": "override environment.validation: ",
    # folders
    f"run {DEMO} --out {DEMO}/x": "expected a results folder",
    f"compare {DEMO} --schedulers fcfs --out {DEMO}": "expected a results folder",
    f"serve {DEMO} --out {DEMO}": "expected a results folder",
    f"oracle {DEMO} --out scenarios": "scenarios is a folder; expected the path of a file",
    f"reproduce ineps --out {DEMO}": "expected a results folder",
    f"train pairing --out {DEMO}": "expected a results folder",
    # addresses
    "ping --connect localhost:5555": "did you mean tcp://localhost:5555?",
    "ping --connect localhost": "'localhost' has no transport, tcp:// or ipc://",
    "ping --connect tcp://localhost": "'tcp://localhost' has no port; expected tcp://HOST:PORT",
    "ping --connect tcp://localhost:70000": "a port is at most 65535",
    "ping --connect http://localhost:80": "unknown transport in 'http://localhost:80'",
    "schedule fcfs --connect localhost:5555": "did you mean tcp://localhost:5555?",
    "conformance --server localhost:5555": "--server: 'localhost:5555' has no transport",
    f"serve {DEMO} --bind localhost:5555": "--bind: 'localhost:5555' has no transport",
    # values that a command checks itself
    f"serve {DEMO} --once --sessions 2": "expected either --once or --sessions",
    "conformance": "expected exactly one of --client and --server",
    f"run {DEMO} --format paje": "--format: expected one of batsim, got 'paje'",
    "scenarios dmo": "unknown scenario 'dmo'; did you mean demo?",
    "reproduce ineps --partition cpu": "--partition applies only to --executor slurm",
    "reproduce pairing-exp1 --train --executor ray": "trainings run on this machine only",
    "reproduce node-centrik": "unknown study 'node-centrik'; did you mean node-centric?",
    "show draw nowhere": "nowhere: no such folder",
    f"show draw {DEMO}": "is a file; expected a results folder",
}


@pytest.fixture(autouse=True)
def _folder_with_scenarios(tmp_path: Path) -> None:
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")


@pytest.mark.parametrize("words", WRONG)
def test_wrong_usage_is_one_line(words: str) -> None:
    """The line names the argument and the remedy; nothing is written."""
    if words.startswith("train "):
        pytest.importorskip("torch", reason="training needs the extra rl")
    done = CliRunner().invoke(app, words.split(), prog_name="hpcosim")
    assert (done.exit_code, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert WRONG[words] in done.stderr
    assert sorted(os.listdir()) == ["scenarios", "tiny.yaml"]


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("log.swf", "", "job log; name it in workload.swf"),
        ("log.swf.gz", "", "job log; name it in workload.swf"),
        ("log.txt", "; MaxProcs: 8\n", "job log; name it in workload.swf"),
        ("workload.json", '{"nb_res": 4, "jobs": []}', "use hpcosim batsim -p PLATFORM.xml -w"),
        ("cluster.xml", "<?xml version='1.0'?>\n<platform/>", "use hpcosim batsim -p cluster.xml"),
        ("run.json", '{"effective_scenario": {}}', "its scenario is under effective_scenario"),
    ],
)
def test_a_file_of_another_format_is_named_with_its_use(name: str, text: str, hint: str) -> None:
    """The message says what the file is, and how to use it."""
    Path(name).write_text(text)
    done = CliRunner().invoke(app, ["run", name], prog_name="hpcosim")
    assert done.exit_code == 2
    assert f"SCENARIO: {name}: this " in done.stderr
    assert hint in done.stderr


def test_command_without_arguments_prints_help() -> None:
    """`hpcosim` alone prints the help text, with the panels of commands and the exit status."""
    done = CliRunner().invoke(app, [])
    assert done.stderr == ""
    for words in ("Simulate", "Serve and connect", "Inspect", "Batsim", "Exit status"):
        assert words in done.stdout
