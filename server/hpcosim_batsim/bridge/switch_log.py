"""`SwitchLog`: the pstate changes of hosts, request by request, for the output files.

The simulation records the changes of each host, but not which of them one request caused. Batsim
writes the energy of all hosts at each request and at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

SWITCHING_ON, SWITCHING_OFF = -1, -2
"""Values of `PstateChange.pstate` while hosts change to a computation or to a sleep pstate."""

SwitchState = Literal["idle", "sleeping", "switching_on", "switching_off"]


class StateEntry(NamedTuple):
    """Hosts entered a state because of a request.

    Attributes:
        after: number of starts and ends of jobs in the recording before it.
        time_s: simulated time, s.
        hosts: the hosts; empty: the request changed only pstates.
        state: their new state.
        counted: Batsim counts the states of all hosts then. It does so at a request, and when the
            last host of a request has switched.
    """

    after: int
    time_s: float
    hosts: Sequence[int]
    state: SwitchState
    counted: bool


class PstateChange(NamedTuple):
    """Hosts entered a pstate at the same time.

    Attributes:
        time_s: simulated time, s.
        hosts: the hosts.
        pstate: number of the pstate, `SWITCHING_ON` or `SWITCHING_OFF`.
    """

    time_s: float
    hosts: Sequence[int]
    pstate: int


class EnergyEntry(NamedTuple):
    """Energy at a request or at its end.

    Attributes:
        after: as in `StateEntry`.
        time_s: simulated time, s.
        energy_j: energy of all hosts since the start of the run, J.
        idle_w: power of all hosts if all were idle, W.
    """

    after: int
    time_s: float
    energy_j: float
    idle_w: float


class SwitchLog:
    """The pstate changes of a run in chronological order.

    Args:
        initial: pstate of each host at time 0.

    Attributes:
        requests: number of requests.
        hosts: number of hosts of all requests together.
        states: changes of the states of hosts.
        pstates: changes of pstates, the initial pstates first.
        energy: energy before each request and after its end.
    """

    def __init__(self, initial: Sequence[int]) -> None:
        self.requests = 0
        self.hosts = 0
        self.states: list[StateEntry] = []
        self.pstates = [
            PstateChange(0.0, [host for host, each in enumerate(initial) if each == pstate], pstate)
            for pstate in sorted(set(initial))
        ]
        self.energy: list[EnergyEntry] = []

    def requested(
        self, before: EnergyEntry, hosts: Sequence[int], switching: Sequence[int], *, on: bool
    ) -> None:
        """Add a request.

        Args:
            before: the energy before it.
            hosts: the hosts of the request.
            switching: those that need time to switch.
            on: the requested pstate is a computation pstate.
        """
        self.requests += 1
        self.hosts += len(hosts)
        self.energy.append(before)
        after, time_s = before.after, before.time_s
        state: SwitchState = "switching_on" if on else "switching_off"
        self.states.append(StateEntry(after, time_s, switching, state, counted=True))
        self.pstates.append(PstateChange(time_s, hosts, SWITCHING_ON if on else SWITCHING_OFF))

    def switched(self, after: int, time_s: float, host: int, *, on: bool, last: bool) -> None:
        """Add the end of the switch of a host.

        Args:
            after: as in `StateEntry`.
            time_s: simulated time, s.
            host: the host.
            on: it is on; otherwise it is asleep.
            last: it is the last host of its request.
        """
        state: SwitchState = "idle" if on else "sleeping"
        self.states.append(StateEntry(after, time_s, (host,), state, counted=last))

    def completed(self, after: EnergyEntry, hosts: Sequence[int], pstate: int) -> None:
        """Add the end of a request.

        Args:
            after: the energy after it.
            hosts: the hosts of the request.
            pstate: the pstate.
        """
        self.energy.append(after)
        self.pstates.append(PstateChange(after.time_s, hosts, pstate))
