"""State of the hosts of a run: pstates, running jobs, availability, and their nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple

import hpcosim_protocol as protocol
from hpcosim_batsim.bridge.event_queue import Wait
from hpcosim_batsim.bridge.executions import SteppedEngine
from hpcosim_batsim.inputs.platform_model import BatsimPlatform, Host
from hpcosim_protocol import NodeGroup, SetNodePower

GIGA = 1e9
MAX_KINDS = 10_000  # of those that are kept: loads of hosts that share links rarely repeat

SWITCHING_ON, SWITCHING_OFF = -1, -2
"""Values of `PstateChange.pstate` while hosts change to a computation or to a sleep pstate."""

SwitchState = Literal["idle", "sleeping", "switching_on", "switching_off"]


@dataclass(slots=True)
class PstateSwitch:
    """A request to set the pstate of hosts.

    Attributes:
        wait: since the request.
        remaining: number of hosts that still switch; 0: the request is complete.
    """

    hosts: Sequence[int]
    pstate: int
    wait: Wait
    remaining: int = 0


class HostStates:
    """State of every host, in addition to the node states of the simulation.

    Args:
        simulation: the simulation; its cluster is that of `cluster_of`.

    Attributes:
        pstates: pstate of each host; of a switching host, the requested pstate.
        meters: energy of each host; None: nobody asks for it.
    """

    def __init__(
        self, platform: BatsimPlatform, simulation: SteppedEngine, slots: int, *, energy: bool
    ) -> None:
        self._platform = platform
        self._simulation = simulation
        self._slots = slots
        self._energy = energy
        self.pstates = [host.pstate for host in platform.hosts]
        self.running = [0] * len(platform.hosts)
        self.unavailable: set[int] = set()
        self.log = SwitchLog(self.pstates)
        self.meters: HostMeters | None = None
        # Loads of shared hosts, by job.
        self._loads: list[dict[int, float]] = [{} for _ in platform.hosts]
        self._switches: dict[int, PstateSwitch] = {}
        self._first_alike = _first_alike(platform.hosts)
        self._kind = lru_cache(MAX_KINDS)(self._new_kind)

    def start_meters(self) -> None:
        """Measure the energy of each host from now on."""
        self.meters = HostMeters(self._power_w, len(self.pstates), self._simulation.now_s)

    def update_meters(self, hosts: Sequence[int]) -> None:
        """Note that the power of hosts may have changed now."""
        if self.meters is not None:
            self.meters.update(hosts, self._simulation.now_s)

    def _power_w(self, host: int) -> float:
        cluster = self._simulation.cluster
        (level,) = cluster.levels([host])
        return cluster.power_w(host, self._simulation.power.state[host], level)

    def name(self, host: int) -> str:
        """Return the number and name of a host, for messages."""
        return f"host {host} ({self._platform.hosts[host].name})"

    def check_available(self, hosts: Sequence[int]) -> None:
        """Check that hosts can start a job."""
        power = self._simulation.power.state
        for host in hosts:
            if host in self.unavailable:
                raise ValueError(f"{self.name(host)} is unavailable")
            if power[host] != "on":
                state = f"{power[host]}, in pstate {self.pstates[host]}"
                raise ValueError(f"{self.name(host)} is {state}")
            if self.running[host] >= self._slots:
                raise ValueError(f"{self.name(host)} runs a job")

    def set_loads(
        self, job: int, hosts: Sequence[int], loads: Mapping[int, float], speed: float = 1.0
    ) -> None:
        """Set the load of hosts by a job, which determines their power while they run jobs.

        Args:
            loads: load by host, 0 to 1; default 0.
        """
        if not self._energy:
            return
        by_load: dict[float, list[int]] = {}
        for host in hosts:
            by_load.setdefault(loads.get(host, 0.0) * speed, []).append(host)
        for load, members in by_load.items():
            if self._slots == 1:
                self._set_kind(members, load=load)
                continue
            for host in members:
                self._loads[host][job] = load
                self._set_shared_kind(host)

    def end_job(self, job: int, hosts: Sequence[int]) -> None:
        """Note that a job has ended on its hosts."""
        for host in hosts:
            self.running[host] -= 1
        if self._slots > 1:
            for host in hosts:
                if self._loads[host].pop(job, None) is not None and self._loads[host]:
                    self._set_shared_kind(host)
        self.update_meters(hosts)

    def set_pstate(
        self, hosts: Sequence[int], pstate: int, wait: Wait, *, switches: bool = True
    ) -> PstateSwitch:
        """Set the pstate of hosts. A change between two computation pstates takes no time.

        The caller sets the loads of hosts that run jobs again.

        Args:
            wait: since now.
            switches: the request counts as a switch, as all requests do in Batsim 4; in Batsim 5
                a change between two computation pstates does not.

        Returns:
            The request; its `remaining` is 0 if no host needs time to switch.
        """
        for host in hosts:
            self._check_switch(host, pstate)
        switch = PstateSwitch(hosts, pstate, wait)
        power = self._simulation.power.state
        on = self._platform.hosts[hosts[0]].computes_in(pstate)
        switching = [host for host in hosts if power[host] == "sleeping" or not on]
        if switches:
            self.log.requested(self._energy_now(), hosts, switching, on=on)
        for host in hosts:
            if power[host] == "sleeping":
                self.pstates[host] = pstate
                self._start_switch(host, switch, on=True)
            elif self._platform.hosts[host].computes_in(pstate):
                self.pstates[host] = pstate
                if self._loads[host]:
                    self._set_shared_kind(host)
                else:
                    self._set_kind([host])
            else:
                self._set_kind([host], sleeps_in=pstate)
                self.pstates[host] = pstate
                self._start_switch(host, switch, on=False)
        self.update_meters(hosts)
        if not switch.remaining:
            self.log.completed(self._energy_now(), hosts, pstate)
        return switch

    def complete_switch(self, host: int) -> PstateSwitch:
        """Record that a host reached the requested pstate, and return the request."""
        on = self._simulation.power.state[host] == "on"
        if on:
            self._set_kind([host])
        self.update_meters([host])
        switch = self._switches.pop(host)
        switch.remaining -= 1
        last = not switch.remaining
        self.log.switched(self._job_changes(), self._simulation.now_s, host, on=on, last=last)
        if last:
            self.log.completed(self._energy_now(), switch.hosts, switch.pstate)
        return switch

    def _job_changes(self) -> int:
        return len(self._simulation.recording.changes)

    def _energy_now(self) -> EnergyEntry:
        now_s, cluster = self._simulation.now_s, self._simulation.cluster
        energy_j = cluster.energy_j(now_s)
        return EnergyEntry(self._job_changes(), now_s, energy_j, cluster.idle_power_w)

    def _start_switch(self, host: int, switch: PstateSwitch, *, on: bool) -> None:
        switch.remaining += 1
        self._switches[host] = switch
        self._simulation.carry_out(SetNodePower(host, "on" if on else "sleeping"))

    def _set_shared_kind(self, host: int) -> None:
        loads = self._loads[host]
        self._set_kind([host], load=min(math.fsum(loads.values()), 1.0), jobs=len(loads))

    def _set_kind(
        self,
        hosts: Sequence[int],
        *,
        load: float = 0.0,
        jobs: int = 1,
        sleeps_in: int | None = None,
    ) -> None:
        alike: dict[tuple[int, int], list[int]] = {}
        for host in hosts:
            alike.setdefault((self._first_alike[host], self.pstates[host]), []).append(host)
        for (first, pstate), members in alike.items():
            kind = self._kind(first, pstate, load, jobs, sleeps_in)
            self._simulation.node_kinds.change(members, kind)
        self.update_meters(hosts)

    def _new_kind(
        self, host: int, pstate: int, load: float, jobs: int, sleeps_in: int | None
    ) -> NodeGroup:
        return kind_of(
            self._platform.hosts[host],
            pstate,
            self._slots,
            energy=self._energy,
            load=load,
            jobs=jobs,
            sleeps_in=sleeps_in,
        )

    def _check_switch(self, host: int, pstate: int) -> None:
        description, power = self._platform.hosts[host], self._simulation.power.state[host]
        if not 0 <= pstate < len(description.speeds):
            raise ValueError(
                f"{self.name(host)} has no pstate {pstate}; expected 0 to "
                f"{len(description.speeds) - 1}"
            )
        if pstate in description.transition_pstates:
            raise ValueError(
                f"pstate {pstate} of {self.name(host)} is a transition pstate of sleep_pstates "
                "and cannot be requested"
            )
        if power not in ("on", "sleeping"):
            raise ValueError(f"{self.name(host)} is {power}")
        if self.running[host] and not description.computes_in(pstate):
            raise ValueError(f"{self.name(host)} runs a job")
        if power == "sleeping" and not description.computes_in(pstate):
            raise ValueError(
                f"{self.name(host)} is asleep in pstate {self.pstates[host]}; expected a "
                f"computation pstate, got the sleep pstate {pstate}"
            )


class HostMeters:
    """Energy of each host.

    Args:
        power_w: returns the present power of a host, W.
    """

    def __init__(self, power_w: Callable[[int], float], hosts: int, now_s: float) -> None:
        self._power_of = power_w
        self._power_w = [power_w(host) for host in range(hosts)]
        self._energy_j = [0.0] * hosts
        self._since_s = [now_s] * hosts

    def update(self, hosts: Sequence[int], now_s: float) -> None:
        """Note that the power of hosts may have changed now."""
        for host in hosts:
            self._energy_j[host] = self.energy_j(host, now_s)
            self._since_s[host] = now_s
            self._power_w[host] = self._power_of(host)

    def power_w(self, host: int) -> float:
        """Return the present power of a host, W."""
        return self._power_w[host]

    def energy_j(self, host: int, now_s: float) -> float:
        """Return the energy of a host up to now, J."""
        return self._energy_j[host] + self._power_w[host] * (now_s - self._since_s[host])


def _first_alike(hosts: Sequence[Host]) -> list[int]:
    """Return for each host the first one with the same speeds and power."""
    first: dict[tuple[object, ...], int] = {}
    return [
        first.setdefault((host.speeds, host.cores, host.watts, *host.sleep_states.items()), number)
        for number, host in enumerate(hosts)
    ]


class StateEntry(NamedTuple):
    """Hosts entered a state because of a request.

    Attributes:
        after: number of starts and ends of jobs in the recording before it.
        hosts: the hosts; empty: the request changed only pstates.
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
        pstate: number of the pstate, `SWITCHING_ON` or `SWITCHING_OFF`.
    """

    time_s: float
    hosts: Sequence[int]
    pstate: int


class EnergyEntry(NamedTuple):
    """Energy at a request or at its end.

    Attributes:
        after: as in `StateEntry`.
        energy_j: energy of all hosts since the start of the run, J.
        idle_w: power of all hosts if all were idle, W.
    """

    after: int
    time_s: float
    energy_j: float
    idle_w: float


class SwitchLog:
    """The pstate changes of a run in chronological order.

    Attributes:
        requests: number of requests.
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
        """Add a request."""
        self.requests += 1
        self.hosts += len(hosts)
        self.energy.append(before)
        after, time_s = before.after, before.time_s
        state: SwitchState = "switching_on" if on else "switching_off"
        self.states.append(StateEntry(after, time_s, switching, state, counted=True))
        self.pstates.append(PstateChange(time_s, hosts, SWITCHING_ON if on else SWITCHING_OFF))

    def switched(self, after: int, time_s: float, host: int, *, on: bool, last: bool) -> None:
        """Add the end of the switch of a host."""
        state: SwitchState = "idle" if on else "sleeping"
        self.states.append(StateEntry(after, time_s, (host,), state, counted=last))

    def completed(self, after: EnergyEntry, hosts: Sequence[int], pstate: int) -> None:
        """Add the end of a request."""
        self.energy.append(after)
        self.pstates.append(PstateChange(after.time_s, hosts, pstate))


def cluster_of(
    platform: BatsimPlatform, pstates: Sequence[int], slots: int, *, energy: bool
) -> protocol.Platform:
    """Return the simulation's cluster with idle hosts.

    Args:
        energy: use the power of the hosts; otherwise all power is the default of `Processor`.
    """
    kinds = (
        kind_of(host, pstate, slots, energy=energy)
        for host, pstate in zip(platform.hosts, pstates, strict=True)
    )
    return protocol.Platform(
        tuple(
            NodeGroup(len(list(alike)), kind.processors, 0.0, kind.power_states)
            for kind, alike in groupby(kinds)
        )
    )


def kind_of(
    host: Host,
    pstate: int,
    slots: int,
    *,
    energy: bool,
    load: float = 0.0,
    jobs: int = 1,
    sleeps_in: int | None = None,
) -> NodeGroup:
    """Return the node that represents a host.

    Args:
        pstate: pstate in which it computes.
        load: fraction of its speed in use while it runs jobs, 0 to 1.
        jobs: number of jobs that it runs then. Each draws an equal part of the power of this load.
        sleeps_in: pstate in which it sleeps while switched off; None: it cannot be switched off.
    """
    clock_ghz = host.flops(pstate) / GIGA
    states = None if sleeps_in is None else _power_states(host, sleeps_in, energy=energy)
    if not energy:
        return NodeGroup(1, (protocol.Processor(slots, clock_ghz),), 0.0, states)
    watts = host.watts_in(pstate)
    processor = protocol.Processor(
        cores=slots,
        clock_ghz=clock_ghz,
        static_w=watts.idle_w,
        dynamic_w=(watts.at(load) - watts.idle_w) / jobs,
    )
    return NodeGroup(1, (processor,), 0.0, states)


def _power_states(host: Host, sleeps_in: int, *, energy: bool) -> protocol.PowerStates:
    """Return power and switching times of a sleep pstate.

    As in Batsim, a transition takes the time of 1 flop in its transition pstate.
    """
    state = host.sleep_states[sleeps_in]
    on_s, off_s = host.switch_time_s(state.on), host.switch_time_s(state.off)
    if not energy:
        return protocol.PowerStates(0.0, on_s, 0.0, off_s, 0.0)
    return protocol.PowerStates(
        sleep_w=host.watts_in(sleeps_in).idle_w,
        switch_on_s=on_s,
        switch_on_w=host.watts_in(state.on).all_w,
        switch_off_s=off_s,
        switch_off_w=host.watts_in(state.off).all_w,
    )
