"""State of the hosts of a run: pstates, running jobs and availability."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpcosim_batsim.bridge.node_kinds import kind_of
from hpcosim_batsim.bridge.stepping import SteppedEngine
from hpcosim_batsim.bridge.switch_log import SwitchLog
from hpcosim_batsim.inputs.platform_model import BatsimPlatform
from hpcosim_protocol import NodeGroup, PowerStates, Processor, SetNodePower

_Shape = tuple[tuple[Processor, ...], PowerStates | None]


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
        self.log = SwitchLog()
        self._loads: list[dict[int, float]] = [
            {} for _ in platform.hosts
        ]  # by job, of shared hosts
        self._switches: dict[int, PstateSwitch] = {}
        self._pstates_of_shape: dict[_Shape, tuple[int, int]] = {}
        self._kinds: dict[tuple[int, int, float, int, int | None], NodeGroup] = {}
        for host in range(len(platform.hosts)):
            self._kind(host, 0.0, 1, None)

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
        for host in hosts:
            load = loads.get(host, 0.0) * speed
            if self._slots == 1:
                self._set_kind(host, load=load)
            else:
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
        self._log_request(hosts, pstate)
        for host in hosts:
            if power[host] == "sleeping":
                self.pstates[host] = pstate
                self._start_switch(host, switch, on=True)
            elif self._platform.hosts[host].computes_in(pstate):
                self.pstates[host] = pstate
                self._set_kind(host)
            else:
                self._set_kind(host, sleeps_in=pstate)
                self.pstates[host] = pstate
                self._start_switch(host, switch, on=False)
        if not switch.remaining:
            self.log.completed(self._simulation.now_s, hosts, pstate)
        return switch

    def complete_switch(self, host: int) -> PstateSwitch:
        """Record that a host reached the requested pstate, and return the request."""
        on = self._simulation.power.state[host] == "on"
        if on:
            self._set_kind(host)
        switch = self._switches.pop(host)
        switch.remaining -= 1
        now_s, last = self._simulation.now_s, not switch.remaining
        self.log.switched(self._job_changes(), now_s, host, on=on, last=last)
        if last:
            self.log.completed(now_s, switch.hosts, switch.pstate)
        return switch

    def pstates_of(self, kind: NodeGroup) -> tuple[int, int]:
        """Return the pstates of a kind of node: while on, and while asleep."""
        return self._pstates_of_shape.get((kind.processors, kind.power_states), (0, 0))

    def _job_changes(self) -> int:
        return len(self._simulation.recording.changes)

    def _log_request(self, hosts: Sequence[int], pstate: int) -> None:
        power = self._simulation.power.state
        on = self._platform.hosts[hosts[0]].computes_in(pstate)
        switching = [host for host in hosts if power[host] == "sleeping" or not on]
        self.log.requested(self._job_changes(), self._simulation.now_s, hosts, switching, on=on)

    def _start_switch(self, host: int, switch: PstateSwitch, *, on: bool) -> None:
        switch.remaining += 1
        self._switches[host] = switch
        self._simulation.carry_out(SetNodePower(host, "on" if on else "sleeping"))

    def _set_shared_kind(self, host: int) -> None:
        loads = self._loads[host]
        self._set_kind(host, load=min(math.fsum(loads.values()), 1.0), jobs=len(loads))

    def _set_kind(
        self, host: int, *, load: float = 0.0, jobs: int = 1, sleeps_in: int | None = None
    ) -> None:
        self._simulation.node_kinds.change(host, self._kind(host, load, jobs, sleeps_in))

    def _kind(self, host: int, load: float, jobs: int, sleeps_in: int | None) -> NodeGroup:
        pstate = self.pstates[host]
        key = host, pstate, load, jobs, sleeps_in
        kind = self._kinds.get(key)
        if kind is None:
            description = self._platform.hosts[host]
            kind = kind_of(
                description,
                pstate,
                self._slots,
                energy=self._energy,
                load=load,
                jobs=jobs,
                sleeps_in=sleeps_in,
            )
            self._kinds[key] = kind
            numbers = pstate, pstate if sleeps_in is None else sleeps_in
            self._pstates_of_shape[kind.processors, kind.power_states] = numbers
        return kind

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
