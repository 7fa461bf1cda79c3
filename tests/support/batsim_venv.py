"""A virtual environment with programs of others that speak Batsim's protocol or read its files.

The schedulers pin versions of packages that no longer install, so pip ignores their requirements
and installs today's packages beside them. The environment stays in the repository for the next
time; where it cannot be made, tests are skipped, unless `CI` is set.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.paths import ROOT

CLIENTS = ("pybatsim==3.2.1", "batsim-py==1.0.5")
NEEDED = ("docopt==0.6.2", "numpy", "pandas", "procset==1.0", "pyzmq", "sortedcontainers<3")
READERS = ("evalys==4.0.7",)
INSTALL_S = 900


class NoClientsError(Exception):
    """The environment cannot be made, for example because no package registry answers."""


def clients() -> Path:
    """Return the environment's folder of programs.

    Test processes that call this at the same time wait for the one that makes it.

    Raises:
        NoClientsError: it cannot be made.
    """
    packages = (CLIENTS, NEEDED, READERS, sys.version_info[:2])
    tag = hashlib.sha256(repr(packages).encode()).hexdigest()[:8]
    folder = ROOT / f".venv-batsim-{tag}"
    with _locked(ROOT / "tests"):
        if not (folder / "complete").exists():
            _make(folder)
    return folder / "bin"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time into the block; the lock ends with its process."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _run(sys.executable, "-m", "venv", str(folder))
        pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet")
        _run(*pip, "--disable-pip-version-check", "--no-deps", *CLIENTS)
        _run(*pip, "--disable-pip-version-check", *NEEDED, *READERS)
    except (subprocess.SubprocessError, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        said = getattr(error, "stderr", None) or str(error)
        raise NoClientsError(said.strip().splitlines()[-1]) from error
    (folder / "complete").touch()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=INSTALL_S, capture_output=True, text=True)


@pytest.fixture(scope="session")
def batsim_programs() -> Path:
    """The environment's folder of programs; the test is skipped where there is none."""
    try:
        return clients()
    except NoClientsError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Batsim's schedulers cannot be installed: {error}")
