"""Options of `sbatch`, `salloc` and `srun` in the column `SubmitLine`.

The accounting stores neither dependencies nor the limit of an array nor how memory and devices were
requested. The command line does, if it was given there and not in the batch script.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

SHORT: Mapping[str, str] = {
    "A": "account",
    "C": "constraint",
    "L": "licenses",
    "N": "nodes",
    "a": "array",
    "c": "cpus-per-task",
    "d": "dependency",
    "n": "ntasks",
    "t": "time",
    "w": "nodelist",
    "x": "exclude",
}
"""Long names of the options that have a short one and are of use here."""

OTHER_SHORT = frozenset("BDEGJMSbeikmop")
"""Short options with a value that are of no use here."""

FLAGS = frozenset(("exclusive", "requeue", "no-requeue"))
USED = frozenset(
    (
        *SHORT.values(),
        *FLAGS,
        *("gpus-per-node", "gpus-per-task", "gpus", "gres", "mem", "mem-per-cpu", "mem-per-gpu"),
        *("ntasks-per-node", "nice", "switches"),
    )
)
VALUED = (USED - FLAGS) | {
    *("account", "batch", "bb", "bbf", "begin", "chdir", "clusters", "comment", "container"),
    *("core-spec", "cpu-freq", "cpus-per-gpu", "deadline", "delay-boot", "distribution", "error"),
    *("export", "export-file", "extra", "gid", "gpu-bind", "gpu-freq", "gres-flags", "hint"),
    *("input", "job-name", "kill-on-invalid-dep", "mail-type", "mail-user", "mcs-label"),
    *("mem-bind", "mincpus", "network", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-socket"),
    *("open-mode", "output", "partition", "power", "priority", "profile", "qos", "reservation"),
    *("signal", "sockets-per-node", "threads-per-core", "time-min", "tmp", "uid", "wckey", "wrap"),
}
"""Long options with a value; those that are not of use here are read over."""
LONGEST = 20_000  # characters; a longer command line is cut


def options_of(line: str) -> dict[str, str]:
    """Return the options of a command line by long name; flags have an empty value.

    Reading stops at the script. A line that is no command line has no options.

    Example:
        >>> options_of("sbatch -d afterok:7 --array=0-9%3 job.sh --array=1")
        {'dependency': 'afterok:7', 'array': '0-9%3'}
    """
    try:
        words = shlex.split(line[:LONGEST])
    except ValueError:
        return {}
    if not words or words[0].rpartition("/")[2] not in ("sbatch", "salloc", "srun"):
        return {}
    found: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name in VALUED and not equals:
                value = next(rest, "")
        elif word.startswith("-") and len(word) > 1:
            name, value = SHORT.get(word[1], ""), word[2:].removeprefix("=")
            if not value and (name or word[1] in OTHER_SHORT):
                value = next(rest, "")
        else:
            break
        if name in USED:
            found[name] = value
    return found
