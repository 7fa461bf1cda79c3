"""Types of Batsim's workload files: jobs, profiles and workloads."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

Json = Mapping[str, Any]
MAX_TASKS = 100_000  # tasks of a composed profile, and phases of a process in a usage trace

NO_FIELDS: Json = MappingProxyType({})


class Delay(Struct, frozen=True, kw_only=True):
    """Profile `delay`: the hosts wait, at idle power.

    Attributes:
        delay_s: duration, s.
    """

    name: str
    ret: int = 0
    raw: Json = NO_FIELDS
    delay_s: float


class Parallel(Struct, frozen=True, kw_only=True):
    """Profile `parallel`: computation and communication per host.

    Attributes:
        cpu_flop: computation of each host, flop.
        com_bytes: communication matrix, row by row: bytes that each host sends to each host;
            empty: none.
    """

    name: str
    ret: int = 0
    raw: Json = NO_FIELDS
    cpu_flop: tuple[float, ...]
    com_bytes: tuple[float, ...] = ()


class ParallelHomogeneous(Struct, frozen=True, kw_only=True):
    """Profiles `parallel_homogeneous` and `parallel_homogeneous_total`: equal work on every host.

    Attributes:
        total: the amounts are totals over all hosts (`parallel_homogeneous_total`); otherwise
            they are per host and per pair of hosts (`parallel_homogeneous`).
        per_pair: a total of the communication is shared by the pairs of hosts, as in Batsim 5;
            otherwise each pair gets the total divided by the number of hosts, as in Batsim 4.
    """

    name: str
    ret: int = 0
    raw: Json = NO_FIELDS
    total: bool = False
    per_pair: bool = False
    cpu_flop: float
    com_bytes: float


class UsageReplay(Struct, frozen=True, kw_only=True):
    """Profile `usage_trace`, in Batsim 5 `TraceReplayProfile` of the type `FractionalComputation`.

    Attributes:
        phases: phases of each process: fraction of the cores of its host in use, 0 to 1, and
            computation of each of these cores, flop.
    """

    name: str
    ret: int = 0
    raw: Json = NO_FIELDS
    phases: tuple[tuple[tuple[float, float], ...], ...]


class StorageTransfer(Struct, frozen=True, kw_only=True):
    """Profile `parallel_homogeneous_pfs`: every host reads from a storage host and writes to it.

    Attributes:
        read_bytes: bytes from the storage host to each process.
        write_bytes: bytes from each process to the storage host.
        storage: label of the storage host in `storage_mapping`.
    """

    name: str
    ret: int = 0
    raw: Json = NO_FIELDS
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    storage: str = "pfs"


class DataStaging(Struct, frozen=True, kw_only=True):
    """Profile `data_staging`: a message between two storage hosts; hosts of the job are idle.

    Attributes:
        source: label of the storage host that sends, in `storage_mapping`.
        target: label of the storage host that receives.
    """

    name: str
    ret: int = 0
    raw: Json = NO_FIELDS
    size_bytes: float
    source: str
    target: str


class Composed(Struct, frozen=True, kw_only=True):
    """Profile `composed`: a sequence of profiles."""

    name: str
    ret: int = 0
    raw: Json = NO_FIELDS
    sequence: tuple[str, ...]
    repeat: int = 1


BatsimProfile = (
    Delay | Parallel | ParallelHomogeneous | UsageReplay | StorageTransfer | DataStaging | Composed
)


class BatsimJob(Struct, frozen=True, kw_only=True):
    """A job of a workload file.

    Attributes:
        submit_s: submission time, s; a job with a negative one is submitted at 0.
        res: number of requested hosts.
        walltime_s: maximum run time, s; None: unlimited.
        ranks: place in the allocation of the host of each process of a replayed trace; empty: the
            processes take the hosts in turn.
        raw: the JSON object, including unknown fields; its `id` is the full id.
    """

    workload: str
    name: str
    submit_s: float
    res: int
    profile: str
    walltime_s: float | None = None
    ranks: tuple[int, ...] = ()
    raw: Json = NO_FIELDS

    @property
    def full_id(self) -> str:
        """Its id in messages, `WORKLOAD!NAME`."""
        return f"{self.workload}!{self.name}"

    @property
    def order(self) -> tuple[float, str]:
        """Sort key of the submission order; ids are compared as text: `w0!10` < `w0!2`."""
        return self.submit_s, self.full_id


class BatsimWorkload(Struct, frozen=True, kw_only=True):
    """A workload file.

    Attributes:
        name: `w0` for the first, then `w1` and so on.
        nb_res: number of hosts for which the workload was made; not a limit.
        jobs: the jobs in order of submission.
        profiles: profiles by name, including that of every job.
    """

    name: str
    path: str
    nb_res: int
    jobs: tuple[BatsimJob, ...]
    profiles: Mapping[str, BatsimProfile]


def used_profiles(workload: BatsimWorkload) -> dict[str, BatsimProfile]:
    """Return the profiles that the jobs of a workload use, also as a part of another, by name."""
    used: set[str] = set()
    names = [job.profile for job in workload.jobs]
    while names:
        name = names.pop()
        if name not in used:
            used.add(name)
            profile = workload.profiles[name]
            if isinstance(profile, Composed):
                names.extend(profile.sequence)
    return {name: profile for name, profile in workload.profiles.items() if name in used}
