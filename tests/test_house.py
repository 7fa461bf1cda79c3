"""The house stands as drawn: imports point one way."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "hpcosim_protocol": ROOT / "protocol",
    "hpcosim_server": ROOT / "server",
    "hpcosim_client": ROOT / "scheduler_client",
    "hpcosim_scenarios": ROOT / "scenarios",
}
MAY_IMPORT = {
    "hpcosim_protocol": {"hpcosim_protocol"},
    "hpcosim_server": {"hpcosim_protocol", "hpcosim_server"},
    "hpcosim_client": {"hpcosim_protocol", "hpcosim_client"},
    "hpcosim_scenarios": set(PACKAGES),
}
PHYSICS = (
    "cluster",
    "power",
    "contention",
    "execution",
    "allocation",
    "recording",
    "replay",
    "attribution",
    "timeline",
)
SOCKETS_AND_TIME = {"simpy", "zmq", "socket", "asyncio", "threading"}


def imports_of(path: Path) -> set[str]:
    """Return the modules a file imports, by their full names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_between_packages_point_one_way(package: str) -> None:
    """A package imports only those below it."""
    for path in (PACKAGES[package] / package).rglob("*.py"):
        ours = {name.split(".")[0] for name in imports_of(path)} & set(PACKAGES)
        assert ours <= MAY_IMPORT[package], path


def test_physics_imports_neither_time_nor_sockets() -> None:
    """The physics knows no SimPy, no socket, no file."""
    server = ROOT / "server" / "hpcosim_server"
    for name in PHYSICS:
        path = server / f"{name}.py"
        assert not {top.split(".")[0] for top in imports_of(path)} & SOCKETS_AND_TIME, path
        assert "pathlib" not in imports_of(path), path


def test_simulation_imports_no_socket() -> None:
    """The simulation has SimPy, but no socket and no thread."""
    found = imports_of(ROOT / "server" / "hpcosim_server" / "simulation.py")
    assert not {name.split(".")[0] for name in found} & {"zmq", "socket", "threading", "asyncio"}


def test_server_imports_go_up_the_table_of_its_readme() -> None:
    """In the server a file imports only files that stand above it in server/README.md."""
    folder = ROOT / "server" / "hpcosim_server"
    rows = re.findall(r"^\| (`.*?`) \|", (ROOT / "server" / "README.md").read_text(), re.MULTILINE)
    order = [name.rstrip("/") for row in rows for name in re.findall(r"`(.*?)`", row)]
    there = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert set(order) == there - {"__init__", "__pycache__", "py"}
    for path in folder.rglob("*.py"):
        room = path.relative_to(folder).parts[0].removesuffix(".py")
        for name in imports_of(path):
            if name.startswith("hpcosim_server.") and room in order:
                imported = name.split(".")[1]
                assert order.index(imported) <= order.index(room), f"{path} imports {name}"
