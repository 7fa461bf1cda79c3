"""Start-up time of the command and of the client library."""

from __future__ import annotations

import subprocess
import sys
import time


def run(smoke: bool) -> dict[str, float]:
    """Return wall times of whole processes, and their ratio to a bare Python process."""
    repeats = 2 if smoke else 5
    bare_s = _wall_s(["-c", "pass"], repeats)
    help_s = _wall_s(["-m", "hpcosim_cli", "--help"], repeats)
    client_s = _wall_s(["-c", "import hpcosim_client"], repeats)
    return {
        "hpcosim --help, s": help_s,
        "hpcosim --help, x_of_bare_python": help_s / bare_s,
        "import hpcosim_client, s": client_s,
    }


def _wall_s(arguments: list[str], repeats: int) -> float:
    def once() -> float:
        began_s = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        return time.perf_counter() - began_s

    return min(once() for _ in range(repeats))
