"""Hosts, their power states and how they are linked, as SimGrid's platform files have them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct


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
