"""Settings of the executors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

Positive = Annotated[int, Meta(ge=1)]


class Local(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="local"):
    """Processes on this machine.

    Attributes:
        workers: number of processes, >= 0. 0: tasks run in this process, one after another, and are
            not protected from each other. None: one per core.
    """

    workers: Annotated[int, Meta(ge=0)] | None = None


IN_THIS_PROCESS = Local(workers=0)


class Ray(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="ray"):
    """Workers of a Ray cluster.

    Attributes:
        address: `HOST:PORT` of a cluster, or `auto`: the cluster of this machine. None: start a
            cluster on this machine, reachable from this machine only, and stop it at the end.
        workers: largest number of tasks at a time. None: one per CPU of the cluster.
        timeout_s: timeout for the start of a cluster or the connection to it, s. A run fails if
            the cluster has no CPUs for that long.
    """

    address: str | None = None
    workers: Positive | None = None
    timeout_s: Annotated[float, Meta(gt=0)] = 60.0


class Slurm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="slurm"):
    """Jobs of Slurm, submitted as arrays. Each array element runs a chunk of the tasks.

    Attributes:
        folder: folder for scripts, logs and results of the jobs, on a file system that all nodes
            share.
        partition: Slurm partition. None: the default partition of the cluster.
        time_min: time limit of an array element, minutes.
        memory_mb: memory of an array element, MB. None: the cluster's default.
        array_size: largest number of elements of an array.
        workers: largest number of elements that run at a time. None: `array_size`.
        setup: shell commands that run before Python, such as `module load python`.
        cluster: `local`: submitit's stand-in for Slurm, which runs all elements of an array at once
            as processes on this machine.
    """

    folder: Path = Path("slurm-jobs")
    partition: str | None = None
    time_min: Positive = 60
    memory_mb: Positive | None = None
    array_size: Positive = 100
    workers: Positive | None = None
    setup: tuple[str, ...] = ()
    cluster: Literal["slurm", "local"] = "slurm"


ExecutorSettings = Local | Ray | Slurm


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
