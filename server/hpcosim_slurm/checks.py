"""What a mode needs, and that only one bridge acts on a partition."""

from __future__ import annotations

import fcntl
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from platformdirs import site_runtime_path, user_state_path

from hpcosim_slurm.config import ClusterConfig, Mode, Rights, check_rights, read_config, read_rights
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.reading import read_state
from hpcosim_slurm.state import ClusterState
from hpcosim_slurm.tools import Tools

PROGRAMS = ("squeue", "scontrol")
ACTING_PROGRAMS = ("scancel",)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a bridge is asked to do."""

    mode: Mode
    partitions: Sequence[str] = ()
    waiting: Sequence[str] = ()
    power: bool = False


@dataclass(frozen=True, slots=True)
class CheckedCluster:
    """A cluster that fulfils what a mode needs."""

    config: ClusterConfig
    rights: Rights
    state: ClusterState


def check_cluster(tools: Tools, wanted: Wanted) -> CheckedCluster:
    """Check that a cluster fulfils what a mode needs. Nothing is changed."""
    acting = wanted.mode != "shadow"
    for program in PROGRAMS + (ACTING_PROGRAMS if acting else ()):
        tools.find(program)
    config = read_config(tools)
    rights = read_rights(tools, config)
    check_rights(rights, wanted.mode, power=wanted.power)
    state = read_state(tools)
    check_partitions(state, wanted)
    if wanted.power and not (config.suspend_program and config.resume_program):
        raise SlurmError(
            "the cluster cannot switch nodes: expected SuspendProgram and ResumeProgram in "
            "slurm.conf; set them, or do not switch nodes"
        )
    return CheckedCluster(config, rights, state)


def check_partitions(state: ClusterState, wanted: Wanted) -> None:
    """Check the partitions of a mode.

    Raises:
        SlurmError: one is missing or has another state than expected.
    """
    for name in [*wanted.partitions, *wanted.waiting]:
        if name not in state.partitions:
            known = ", ".join(state.partitions) or "none"
            raise SlurmError(f"unknown partition {name}; the partitions are: {known}")
    if wanted.mode != "shadow" and not wanted.partitions:
        raise SlurmError(f"mode {wanted.mode} needs the names of the partitions to act on")
    if wanted.mode == "place" and not wanted.waiting:
        raise SlurmError("mode place needs a partition in which jobs wait: --waiting-partition")
    if wanted.waiting and len(wanted.waiting) != len(wanted.partitions):
        raise SlurmError(
            f"{len(wanted.partitions)} --partition and {len(wanted.waiting)} --waiting-partition: "
            "expected one in which jobs wait for each in which they start, in the same order"
        )
    names = [*wanted.partitions, *wanted.waiting]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise SlurmError(
            f"partition {twice[0]} is named twice; expected different partitions: jobs cannot wait "
            "in a partition in which they start, or in which those of another one wait"
        )
    for name, partition in zip(wanted.waiting, wanted.partitions, strict=False):
        _check_waiting(state, name, partition, is_down=wanted.mode != "shadow")


def _check_waiting(state: ClusterState, name: str, partition: str, *, is_down: bool) -> None:
    if is_down and state.partitions[name].is_up:
        raise SlurmError(
            f"partition {name} is up, so its jobs start by themselves: expected State=DOWN; "
            f"scontrol update PartitionName={name} State=DOWN"
        )
    allowed = set(state.partitions[name].nodes)
    missing = sorted(set(state.partitions[partition].nodes) - allowed)
    if missing:
        raise SlurmError(
            f"partition {name} lacks node {missing[0]} of {partition}: expected all of its nodes, "
            "so that Slurm accepts all jobs that fit on them"
        )


def lock_folder() -> Path:
    """Return the folder of locks: of the machine for root, otherwise of the user."""
    if os.geteuid() == 0:
        return site_runtime_path("hpcosim") / "slurm"
    return user_state_path("hpcosim") / "slurm"


@contextmanager
def exclusive(cluster: str, partitions: Iterable[str], folder: Path) -> Iterator[None]:
    """Hold the locks of partitions."""
    with ExitStack() as stack:
        for partition in sorted(set(partitions)):
            stack.enter_context(_locked(cluster, partition, folder))
        yield


@contextmanager
def _locked(cluster: str, partition: str, folder: Path) -> Iterator[None]:
    path = folder / f"{_file_name(cluster)}+{_file_name(partition)}.lock"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SlurmError(f"{path}: cannot lock partition {partition}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            raise SlurmError(
                f"another bridge acts on partition {partition} of cluster {cluster} (process "
                f"{owner}, {path}): end it, or name other partitions"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _file_name(name: str) -> str:
    """Return a file name; different names give different ones."""
    return re.sub(r"[^A-Za-z0-9_.-]", lambda found: f"%{ord(found[0]):x}_", name)
