"""Runs of the `hpcosim` command, in this process or in a new one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from hpcosim.cli.main import app
from support.processes import SOON_S

HPCOSIM = (sys.executable, "-m", "hpcosim.cli")
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


class CommandResult:
    """The result of a command: exit status, standard output and standard error."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def error(self) -> str:
        """The message of the only line of output, which is on standard error."""
        assert self.out == ""
        assert self.err.startswith("error: "), self.err
        assert self.err.endswith("\n")
        assert len(self.err.splitlines()) == 1, self.err
        return self.err.removeprefix("error: ").strip()


def invoke(*arguments: str | Path) -> CommandResult:
    """Run the command in this process."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return CommandResult(result.exit_code, result.stdout, result.stderr)


def command(*arguments: str | Path, timeout_s: float = SOON_S, **options: Any) -> CommandResult:
    """Run the command in a new process."""
    process = subprocess.run(
        [*HPCOSIM, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        **options,
    )
    return CommandResult(process.returncode, process.stdout, process.stderr)


def written(folder: str = ".") -> list[str]:
    """Return the names of the files in a folder."""
    return sorted(path.name for path in Path(folder).iterdir())


def write_scenario(text: str) -> None:
    """Write the scenario `bad.yaml`."""
    Path("bad.yaml").write_text(text)
