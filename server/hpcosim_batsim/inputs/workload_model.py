"""Jobs, their profiles, and workloads, as Batsim's files have them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

Json = Mapping[str, Any]
NOTHING: Json = MappingProxyType({})


class Delay(Struct, frozen=True, kw_only=True):
    """Hosts that wait and compute nothing: their power is as when idle.

    Attributes:
        name: the profile's.
        ret: what its jobs return; not 0: they have failed.
        raw: the object as it was written, with all further fields.
        delay_s: for how long.
    """

    name: str
    ret: int = 0
    raw: Json = NOTHING
    delay_s: float


class Parallel(Struct, frozen=True, kw_only=True):
    """Work told host by host, `parallel`; fields not named here are as in `Delay`.

    Attributes:
        cpu_flop: of each host.
        com_bytes: row by row, what each host sends to each; empty: nothing.
    """

    name: str
    ret: int = 0
    raw: Json = NOTHING
    cpu_flop: tuple[float, ...]
    com_bytes: tuple[float, ...] = ()


class ParallelHomogeneous(Struct, frozen=True, kw_only=True):
    """The same work on every host; fields not named here are as in `Delay`.

    Attributes:
        total: the amounts are those of all hosts together (`parallel_homogeneous_total`), not
            of each host and each pair (`parallel_homogeneous`).
        cpu_flop: computation.
        com_bytes: communication.
    """

    name: str
    ret: int = 0
    raw: Json = NOTHING
    total: bool = False
    cpu_flop: float
    com_bytes: float


class Composed(Struct, frozen=True, kw_only=True):
    """Profiles one after the other; fields not named here are as in `Delay`.

    Attributes:
        sequence: names of profiles of the same workload.
        repeat: how often the whole sequence is run.
    """

    name: str
    ret: int = 0
    raw: Json = NOTHING
    sequence: tuple[str, ...]
    repeat: int = 1


Profile = Delay | Parallel | ParallelHomogeneous | Composed


class Job(Struct, frozen=True, kw_only=True):
    """A job as its workload has it.

    Attributes:
        workload: the name of its workload.
        name: its own, unique there.
        submit_s: when, s.
        res: hosts asked for.
        profile: name of its profile, of the same workload.
        walltime_s: the most it may run, s; None: any time.
        raw: the object as it was written, with all further fields, its `id` the full one.
    """

    workload: str
    name: str
    submit_s: float
    res: int
    profile: str
    walltime_s: float | None = None
    raw: Json = NOTHING

    @property
    def full_id(self) -> str:
        """The name it goes by on the wire: `w0!name`."""
        return f"{self.workload}!{self.name}"

    @property
    def order(self) -> tuple[float, str]:
        """What jobs are submitted in the order of; `w0!10` is before `w0!2`."""
        return self.submit_s, self.full_id


class Workload(Struct, frozen=True, kw_only=True):
    """A workload file.

    Attributes:
        name: `w0` for the first, then `w1` and so on.
        path: the file as it was named.
        nb_res: hosts it was made for, as it says; not a limit.
        jobs: in the order of submission.
        profiles: by name; every job's is there.
    """

    name: str
    path: str
    nb_res: int
    jobs: tuple[Job, ...]
    profiles: Mapping[str, Profile]
