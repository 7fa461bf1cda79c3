"""Processes that a cluster leaves behind: all descendants of this process."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

STOPPED_S = 1.0  # then they are killed: slurmstepd would wait for its controller for minutes
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make whatever daemons and jobs leave behind a child of this process; see prctl(2)."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def status_of(pid: int) -> int:
    """Wait for a child; return its exit status, 128 + its number after a signal.

    Other children that end meanwhile are reaped.
    """
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def end_all() -> None:
    """End all descendants, and wait for them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    until_s = time.monotonic() + STOPPED_S
    sent = signal.SIGTERM
    told: set[int] = set()
    while reap() and (found := _descendants(os.getpid())):
        if sent == signal.SIGTERM and time.monotonic() > until_s:
            sent, told = signal.SIGKILL, set()
        for pid in found - told:
            try:
                os.kill(pid, sent)
            except ProcessLookupError:
                continue
        told |= found
        time.sleep(0.02)


def reap() -> bool:
    """Reap children that have ended; return whether there are others.

    Slurm waits for the end of a cancelled job until its processes are reaped.
    """
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                return True
        except ChildProcessError:
            return False


def _descendants(pid: int) -> set[int]:
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
    found: set[int] = set()
    level = {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level} - found
        found |= level
    return found
