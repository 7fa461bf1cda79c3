"""Commands of Slurm that only read: the twin runs no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpcosim_slurm.tools import Tools

READERS = frozenset(("squeue", "sacct", "sshare", "sinfo"))
"""Programs that only read, whatever their options are."""
VERBS = {"scontrol": frozenset(("show", "ping")), "sacctmgr": frozenset(("show", "dump"))}
"""Programs that also change the cluster, each with its verbs that only read."""


def is_read_only(command: Sequence[str]) -> bool:
    """Return whether a command of Slurm only reads.

    The verb is the first word that is no option: an option with a value in the next word makes a
    command unknown.
    """
    program, *words = command
    if program in READERS:
        return True
    verb = next((word for word in words if not word.startswith("-")), "")
    return verb in VERBS.get(program, ())


def read_only(tools: Tools) -> Tools:
    """Return tools that run no command that could change the cluster."""
    return replace(tools, allows=is_read_only)
