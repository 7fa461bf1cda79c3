"""Imports and start of the command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import (
    invoke,
)


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
def test_imports_are_light(module: str, packages: list[str]) -> None:
    """A scheduler and a server import neither each other nor torch, matplotlib or SciPy."""
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
    """--help starts fast, as it imports no large package."""
    code = (
        "import sys\nfrom hpcosim_cli.main import main\nsys.argv = ['hpcosim', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nsys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert not {"torch", "matplotlib", "numpy", "simpy", "zmq"} & set(done.stderr.split())


@pytest.mark.slow
def test_the_installed_command_is_the_same() -> None:
    """`hpcosim` is installed beside the Python interpreter and prints the same."""
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
    """A closed pipe ends the command without a traceback."""
    done = subprocess.run(
        f"{sys.executable} -m hpcosim_cli schedulers | true",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
