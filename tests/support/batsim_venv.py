"""A virtual environment with third-party programs that use Batsim's protocol or files.

The schedulers require package versions that no longer install. These requirements are ignored, and
current versions are installed. The environment stays in the checkout and is reused. If it cannot be
made, tests are skipped, unless `CI` is set.
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
    """Return the environment's folder of programs; make the environment if it is missing.

    One test process makes the environment; others wait for it.

    Raises:
        NoClientsError: the environment cannot be made.
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
    """Hold a lock between processes during the block; it ends with the process."""
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
        install = (str(ROOT / ".ci" / "uv.sh"), str(folder), "install", "--quiet")
        _run(*install, "--no-deps", *CLIENTS)
        _run(*install, *NEEDED, *READERS)
    except (subprocess.SubprocessError, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        said = getattr(error, "stderr", None) or str(error)
        raise NoClientsError(said.strip().splitlines()[-1]) from error
    (folder / "complete").touch()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=INSTALL_S, capture_output=True, text=True)


@pytest.fixture(scope="session")
def batsim_programs() -> Path:
    """The folder of programs of the environment; skip the test if it cannot be made."""
    try:
        return clients()
    except NoClientsError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Batsim's schedulers cannot be installed: {error}")
