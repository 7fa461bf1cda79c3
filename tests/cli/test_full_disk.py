"""Results that do not fit on the disk."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from support.commands import (
    HPCOSIM,
    command,
    written,
)
from support.full_disk import files_up_to
from support.processes import Processes, output


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["inproc", "ipc"])
def test_a_full_disk_is_an_error_and_earlier_results_stay(transport: str) -> None:
    """The metrics are printed, the command fails, and the earlier results are unchanged."""
    words = ("run", "tiny.yaml", "--transport", transport, "--out", "out", "--json")
    assert command(*words).status == 0
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    done = command(
        *words, "--force", "--set=workload.synthetic.jobs=100", preexec_fn=files_up_to(5000)
    )
    assert done.status == 1
    assert json.loads(done.out)["jobs"] == 100
    assert done.err == "error: out: the results cannot be written: File too large\n"
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == before
    assert written() == ["out", "tiny.yaml"]


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["inproc", "ipc"])
def test_a_comparison_on_a_full_disk_prints_the_metrics_it_has(transport: str) -> None:
    """The command fails at the first scheduler whose results do not fit."""
    words = ("compare", "tiny.yaml", "--schedulers", "fcfs,easy", "--transport", transport)
    many = "--set=workload.synthetic.jobs=100"
    done = command(*words, "--out", "out", "--json", many, preexec_fn=files_up_to(5000))
    assert done.status == 1
    assert json.loads(done.out)["fcfs"]["jobs"] == 100
    assert done.err == "error: out/fcfs: the results cannot be written: File too large\n"


@pytest.mark.slow
def test_a_service_on_a_full_disk_goes_on_and_fails_in_the_end(processes: Processes) -> None:
    """A stopped server exits with status 1 if results of a session were lost."""
    address = f"ipc://{Path.cwd()}/server.sock"
    many = "--set=workload.synthetic.jobs=100"
    serve = ["serve", "tiny.yaml", many, "--bind", address, "--out", "out"]
    server = processes.start_command(
        [*HPCOSIM, *serve], stderr=subprocess.PIPE, preexec_fn=files_up_to(5000)
    )
    for _ in range(2):
        done = command("schedule", "fcfs", "--connect", address)
        told = r"error: the server has not written the results of \w{8}: .*its log\n"
        assert (done.status, done.out) == (1, "")
        assert re.fullmatch(told, done.err.splitlines(keepends=True)[-1])
    server.terminate()
    _, log = output(server)
    assert server.returncode == 1
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert events.count("results_not_written") == 2
    assert written("out") == [".journal"]
