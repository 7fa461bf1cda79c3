"""Mapping of Batsim's hosts to nodes of the simulation.

A host is a node with one processor. Each combination of pstate and load is a kind of node of its
own, because speed and power differ. The bridge computes run times from speeds when a job starts,
so the simulation uses only the power of a kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import hpcosim_protocol as protocol
from hpcosim_batsim.inputs.platform_model import BatsimPlatform, Host

GIGA = 1e9


def cluster_of(
    platform: BatsimPlatform, pstates: Sequence[int], slots: int, *, energy: bool
) -> protocol.Platform:
    """Return the simulation's cluster with idle hosts.

    Args:
        platform: Batsim's platform.
        pstates: pstate of each host.
        slots: maximum number of jobs on a host at the same time.
        energy: use the power of the hosts; otherwise all power is the default of `Processor`.
    """
    kinds = (
        kind_of(host, pstate, slots, energy=energy)
        for host, pstate in zip(platform.hosts, pstates, strict=True)
    )
    return protocol.Platform(
        tuple(
            protocol.NodeGroup(len(list(alike)), kind.processors, 0.0, kind.power_states)
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
) -> protocol.NodeGroup:
    """Return the node that represents a host.

    Args:
        host: the host.
        pstate: pstate in which it computes.
        slots: maximum number of jobs on the host at the same time.
        energy: use the host's power.
        load: fraction of its speed in use while it runs jobs, 0 to 1.
        jobs: number of jobs that it runs then. Each draws an equal part of the power of this load.
        sleeps_in: pstate in which it sleeps while switched off; None: it cannot be switched off.
    """
    clock_ghz = host.flops(pstate) / GIGA
    if not energy:
        return protocol.NodeGroup(1, (protocol.Processor(slots, clock_ghz),))
    watts = host.watts[pstate]
    processor = protocol.Processor(
        cores=slots,
        clock_ghz=clock_ghz,
        static_w=watts.idle_w,
        dynamic_w=(watts.at(load) - watts.idle_w) / jobs,
    )
    states = None if sleeps_in is None else _power_states(host, sleeps_in)
    return protocol.NodeGroup(1, (processor,), 0.0, states)


def _power_states(host: Host, sleeps_in: int) -> protocol.PowerStates:
    """Return power and switching times of a sleep pstate.

    As in Batsim, a transition takes the time of 1 flop in its transition pstate.
    """
    state = host.sleep_states[sleeps_in]
    return protocol.PowerStates(
        sleep_w=host.watts[sleeps_in].idle_w,
        switch_on_s=host.switch_time_s(state.on),
        switch_on_w=host.watts[state.on].all_w,
        switch_off_s=host.switch_time_s(state.off),
        switch_off_w=host.watts[state.off].all_w,
    )
