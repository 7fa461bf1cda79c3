"""Results of runs that failed or were stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commands import FILES, CommandResult, invoke, written

# Starts some jobs, then fails.
POLICY = """from hpcosim_client import PolicyError
from hpcosim_schedulers import make_policy

fcfs = make_policy("fcfs")


def policy(view):
    if view.now_s > 600:
        raise ERROR
    fcfs(view)
"""


def run(error: str, *options: str) -> CommandResult:
    """Run a policy that raises an error, or `fcfs` if it is empty, into the folder `out`."""
    Path("mine.py").write_text(POLICY.replace("ERROR", error))
    scheduler = "mine.py:policy" if error else "fcfs"
    options = ("--scheduler", scheduler, "--out", "out", *options)
    return invoke("run", "tiny.yaml", "--transport", "inproc", *options)


def test_a_run_that_fails_names_its_results() -> None:
    """The folder of the results comes before the error."""
    done = run("PolicyError('no idea')")
    assert done.status in (1, 2)
    warning, error = done.err.splitlines()
    assert warning == "warning: incomplete results: out"
    assert "no idea" in error
    assert written("out") == FILES


def test_a_run_that_is_stopped_says_by_which_signal() -> None:
    """`ended_because` has the name of the signal, as over ipc."""
    done = run("KeyboardInterrupt")
    assert done.status == 130
    assert done.err.splitlines() == [
        "warning: incomplete results: out",
        "error: stopped by SIGINT",
    ]
    assert json.loads(Path("out/run.json").read_text())["ended_because"] == "stopped by SIGINT"


def test_incomplete_results_are_replaced_without_force() -> None:
    """Complete results need --force."""
    assert run("KeyboardInterrupt").status == 130
    assert run("").status == 0
    assert json.loads(Path("out/run.json").read_text())["complete"]
    done = run("")
    assert done.status == 2
    assert "not empty" in done.error


@pytest.mark.slow
def test_draw_warns_of_incomplete_results() -> None:
    """The warning has the reason; the images are drawn."""
    run("KeyboardInterrupt")
    done = invoke("show", "draw", "out")
    assert done.status == 0
    assert done.err == "warning: out has incomplete results: stopped by SIGINT\n"
