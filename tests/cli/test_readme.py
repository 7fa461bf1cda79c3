"""What the README shows works as shown."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcosim_studies import STUDIES
from support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
OURS = [sys.executable, "-m", "hpcosim_cli"]
FEWER_JOBS = {"deep_eas": ["--set", "workload.synthetic.sequences=5"]}
"""What is added to the commands of a paper whose scenario takes a minute as it is."""


def shown_commands() -> list[str]:
    """Return all `hpcosim` commands that the README shows."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith(".venv/bin/hpcosim ")]


def quick_commands() -> list[str]:
    """Return the shown commands that need no job log, server or network, and end in seconds."""
    elsewhere = r"traces get|nasa| reproduce | serve | schedule | conformance "
    return [line for line in shown_commands() if not re.search(elsewhere, f"{line} ")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server of the demo scenario for one session; its results are in `tmp_path / out`."""
    address = f"ipc://{tmp_path}/s.sock"
    command = [*OURS, "serve", str(ROOT / "scenarios" / "demo.yaml"), "--bind", address, "--once"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "out")], stderr=subprocess.DEVNULL
    )
    yield address
    if process.poll() is None:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.mark.parametrize("command", quick_commands())
def test_command_runs_as_shown(command: str, tmp_path: Path) -> None:
    """A command that the README shows succeeds."""
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    arguments = shlex.split(command)[1:]
    for paper, options in FEWER_JOBS.items():
        arguments += options if f"papers/{paper}/" in command else []
    done = subprocess.run([*OURS, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_studies_shown_exist() -> None:
    """Each `hpcosim reproduce` of the README names a study; `tests/studies` runs them."""
    shown = {line.split()[2] for line in shown_commands() if " reproduce " in line}
    assert shown
    assert shown <= set(STUDIES)


def test_scheduler_of_ten_lines_runs_as_shown(server: str, tmp_path: Path) -> None:
    """The README's own scheduler, ten lines, schedules the demo and prints the mean wait."""
    [code] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    mine = tmp_path / "mine.py"
    mine.write_text(code.replace("tcp://127.0.0.1:28080", server))
    done = subprocess.run([sys.executable, str(mine)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0


def test_minimal_client_equals_ours(server: str, tmp_path: Path) -> None:
    """`minimal.py`, under 80 lines and none of ours, gets the results of `fcfs`."""
    minimal = ROOT / "scheduler_client" / "minimal.py"
    text = minimal.read_text()
    assert text.count("\n") < 80
    assert "hpcosim" not in re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
    done = subprocess.run([sys.executable, str(minimal), server], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ours = subprocess.run(
        [
            *OURS,
            "run",
            str(ROOT / "scenarios" / "demo.yaml"),
            "--scheduler",
            "fcfs",
            "--json",
            "--transport",
            "inproc",
            "--out",
            str(tmp_path / "ours"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    for _ in range(100):
        if (tmp_path / "out" / "metrics.json").exists():
            break
        subprocess.run(["sleep", "0.05"], check=True)
    theirs = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert theirs == json.loads(ours.stdout)
