"""Memory of this process and of the machine, and the freeing of closed simulations."""

from __future__ import annotations

import gc
import math
import os
import resource
from contextlib import suppress
from pathlib import Path

MEMORY, STATES = Path("/proc/meminfo"), Path("/proc/self/statm")
SMAPS = Path("/proc/self/smaps_rollup")
GROUP = Path("/sys/fs/cgroup")
KIB = 1024

COLLECT_AFTER = 20

LONGEST_WAIT_S = 1.0
"""Longest time from the end of a session until its memory is free, s."""


def available_bytes() -> float:
    """Return the memory that new allocations can use, bytes; infinity: unknown.

    The least of what the kernel estimates (`MemAvailable`) and what the control group allows, such
    as that of a container (cgroup v2, `memory.max`).
    """
    least = math.inf
    with suppress(OSError, ValueError, IndexError):
        text = MEMORY.read_text(encoding="ascii")
        least = KIB * int(text.split("MemAvailable:", 1)[1].split()[0])
    with suppress(OSError, ValueError, IndexError):
        most = int((GROUP / "memory.max").read_text(encoding="ascii"))
        used = int((GROUP / "memory.current").read_text(encoding="ascii"))
        cached = (GROUP / "memory.stat").read_text(encoding="ascii")
        reclaimable = int(cached.split("inactive_file ", 1)[1].split()[0])
        least = min(least, most - used + reclaimable)
    return least


def used_bytes() -> int:
    """Return the memory that this process uses (Pss), bytes; 0: unknown.

    Pages that processes share are divided between them, so the sum over the processes of a server
    is its memory. It takes milliseconds.
    """
    with suppress(OSError, ValueError, IndexError):
        lines = SMAPS.read_text(encoding="ascii").splitlines()
        return KIB * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return 0


def limit_more(more_bytes: int) -> None:
    """Limit what this process can allocate from now on (RLIMIT_AS).

    An allocation beyond it is a `MemoryError`, which the service replies to; it does not invite
    the kernel to kill the process.
    """
    with suppress(OSError, ValueError, IndexError):
        now = int(STATES.read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        wanted = now + more_bytes
        if most == resource.RLIM_INFINITY or wanted < most:
            resource.setrlimit(resource.RLIMIT_AS, (wanted, most))


class Garbage:
    """Collects the simulations of closed sessions.

    The parts of a simulation refer to each other, so that only the collector of cycles frees them.
    The command line lets it look after 100,000 new containers, and a small session makes 250: its
    arrays would stay until 400 sessions are over.
    """

    def __init__(self) -> None:
        self._sessions = 0
        self._due_s = 0.0

    def note_dropped(self) -> None:
        """Count a session that is over and has its results."""
        self._sessions += 1

    def tidy(self, wall_s: float) -> None:
        """Free the memory of closed sessions if it is time to."""
        if not self._sessions or (self._sessions < COLLECT_AFTER and wall_s < self._due_s):
            return
        self._sessions = 0
        self._due_s = wall_s + LONGEST_WAIT_S
        gc.collect()
