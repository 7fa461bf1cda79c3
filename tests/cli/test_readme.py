"""The commands and programs of the README."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hpcosim_scenarios.running.run import run_scenario
from hpcosim_studies.catalogue import STUDIES
from support.paths import ROOT, SCENARIOS
from support.processes import Processes, Server

README = (ROOT / "README.md").read_text(encoding="utf-8")
DEMO = SCENARIOS / "demo.yaml"
OURS = [sys.executable, "-m", "hpcosim_cli"]
FEWER_JOBS = {"deep_eas": ["--set", "workload.synthetic.sequences=5"]}
"""Options added to the commands of a paper, whose scenario would take a minute."""


def shown_commands() -> list[str]:
    """Return all `hpcosim` commands in the README."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith(".venv/bin/hpcosim ")]


def quick_commands() -> list[str]:
    """Return the commands that need no job log, server or network, and end within seconds."""
    elsewhere = r"traces get|nasa| reproduce | serve | schedule | conformance "
    return [line for line in shown_commands() if not re.search(elsewhere, f"{line} ")]


@pytest.fixture
def server(processes: Processes, tmp_path: Path) -> Server:
    """A server of the demo scenario for one session."""
    return Server(processes, DEMO, "--once", out=tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("command", quick_commands())
def test_command_runs_as_shown(command: str, tmp_path: Path) -> None:
    """A command of the README exits with status 0."""
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    arguments = shlex.split(command)[1:]
    for paper, options in FEWER_JOBS.items():
        arguments += options if f"papers/{paper}/" in command else []
    done = subprocess.run([*OURS, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_studies_shown_exist() -> None:
    """Each `hpcosim reproduce` of the README names a known study; `tests/studies` runs them."""
    shown = {line.split()[2] for line in shown_commands() if " reproduce " in line}
    assert shown
    assert shown <= set(STUDIES)


@pytest.mark.slow
def test_scheduler_of_ten_lines_runs_as_shown(server: Server, tmp_path: Path) -> None:
    """The README's own scheduler, ten lines, schedules the demo and prints the mean wait."""
    [code] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    mine = tmp_path / "mine.py"
    mine.write_text(code.replace("tcp://127.0.0.1:28080", server.address))
    done = subprocess.run([sys.executable, str(mine)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0


@pytest.mark.slow
def test_minimal_client_equals_fcfs(server: Server, tmp_path: Path) -> None:
    """`minimal.py` has fewer than 80 lines, uses no hpcosim package, and equals `fcfs`."""
    minimal = ROOT / "scheduler_client" / "minimal.py"
    text = minimal.read_text()
    assert text.count("\n") < 80
    assert "hpcosim" not in re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
    command = [sys.executable, str(minimal), server.address]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert server.end() == 0
    run_scenario(DEMO, scheduler="fcfs", transport="inproc", out=tmp_path / "fcfs")
    metrics = [(tmp_path / out / "metrics.json").read_text() for out in ("out", "fcfs")]
    assert metrics[0] == metrics[1]
