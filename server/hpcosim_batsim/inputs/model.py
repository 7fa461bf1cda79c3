"""What Batsim's files are about: jobs, profiles, hosts; and what comes of a run of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct

Json = Mapping[str, Any]
NOTHING: Json = MappingProxyType({})


# Workloads


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


# Platforms


class Watts(Struct, frozen=True):
    """The power of a host in one of its power states.

    Attributes:
        idle_w: while it computes nothing.
        epsilon_w: as soon as it computes, however little.
        all_w: while it computes as fast as it can; between these it is linear.
    """

    idle_w: float
    epsilon_w: float
    all_w: float

    def at(self, load: float) -> float:
        """Return the power at a load from 0 to 1, W."""
        return self.epsilon_w + (self.all_w - self.epsilon_w) * load if load > 0 else self.idle_w


class SleepState(Struct, frozen=True):
    """A power state in which a host sleeps, and the virtual ones it goes through.

    Attributes:
        sleep: its number.
        off: that of the virtual state in which it is switched off.
        on: that of the virtual state in which it is switched on.
    """

    sleep: int
    off: int
    on: int


class Host(Struct, frozen=True, kw_only=True):
    """A host that jobs run on.

    Attributes:
        name: the host's.
        speeds: flop/s of one core in each power state.
        cores: how many cores; a task has them all.
        pstate: the power state it begins in.
        watts: its power in each power state; empty: the platform does not say.
        wattage_off_w: while it is off; None: the platform does not say.
        sleep_states: by their number.
        properties: as the platform has them, and both names of `wattage_per_state`, and `role`.
        zone_properties: of the zones it lies in, the innermost first.
    """

    name: str
    speeds: tuple[float, ...]
    cores: int = 1
    pstate: int = 0
    watts: tuple[Watts, ...] = ()
    wattage_off_w: float | None = None
    sleep_states: Mapping[int, SleepState] = MappingProxyType({})
    properties: Mapping[str, str] = MappingProxyType({})
    zone_properties: Mapping[str, str] = MappingProxyType({})

    @property
    def virtual(self) -> frozenset[int]:
        """The power states it only passes through."""
        return frozenset(
            pstate for state in self.sleep_states.values() for pstate in (state.off, state.on)
        )

    def computes_in(self, pstate: int) -> bool:
        """Tell whether jobs may run in a power state."""
        there = 0 <= pstate < len(self.speeds)
        return there and pstate not in self.sleep_states and pstate not in self.virtual

    def flops(self, pstate: int) -> float:
        """Return what it computes in a power state, all its cores together, flop/s."""
        return self.speeds[pstate] * self.cores

    def passes_s(self, virtual: int) -> float:
        """Return for how long it is in a virtual power state, in which it computes 1 flop, s."""
        return 1.0 / self.flops(virtual)


class Star(Struct, frozen=True):
    """How the hosts of a cluster are linked: each to a backbone they share.

    Attributes:
        bytes_per_s: of the link of each host.
        split: whether that is one link out and one in, each as fast; else both share it.
        latency_s: of the link of each host.
        backbone_bytes_per_s: of the backbone; None: there is none.
        backbone_latency_s: its latency.
    """

    bytes_per_s: float
    split: bool
    latency_s: float
    backbone_bytes_per_s: float | None = None
    backbone_latency_s: float = 0.0


class Platform(Struct, frozen=True, kw_only=True):
    """A platform file.

    Attributes:
        path: the file as it was named.
        hosts: those that jobs run on; a host's number is its place here, which goes by its name
            as text, so `a10` is before `a2`, as in every recording of Batsim v4.2.1.
        master: the host the scheduler is on; no job runs there.
        storage: hosts that are there for storage only.
        free: it has no links at all: communication takes no time.
        star: how the hosts that jobs run on are linked, if they are all of one cluster.
    """

    path: str
    hosts: tuple[Host, ...]
    master: Host
    storage: tuple[Host, ...] = ()
    free: bool = True
    star: Star | None = None


# What comes of a run

FinalState = Literal[
    "COMPLETED_SUCCESSFULLY",
    "COMPLETED_FAILED",
    "COMPLETED_WALLTIME_REACHED",
    "COMPLETED_KILLED",
    "REJECTED",
]
HostState = Literal["idle", "computing", "sleeping", "switching_on", "switching_off", "unavailable"]
SWITCHING_ON, SWITCHING_OFF = -1, -2
"""The power states of `PstateChange` that are a way to one."""


class JobOutcome(Struct, kw_only=True):
    """A job that is over.

    Attributes:
        name: without its workload's.
        workload: the name of its workload.
        profile: the name of its profile.
        submit_s: when it was submitted.
        res: hosts asked for.
        walltime_s: the most it could run; None: any time.
        state: how it ended.
        start_s, end_s: from when to when it ran; None: it never did.
        hosts: on which, by number.
        energy_j: what its hosts used while it ran; None: nobody asked.
        metadata: what the scheduler noted.
    """

    name: str
    workload: str
    profile: str
    submit_s: float
    res: int
    walltime_s: float | None
    state: FinalState
    start_s: float | None = None
    end_s: float | None = None
    hosts: Sequence[int] = ()
    energy_j: float | None = None
    metadata: str = ""


class StateChange(Struct, frozen=True):
    """Some hosts entered a state at once.

    Attributes:
        time_s: when.
        hosts: which.
        state: what they are from then on.
    """

    time_s: float
    hosts: Sequence[int]
    state: HostState


class PstateChange(Struct, frozen=True):
    """Some hosts entered a power state at once.

    Attributes:
        time_s: when.
        hosts: which.
        pstate: its number, `SWITCHING_ON` or `SWITCHING_OFF`.
    """

    time_s: float
    hosts: Sequence[int]
    pstate: int


class EnergyPoint(Struct, frozen=True):
    """The energy of all hosts up to an instant at which something changed.

    Attributes:
        time_s: when.
        energy_j: since the run began.
        kind: a job started (`s`) or ended (`e`), or power states changed or were asked to (`p`).
        idle_w: what all hosts would draw then if none computed.
    """

    time_s: float
    energy_j: float
    kind: Literal["s", "e", "p"]
    idle_w: float


class Outcome(Struct, kw_only=True):
    """All that Batsim's output files tell of a run.

    Attributes:
        hosts: how many there are.
        jobs: in the order in which they were over.
        states: of the hosts, in order; all are idle before.
        pstates: likewise; those at the start are among them. None: energy was not asked for.
        energy: likewise.
        start_s: when the run began.
        unpaid_j: what the hosts used before the first submission.
        grouped_switches: how many times power states were asked to change.
        scheduling_s, simulation_s: wall seconds the scheduler took, and all; None: not taken.
        version: who ran it.
    """

    hosts: int
    jobs: Sequence[JobOutcome]
    states: Sequence[StateChange]
    pstates: Sequence[PstateChange] | None = None
    energy: Sequence[EnergyPoint] | None = None
    start_s: float = 0.0
    unpaid_j: float = 0.0
    grouped_switches: int = 0
    scheduling_s: float | None = None
    simulation_s: float | None = None
    version: str
