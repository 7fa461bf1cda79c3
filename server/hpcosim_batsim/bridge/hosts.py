"""The hosts of a run: their power states, what runs on them, which can't be had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpcosim_batsim.bridge.node_kinds import kind_of
from hpcosim_batsim.bridge.stepping import SteppedEngine
from hpcosim_batsim.inputs.platform_model import Platform
from hpcosim_protocol import NodeGroup, PowerStates, Processor, SetNodePower

_Shape = tuple[tuple[Processor, ...], PowerStates | None]


@dataclass(slots=True)
class Switch:
    """A request to bring hosts to a power state.

    Attributes:
        hosts: which.
        pstate: to which.
        left: how many are not there yet.
    """

    hosts: Sequence[int]
    pstate: int
    left: int


class Hosts:
    """The state of every host, beyond what the simulation knows of nodes.

    Args:
        platform: the hosts.
        simulation: of them, as `node_kinds` has it.
        slots: how many jobs a host can run at a time.
        energy: power states may change, and hosts draw power.

    Attributes:
        pstates: the power state each host is in; on its way to one, that one.
        running: how many jobs each host runs.
        unavailable: hosts that no job can be given.
    """

    def __init__(
        self, platform: Platform, simulation: SteppedEngine, slots: int, *, energy: bool
    ) -> None:
        self._platform = platform
        self._simulation = simulation
        self._slots = slots
        self._energy = energy
        self.pstates = [host.pstate for host in platform.hosts]
        self.running = [0] * len(platform.hosts)
        self.unavailable: set[int] = set()
        self._switches: dict[int, Switch] = {}
        self._numbers: dict[_Shape, tuple[int, int]] = {}
        self._kinds: dict[tuple[int, int, float, int | None], NodeGroup] = {}
        for host in range(len(platform.hosts)):
            self._kind(host, 0.0, None)

    def name(self, host: int) -> str:
        """Return what a host is called in messages to people."""
        return f"host {host} ({self._platform.hosts[host].name})"

    def check_free(self, hosts: Sequence[int]) -> None:
        """Make sure that a job may be started on hosts.

        Raises:
            ValueError: it may not; names the host.
        """
        power = self._simulation.power.state
        for host in hosts:
            if host in self.unavailable:
                raise ValueError(f"{self.name(host)} is unavailable")
            if power[host] != "on":
                state = f"{power[host]}, in power state {self.pstates[host]}"
                raise ValueError(f"{self.name(host)} is {state}")
            if self.running[host] >= self._slots:
                raise ValueError(f"{self.name(host)} runs a job")

    def load(self, hosts: Sequence[int], loads: Mapping[int, float]) -> None:
        """Let hosts draw, while they run a job, the power of these loads; not named: no load."""
        if self._energy:
            for host in hosts:
                self._turn(host, load=loads.get(host, 0.0))

    def switch(self, hosts: Sequence[int], pstate: int) -> Switch:
        """Bring hosts to a power state; from one for computing to another that takes no time.

        Returns:
            The request; nobody is on the way if nothing is left of it.

        Raises:
            ValueError: one can't be brought there; none is then.
        """
        for host in hosts:
            self._check_switch(host, pstate)
        switch = Switch(hosts, pstate, 0)
        power = self._simulation.power.state
        for host in hosts:
            if power[host] == "sleeping":
                self.pstates[host] = pstate
                self._start_switch(host, switch, on=True)
            elif self._platform.hosts[host].computes_in(pstate):
                self.pstates[host] = pstate
                self._turn(host)
            else:
                self._turn(host, sleeps_in=pstate)
                self.pstates[host] = pstate
                self._start_switch(host, switch, on=False)
        return switch

    def arrived(self, host: int) -> Switch:
        """Note that a host is on, or sleeps, as was asked, and return the request."""
        if self._simulation.power.state[host] == "on":
            self._turn(host)
        switch = self._switches.pop(host)
        switch.left -= 1
        return switch

    def pstates_of(self, kind: NodeGroup) -> tuple[int, int]:
        """Return the numbers of the power states of a kind of nodes: while on, and while asleep."""
        return self._numbers.get((kind.processors, kind.power_states), (0, 0))

    def _start_switch(self, host: int, switch: Switch, *, on: bool) -> None:
        switch.left += 1
        self._switches[host] = switch
        self._simulation.carry_out(SetNodePower(host, "on" if on else "sleeping"))

    def _turn(self, host: int, *, load: float = 0.0, sleeps_in: int | None = None) -> None:
        self._simulation.change_kind(host, self._kind(host, load, sleeps_in))

    def _kind(self, host: int, load: float, sleeps_in: int | None) -> NodeGroup:
        pstate = self.pstates[host]
        key = host, pstate, load, sleeps_in
        kind = self._kinds.get(key)
        if kind is None:
            about = self._platform.hosts[host]
            kind = kind_of(
                about, pstate, self._slots, energy=self._energy, load=load, sleeps_in=sleeps_in
            )
            self._kinds[key] = kind
            numbers = pstate, pstate if sleeps_in is None else sleeps_in
            self._numbers[kind.processors, kind.power_states] = numbers
        return kind

    def _check_switch(self, host: int, pstate: int) -> None:
        about, power = self._platform.hosts[host], self._simulation.power.state[host]
        if not 0 <= pstate < len(about.speeds):
            raise ValueError(
                f"{self.name(host)} has no power state {pstate}; they go from 0 to "
                f"{len(about.speeds) - 1}"
            )
        if pstate in about.virtual:
            raise ValueError(f"power state {pstate} of {self.name(host)} is only passed through")
        if power not in ("on", "sleeping"):
            raise ValueError(f"{self.name(host)} is {power}")
        if self.running[host]:
            raise ValueError(f"{self.name(host)} runs a job")
        if power == "sleeping" and not about.computes_in(pstate):
            raise ValueError(
                f"{self.name(host)} sleeps in power state {self.pstates[host]} and can't go "
                f"to {pstate}, in which it would sleep, too"
            )
