"""State of the hosts of a run: pstates, running jobs and availability."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hpcosim_batsim.bridge.node_kinds import kind_of
from hpcosim_batsim.bridge.stepping import SteppedEngine
from hpcosim_batsim.bridge.switch_log import EnergyEntry, SwitchLog
from hpcosim_batsim.inputs.platform_model import BatsimPlatform, Host
from hpcosim_protocol import NodeGroup, SetNodePower

MAX_KINDS = 10_000  # of those that are kept: loads of hosts that share links rarely repeat


@dataclass(slots=True)
class PstateSwitch:
    """A request to set the pstate of hosts.

    Attributes:
        hosts: the hosts.
        pstate: the requested pstate.
        remaining: number of hosts that still switch; 0: the request is complete.
    """

    hosts: Sequence[int]
    pstate: int
    remaining: int


class HostStates:
    """State of every host, in addition to the node states of the simulation.

    Args:
        platform: the hosts.
        simulation: the simulation; its cluster is that of `node_kinds.cluster_of`.
        slots: maximum number of jobs on a host at the same time.
        energy: simulate power and energy.

    Attributes:
        pstates: pstate of each host; of a switching host, the requested pstate.
        running: number of running jobs of each host.
        unavailable: hosts that cannot be allocated.
        log: the changes of pstates so far.
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
        # Loads of shared hosts, by job.
        self._loads: list[dict[int, float]] = [{} for _ in platform.hosts]
        self._switches: dict[int, PstateSwitch] = {}
        self._first_alike = _first_alike(platform.hosts)
        self._kind = lru_cache(MAX_KINDS)(self._new_kind)

    def name(self, host: int) -> str:
        """Return the number and name of a host, for messages."""
        return f"host {host} ({self._platform.hosts[host].name})"

    def check_available(self, hosts: Sequence[int]) -> None:
        """Check that hosts can start a job.

        Raises:
            ValueError: a host cannot; names the host and its state.
        """
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
            job: number of the job.
            hosts: the hosts.
            loads: load by host, 0 to 1; default 0.
            speed: factor of the loads.
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

    def set_pstate(self, hosts: Sequence[int], pstate: int) -> PstateSwitch:
        """Set the pstate of hosts. A change between two computation pstates takes no time.

        Returns:
            The request; its `remaining` is 0 if no host needs time to switch.

        Raises:
            ValueError: a host cannot enter the pstate; no host is changed.
        """
        for host in hosts:
            self._check_switch(host, pstate)
        switch = PstateSwitch(hosts, pstate, 0)
        power = self._simulation.power.state
        on = self._platform.hosts[hosts[0]].computes_in(pstate)
        switching = [host for host in hosts if power[host] == "sleeping" or not on]
        self.log.requested(self._energy_now(), hosts, switching, on=on)
        for host in hosts:
            if power[host] == "sleeping":
                self.pstates[host] = pstate
                self._start_switch(host, switch, on=True)
            elif self._platform.hosts[host].computes_in(pstate):
                self.pstates[host] = pstate
                self._set_kind([host])
            else:
                self._set_kind([host], sleeps_in=pstate)
                self.pstates[host] = pstate
                self._start_switch(host, switch, on=False)
        if not switch.remaining:
            self.log.completed(self._energy_now(), hosts, pstate)
        return switch

    def complete_switch(self, host: int) -> PstateSwitch:
        """Record that a host reached the requested pstate, and return the request."""
        on = self._simulation.power.state[host] == "on"
        if on:
            self._set_kind([host])
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
        if self.running[host]:
            raise ValueError(f"{self.name(host)} runs a job")
        if power == "sleeping" and not description.computes_in(pstate):
            raise ValueError(
                f"{self.name(host)} is asleep in pstate {self.pstates[host]}; expected a "
                f"computation pstate, got the sleep pstate {pstate}"
            )


def _first_alike(hosts: Sequence[Host]) -> list[int]:
    """Return for each host the first one with the same speeds and power."""
    first: dict[tuple[object, ...], int] = {}
    return [
        first.setdefault((host.speeds, host.cores, host.watts, *host.sleep_states.items()), number)
        for number, host in enumerate(hosts)
    ]
