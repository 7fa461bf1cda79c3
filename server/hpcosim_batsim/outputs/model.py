"""Types of a run's results in Batsim's terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from hpcosim_batsim.bridge.jobs import FinalState
from hpcosim_batsim.bridge.switch_log import PstateChange

HostState = Literal["idle", "computing", "sleeping", "switching_on", "switching_off", "unavailable"]


MIN_RUN_S = 1e-5
"""Run time in Batsim's files of a job that ends when it starts, s."""


class JobOutcome(Struct, kw_only=True):
    """A job that has ended.

    Attributes:
        name: name of the job, without the workload's.
        workload: name of its workload.
        profile: name of its profile.
        submit_s: submission time, s.
        res: number of requested hosts.
        walltime_s: maximum run time, s; None: unlimited.
        state: final state.
        start_s: start time, s; None: the job never ran.
        end_s: end time, s; None: the job never ran.
        hosts: numbers of its hosts.
        energy_j: energy of its hosts while it ran, J; None: not simulated.
        metadata: text that the scheduler set.
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
    """Hosts entered a state at the same time.

    Attributes:
        time_s: simulated time, s.
        hosts: the hosts.
        state: their new state.
        counted: `PREFIX_machine_states.csv` has a row then.
    """

    time_s: float
    hosts: Sequence[int]
    state: HostState
    counted: bool = True


class EnergyPoint(Struct, frozen=True):
    """Energy of all hosts up to an event.

    Attributes:
        time_s: simulated time, s.
        energy_j: energy since the start of the run, J.
        kind: the event: a job started (`s`), a job ended (`e`), or pstates changed or were
            requested (`p`).
        idle_w: power of all hosts if all were idle, W.
    """

    time_s: float
    energy_j: float
    kind: Literal["s", "e", "p"]
    idle_w: float


class BatsimOutcome(Struct, kw_only=True):
    """Result of a run, for Batsim's output files.

    Attributes:
        hosts: number of hosts.
        jobs: jobs in the order in which they ended.
        states: state changes of hosts, by time; all hosts are idle before the first.
        pstates: pstate changes of hosts, by time, including the initial pstates; None: energy
            was not simulated.
        energy: energy over time; None: energy was not simulated.
        start_s: start of the run, s.
        energy_before_j: energy before the first submission, J.
        grouped_switches: number of requests to change pstates.
        machine_switches: number of hosts of these requests together.
        scheduling_s: wall-clock time of the scheduler, s; None: not measured.
        simulation_s: wall-clock time of the run, s; None: not measured.
        version: name and version of the simulator.
    """

    hosts: int
    jobs: Sequence[JobOutcome]
    states: Sequence[StateChange]
    pstates: Sequence[PstateChange] | None = None
    energy: Sequence[EnergyPoint] | None = None
    start_s: float = 0.0
    energy_before_j: float = 0.0
    grouped_switches: int = 0
    machine_switches: int = 0
    scheduling_s: float | None = None
    simulation_s: float | None = None
    version: str
