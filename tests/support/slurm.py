"""A real Slurm for tests."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def skip_without_slurm() -> None:
    """Skip a test where no Slurm answers."""
    if shutil.which("sinfo") is None:
        pytest.skip("Slurm is not installed; .ci/slurm.sh COMMAND installs and starts it")
    found = subprocess.run(["sinfo"], capture_output=True, timeout=60)
    if found.returncode:
        pytest.skip("no Slurm answers; .ci/slurm.sh COMMAND starts one")
