"""What Batsim's output files tell of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

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
