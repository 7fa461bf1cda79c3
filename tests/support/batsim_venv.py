"""A virtual environment with the schedulers that speak Batsim's protocol.

They pin versions of ten years' worth of packages that can't be installed any more, so they are
installed without what they ask for, and beside it what they need. The environment stays where it
was made, for the next time.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from support.paths import ROOT

CLIENTS = ("pybatsim==3.2.1", "batsim-py==1.0.5")
NEEDED = ("docopt==0.6.2", "numpy", "pandas", "procset==1.0", "pyzmq", "sortedcontainers<3")
INSTALL_S = 900


class NoClientsError(Exception):
    """They can't be installed, as of a registry that can't be reached."""


def clients() -> Path:
    """Return the environment's folder of programs.

    Raises:
        NoClientsError: it can't be made.
    """
    tag = hashlib.sha256(repr((CLIENTS, NEEDED, sys.version_info[:2])).encode()).hexdigest()[:8]
    folder = ROOT / f".venv-batsim-{tag}"
    done = folder / "complete"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _run(sys.executable, "-m", "venv", str(folder))
            pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet")
            _run(*pip, "--disable-pip-version-check", "--no-deps", *CLIENTS)
            _run(*pip, "--disable-pip-version-check", *NEEDED)
        except (subprocess.SubprocessError, OSError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            said = getattr(error, "stderr", None) or str(error)
            raise NoClientsError(said.strip().splitlines()[-1]) from error
        done.touch()
    return folder / "bin"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=INSTALL_S, capture_output=True, text=True)
