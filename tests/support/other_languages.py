"""The clients in other languages, built if the required tools are present."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from support.paths import ROOT

C, NODE = ROOT / "scheduler_client" / "c", ROOT / "scheduler_client" / "node"
LANGUAGES = ("c", "node")
REQUIRED = "HPCOSIM_OTHER_LANGUAGES"
"""Environment variable of CI: all tools are installed, and no test is skipped."""
BUILD_S = 300.0
"""Timeout for building the client in C, in seconds."""


def client_in(language: str, folder: Path) -> list[str]:
    """Return the command of a client without its address; skip the test if a tool is missing.

    Args:
        language: one of `LANGUAGES`.
        folder: folder for the build.
    """
    command, missing = _built_c(folder) if language == "c" else _node()
    if not command:
        _without(missing)
    return command


@cache
def _built_c(folder: Path) -> tuple[list[str], str]:
    """Return the command and an empty text, or an empty command and the missing tools."""
    missing = [tool for tool in ("make", "cc", "pkg-config") if not shutil.which(tool)]
    if missing:
        return [], f"no {', '.join(missing)} here"
    if not _knows("libzmq") or not (_knows("msgpack-c") or _knows("msgpack")):
        return [], "the C libraries libzmq3-dev and libmsgpack-dev are not installed"
    program = folder / "fcfs"
    strict = "CFLAGS=-O1 -Wall -Wextra -Wpedantic -Werror"
    made = subprocess.run(
        ["make", "--directory", C, f"OUT={program}", strict],
        capture_output=True,
        text=True,
        timeout=BUILD_S,
    )
    assert made.returncode == 0, made.stderr
    return [str(program)], ""


@cache
def _knows(library: str) -> bool:
    return subprocess.run(["pkg-config", "--exists", library]).returncode == 0


def _node() -> tuple[list[str], str]:
    """Return the command and an empty text, or an empty command and the missing tools."""
    node = shutil.which("node")
    if not node:
        return [], "no node here"
    if not (NODE / "node_modules" / "zeromq").is_dir():
        return (
            [],
            "its packages are not installed: npm ci --ignore-scripts in scheduler_client/node",
        )
    return [node, str(NODE / "fcfs.mjs")], ""


def _without(missing: str) -> NoReturn:
    if os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, but {missing}")
    pytest.skip(missing)
