"""Types of SimGrid platform files: hosts and their pstates."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from hpcosim_batsim.network import Network

MAX_NAMES, MAX_NAME = 5, 60  # hosts in a message, and characters of a name


class Watts(Struct, frozen=True):
    """Power of a host in one pstate, SimGrid's `idle:epsilon:all`.

    Attributes:
        idle_w: idle power, W.
        epsilon_w: power at a load just above 0, W.
        all_w: power at full load, W; between `epsilon_w` and `all_w` power is linear in the load.
    """

    idle_w: float
    epsilon_w: float
    all_w: float

    def at(self, load: float) -> float:
        """Return the power at a load from 0 to 1, W."""
        return self.epsilon_w + (self.all_w - self.epsilon_w) * load if load > 0 else self.idle_w


NO_POWER = Watts(0.0, 0.0, 0.0)


class SleepState(Struct, frozen=True):
    """A sleep pstate and its transition pstates, Batsim's `sleep_pstates`.

    Attributes:
        sleep: pstate of the sleeping host.
        off: transition pstate while the host switches off.
        on: transition pstate while the host switches on.
    """

    sleep: int
    off: int
    on: int


class Host(Struct, frozen=True, kw_only=True):
    """A host.

    Attributes:
        cores: number of cores; a process uses one of them.
        watts: power in each pstate; empty: the platform states none, see `watts_in`.
        sleep_states: sleep pstates by number.
        properties: properties of the platform file, `role`, and `wattage_per_state` under both
            of its names.
        zone_properties: properties of its zones; an inner zone overrides an outer one.
    """

    name: str
    speeds: tuple[float, ...]
    cores: int = 1
    pstate: int = 0
    watts: tuple[Watts, ...] = ()

    sleep_states: Mapping[int, SleepState] = MappingProxyType({})
    properties: Mapping[str, str] = MappingProxyType({})
    zone_properties: Mapping[str, str] = MappingProxyType({})

    @property
    def transition_pstates(self) -> frozenset[int]:
        """The pstates it is in only while it switches on or off."""
        return frozenset(
            pstate for state in self.sleep_states.values() for pstate in (state.off, state.on)
        )

    def computes_in(self, pstate: int) -> bool:
        """Tell whether jobs can run in a pstate."""
        exists = 0 <= pstate < len(self.speeds)
        return exists and pstate not in self.sleep_states and pstate not in self.transition_pstates

    def watts_in(self, pstate: int) -> Watts:
        """Return the power in a pstate. As in SimGrid, it is 0 W if the platform states none."""
        return self.watts[pstate] if self.watts else NO_POWER

    def flops(self, pstate: int) -> float:
        """Return the speed of all cores in a pstate, flop/s."""
        return self.speeds[pstate] * self.cores

    def switch_time_s(self, transition: int) -> float:
        """Return the duration of a transition pstate, s: the time of 1 flop on one core."""
        return 1.0 / self.speeds[transition]


class BatsimPlatform(Struct, frozen=True, kw_only=True):
    """A platform file.

    Attributes:
        hosts: compute hosts, sorted by name as text (`a10` before `a2`), as in Batsim v4.2.1; the
            index is the host number.
        no_network: the platform has no links, so communication takes no time.
    """

    path: str
    hosts: tuple[Host, ...]
    master: Host
    storage: tuple[Host, ...] = ()
    no_network: bool = True
    network: Network = Network()

    def hosts_without_power(self) -> str:
        """Return which compute hosts have no power, for messages; "": all have."""
        names = [host.name for host in self.hosts if not host.watts]
        if not names:
            return ""
        more = "" if len(names) <= MAX_NAMES else f" and {len(names) - MAX_NAMES} more"
        have = "host has" if len(names) == 1 else "hosts have"
        listed = ", ".join(name[:MAX_NAME] for name in names[:MAX_NAMES])
        return f"{len(names)} {have} no wattage_per_state: {listed}{more}"
