"""Hosts in their power states, as kinds of nodes of the simulation.

A host is a node of one processor. In another power state, or under another load, it has another
speed or draws another power: it is a node of another kind. Jobs are told how long they run where
they start, so that of a speed only the power is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import hpcosim_protocol as protocol
from hpcosim_batsim.inputs.platform_model import Host, Platform

GIGA = 1e9


def cluster_of(
    platform: Platform, pstates: Sequence[int], slots: int, *, energy: bool
) -> protocol.Platform:
    """Return the simulation's cluster, all hosts computing nothing.

    Args:
        platform: Batsim's.
        pstates: the power state of each host.
        slots: how many jobs a host can run at a time.
        energy: hosts draw power; else none is known.
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
    sleeps_in: int | None = None,
) -> protocol.NodeGroup:
    """Return what a host is as a node.

    Args:
        host: which.
        pstate: the power state in which it computes.
        slots: how many jobs it can run at a time.
        energy: it draws power.
        load: the share of its speed that is used while it runs something; the power is that of
            this load, shared out equally among `slots`.
        sleeps_in: the power state it sleeps in when it is switched off; None: it never is.
    """
    clock_ghz = host.flops(pstate) / GIGA
    if not energy:
        return protocol.NodeGroup(1, (protocol.Processor(slots, clock_ghz),))
    watts = host.watts[pstate]
    processor = protocol.Processor(
        cores=slots,
        clock_ghz=clock_ghz,
        static_w=watts.idle_w,
        dynamic_w=watts.at(load) - watts.idle_w,
    )
    states = None if sleeps_in is None else _power_states(host, sleeps_in)
    return protocol.NodeGroup(1, (processor,), 0.0, states)


def _power_states(host: Host, sleeps_in: int) -> protocol.PowerStates:
    """Return how a host goes to sleep and comes back; on its way it computes 1 flop."""
    state = host.sleep_states[sleeps_in]
    return protocol.PowerStates(
        sleep_w=host.watts[sleeps_in].idle_w,
        switch_on_s=host.passes_s(state.on),
        switch_on_w=host.watts[state.on].all_w,
        switch_off_s=host.passes_s(state.off),
        switch_off_w=host.watts[state.off].all_w,
    )
