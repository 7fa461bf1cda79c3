"""Options that choose where tasks run, for the commands that run many."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from hpcosim_experiments.executors import ExecutorSettings, Local

EXECUTION = "Execution"
SLURM = "Execution on Slurm"

Engine = Literal["local", "ray", "slurm"]

AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        rich_help_panel=EXECUTION,
        help="Head node of a Ray cluster, or auto: the cluster of this machine. Default: start a "
        "cluster on this machine.",
    ),
]


def local(workers: int) -> Local:
    """Return the settings of processes on this machine.

    Args:
        workers: their number, >= 0; 0: one per core, 1: tasks run in this process.
    """
    from hpcosim_experiments.executors import IN_THIS_PROCESS, Local

    return IN_THIS_PROCESS if workers == 1 else Local(workers=workers or None)


@dataclass(frozen=True)
class Execution:
    """The options that choose an executor. None: the default."""

    executor: Annotated[
        Engine,
        typer.Option(
            rich_help_panel=EXECUTION,
            help="local: processes on this machine; ray: a Ray cluster (extra `ray`); slurm: jobs "
            "of Slurm (extra `slurm`). The results are identical.",
        ),
    ] = "local"
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            "-j",
            min=1,
            rich_help_panel=EXECUTION,
            help="Largest number of tasks at a time. Default: the cores of this machine, the CPUs "
            "of the Ray cluster, or --array-size.",
        ),
    ] = None
    address: AddressOption = None
    partition: Annotated[
        str | None,
        typer.Option(rich_help_panel=SLURM, help="Partition. Default: that of the cluster."),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            rich_help_panel=SLURM,
            help="Time limit of a job, such as 90 (minutes), 1:30:00 or 2-00:00:00. "
            "Default: 1:00:00.",
        ),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            rich_help_panel=SLURM,
            help="Memory of a job, such as 4G or 512M. Default: that of the cluster.",
        ),
    ] = None
    array_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            rich_help_panel=SLURM,
            help="Largest number of jobs of an array; each job runs several tasks. Default: 100.",
        ),
    ] = None
    jobs_folder: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=SLURM,
            help="Folder for scripts, logs and results of the jobs, on a file system that all "
            "nodes share. Default: slurm-jobs.",
        ),
    ] = None

    def settings(self) -> ExecutorSettings:
        """Return the settings of the executor."""
        from hpcosim_experiments.executors import Local, Ray, Slurm

        slurm: dict[str, Any] = {
            "partition": self.partition,
            "time_min": None if self.time is None else minutes_of(self.time),
            "memory_mb": None if self.memory is None else megabytes_of(self.memory),
            "array_size": self.array_size,
            "folder": self.jobs_folder,
        }
        names = ("--partition", "--time", "--memory", "--array-size", "--jobs-folder")
        if self.executor != "slurm":
            _check_absent(dict(zip(names, slurm.values(), strict=True)), "slurm")
        if self.executor != "ray":
            _check_absent({"--address": self.address}, "ray")
        match self.executor:
            case "local":
                return Local(workers=self.workers)
            case "ray":
                return Ray(address=self.address, workers=self.workers)
            case "slurm":
                given = {name: value for name, value in slurm.items() if value is not None}
                return Slurm(workers=self.workers, **given)


DEFAULT = Execution()


def minutes_of(time: str) -> int:
    """Return a time in Slurm's notation in minutes, rounded up.

    Args:
        time: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M` or `D-H:M:S`.
    """
    days, dash, clock = time.rpartition("-")
    parts = clock.split(":")
    written = [*parts, days] if dash else parts
    if not all(re.fullmatch(r"\d{1,9}", part) for part in written) or len(parts) > 3:
        raise typer.BadParameter(
            f"--time: expected minutes, H:M:S or D-H:M:S, such as 90 or 2-00:00:00, got {time!r}"
        )
    numbers = [int(part) for part in parts]
    if dash or len(numbers) == 3:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    else:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    total_s = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    if total_s == 0:
        raise typer.BadParameter("--time: expected a time > 0, got 0")
    return -(-total_s // 60)


def megabytes_of(memory: str) -> int:
    """Return a size in Slurm's notation, such as 4G, 512M or 700 (MB), in MB."""
    found = re.fullmatch(r"(\d{1,9})([MGT]?)B?", memory.upper())
    if found is None or not int(found[1]):
        raise typer.BadParameter(f"--memory: expected a size such as 4G or 512M, got {memory!r}")
    return int(found[1]) * {"": 1, "M": 1, "G": 1024, "T": 1024**2}[found[2]]


def _check_absent(options: dict[str, Any], executor: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise typer.BadParameter(f"{name} applies only to --executor {executor}")
