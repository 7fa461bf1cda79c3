"""Imports and start of the command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.start import SCENARIO, cpu_of

from hpcosim_scenarios.model.yaml_tree import parse_yaml
from support.commands import HPCOSIM, invoke

HEAVY = {"asyncio", "matplotlib", "numpy.ma", "pandas", "pyarrow", "pydantic", "scipy", "torch"}
"""Modules that no run needs."""

MAX_RATIO = 12.0  # to the CPU of `import numpy`; 8 when written, 24 before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "packages"),
    [
        ("hpcosim_protocol", []),
        ("hpcosim_schedulers.catalogue.power", ["client", "schedulers"]),
        ("hpcosim_server.service.service", ["server", "sim", "workloads"]),
        ("hpcosim_scenarios.running.serving", ["server", "sim", "workloads", "scenarios"]),
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
        "import sys\nfrom hpcosim.cli.main import main\nsys.argv = ['hpcosim', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nsys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert not {"torch", "matplotlib", "numpy", "simpy", "zmq"} & set(done.stderr.split())


def modules_of(code: str) -> set[str]:
    """Return the modules that a new interpreter has imported after some code."""
    code += "\nimport sys\nsys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.slow
def test_importing_a_package_imports_none_of_its_modules() -> None:
    """`import hpcosim` and `import hpcosim_client` cost little more than Python itself."""
    modules = modules_of("import hpcosim, hpcosim_client, hpcosim_schedulers")
    ours = {name for name in modules if name.startswith("hpcosim")}
    lazy = {"hpcosim_protocol", "hpcosim_protocol.lazy_names"}
    assert ours == {"hpcosim", "hpcosim_client", "hpcosim_schedulers", *lazy}
    assert not {"numpy", "zmq", "msgspec", "asyncio", "logging"} & modules


@pytest.mark.slow
def test_a_run_imports_only_what_it_uses(tmp_path: Path) -> None:
    """A run in process imports no ZeroMQ, no other policies, and no other commands."""
    scenario = tmp_path / "one.yaml"
    scenario.write_text(SCENARIO)
    words = ["hpcosim", "run", str(scenario), "--transport", "inproc", "--out", str(tmp_path / "o")]
    modules = modules_of(
        f"import sys\nfrom hpcosim.cli.main import main\nsys.argv = {words}\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code"
    )
    assert not HEAVY & modules
    assert not {"zmq", "rich.table", "rich.console"} & modules
    of = {name.rpartition(".")[0] for name in modules}
    assert not {"hpcosim_schedulers.slurm", "hpcosim_scenarios.planning", "hpcosim_view.live"} & of
    commands = {name for name in modules if name.startswith("hpcosim.cli.")}
    assert not {"hpcosim.cli.serve", "hpcosim.cli.batsim", "hpcosim.cli.train"} & commands


@pytest.mark.slow
def test_a_server_imports_only_what_it_uses(tmp_path: Path) -> None:
    """A server that listens has imported no ZeroMQ, no scheduler and no other commands."""
    scenario = tmp_path / "one.yaml"
    scenario.write_text(SCENARIO)
    words = ["hpcosim", "serve", str(scenario), "--bind", f"ipc://{tmp_path}/s", "--workers", "1"]
    modules = modules_of(
        "import sys\nfrom hpcosim.cli.main import main\n"
        "import hpcosim_server.service.socket_loop as loop\n"
        "def listening(*_):\n    raise SystemExit\n"
        f"loop.announce = listening\nsys.argv = {words}\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code"
    )
    assert "hpcosim_server.service.socket_loop" in modules
    assert not HEAVY & modules
    assert not {"zmq", "rich.table", "rich.console"} & modules
    unused = {
        "hpcosim_client",
        "hpcosim_view.live.hub",
        "hpcosim_view.run.extracts",
        "hpcosim.cli.run",
    }
    assert not unused & modules


@pytest.mark.slow
def test_a_run_reads_its_scenario_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in process parses the file of its scenario once."""
    scenario = tmp_path / "one.yaml"
    scenario.write_text(SCENARIO)
    read: list[str] = []

    def counted(text: str) -> object:
        read.append(text)
        return parse_yaml(text)

    monkeypatch.setattr("hpcosim_scenarios.model.yaml_tree.parse_yaml", counted)
    done = invoke("run", str(scenario), "--transport", "inproc", "--out", str(tmp_path / "out"))
    assert (done.status, read) == (0, [SCENARIO])


@pytest.mark.slow
def test_a_run_of_one_job_costs_few_imports_of_numpy(tmp_path: Path) -> None:
    """The three processes of a run over TCP share what they import."""
    scenario = tmp_path / "one.yaml"
    scenario.write_text(SCENARIO)
    words = ("run", scenario, "--transport", "tcp", "--out", tmp_path / "out", "--force")
    numpy_s = min(cpu_of("-c", "import numpy") for _ in range(3))
    run_s = min(cpu_of(*HPCOSIM[1:], *words) for _ in range(3))
    assert run_s < MAX_RATIO * numpy_s


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
        f"{sys.executable} -m hpcosim.cli schedulers | true",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
