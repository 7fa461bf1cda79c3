"""Compute sharing: the slots of a host become one host again."""

from __future__ import annotations

from collections.abc import Iterable

from hpcosim_batsim.inputs.model import Outcome, PstateChange, StateChange


def merge_slots(outcome: Outcome, slots: int) -> None:
    """Turn an outcome whose hosts are slots for jobs into one whose hosts are hosts.

    A host computes while any of its slots does.

    Args:
        outcome: is changed.
        slots: slots of each host.
    """

    def whole(places: Iterable[int]) -> list[int]:
        return sorted({place // slots for place in places})

    outcome.hosts //= slots
    running = [0] * outcome.hosts
    states = []
    for change in outcome.states:
        hosts = whole(change.hosts)
        if change.state in ("computing", "idle"):
            step = 1 if change.state == "computing" else -1
            for host in hosts:
                running[host] = max(running[host] + step, 0)
            hosts = [host for host in hosts if running[host] == max(step, 0)]
        if hosts:
            states.append(StateChange(change.time_s, hosts, change.state))
    outcome.states = states
    if outcome.pstates is not None:
        outcome.pstates = [
            PstateChange(change.time_s, whole(change.hosts), change.pstate)
            for change in outcome.pstates
        ]
    for job in outcome.jobs:
        job.hosts = whole(job.hosts)
