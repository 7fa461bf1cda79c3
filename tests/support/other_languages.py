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

C, CPP, NODE, RUST = (ROOT / "scheduler_client" / name for name in ("c", "cpp", "node", "rust"))
LANGUAGES = ("c", "node")
LIBRARIES = ("c", "cpp", "rust")
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


def library_in(language: str, folder: Path) -> Path:
    """Return the shared library of a scheduler; skip the test if a tool is missing.

    Args:
        language: one of `LIBRARIES`.
        folder: folder for the build.
    """
    folder = folder / language
    folder.mkdir(exist_ok=True)
    if language == "rust":
        found, missing = _built_rust(folder)
    else:
        found, missing = _made(C if language == "c" else CPP, folder)
    if not found:
        _without(missing)
    return folder / f"lib{'easy' if language == 'cpp' else 'fcfs'}.so"


@cache
def _built_c(folder: Path) -> tuple[list[str], str]:
    """Return the command and an empty text, or an empty command and the missing tools."""
    found, missing = _made(C, folder)
    return ([str(folder / "fcfs")], "") if found else ([], missing)


@cache
def _made(source: Path, folder: Path) -> tuple[bool, str]:
    """Return whether program and library of a folder were made, or the missing tools."""
    missing = [tool for tool in ("make", "cc", "c++", "pkg-config") if not shutil.which(tool)]
    if missing:
        return False, f"no {', '.join(missing)} here"
    if not _knows("libzmq") or not (_knows("msgpack-c") or _knows("msgpack")):
        return False, "the C libraries libzmq3-dev and libmsgpack-dev are not installed"
    name = "fcfs" if source == C else "easy"
    strict = "-O1 -Wall -Wextra -Wpedantic -Werror"
    made = subprocess.run(
        [
            *("make", "--directory", source, f"CFLAGS={strict}", f"CXXFLAGS={strict}"),
            *(f"OUT={folder / name}", f"LIBRARY={folder / f'lib{name}.so'}"),
        ],
        capture_output=True,
        text=True,
        timeout=BUILD_S,
    )
    assert made.returncode == 0, made.stderr
    return True, ""


@cache
def _built_rust(folder: Path) -> tuple[bool, str]:
    """Return whether the library in Rust was built, or the missing tool."""
    if not shutil.which("rustc"):
        return False, "no rustc here"
    options = ("--edition=2021", "--crate-type=cdylib", "-O", "--deny=warnings")
    made = subprocess.run(
        ["rustc", *options, "-o", folder / "libfcfs.so", RUST / "src" / "lib.rs"],
        capture_output=True,
        text=True,
        timeout=BUILD_S,
    )
    assert made.returncode == 0, made.stderr
    return True, ""


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
