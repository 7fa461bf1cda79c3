"""The client that uses no package of ours."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpcosim_scenarios.running.run import run_scenario
from support.paths import ROOT, SCENARIOS
from support.processes import Processes, Server

DEMO = SCENARIOS / "demo.yaml"
MINIMAL = ROOT / "scheduler_client" / "minimal.py"


def test_it_is_short_and_stands_alone() -> None:
    """`minimal.py` has fewer than 80 lines and uses no hpcosim package."""
    text = MINIMAL.read_text()
    assert text.count("\n") < 80
    assert "hpcosim" not in re.sub(r'""".*?"""', "", text, flags=re.DOTALL)


@pytest.mark.slow
def test_it_equals_fcfs(processes: Processes, tmp_path: Path) -> None:
    """`minimal.py` has the metrics of `fcfs`."""
    server = Server(processes, DEMO, "--once", out=tmp_path / "out")
    command = [sys.executable, str(MINIMAL), server.address]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert server.end() == 0
    run_scenario(DEMO, scheduler="fcfs", transport="inproc", out=tmp_path / "fcfs")
    metrics = [(tmp_path / out / "metrics.json").read_text() for out in ("out", "fcfs")]
    assert metrics[0] == metrics[1]


@pytest.mark.slow
def test_its_timeout_can_be_given(tmp_path: Path) -> None:
    """Without a reply it ends after the given time, and says that the session may be paused."""
    command = [sys.executable, str(MINIMAL), f"ipc://{tmp_path}/nobody", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.stderr == f"error: no reply from {command[2]} in 1 s: no server, or a pause\n"
