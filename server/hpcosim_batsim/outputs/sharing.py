"""Compute sharing: conversion of the slots of a host back to one host."""

from __future__ import annotations

from collections.abc import Iterable

from hpcosim_batsim.outputs.model import BatsimOutcome, StateChange


def merge_slots(outcome: BatsimOutcome, slots: int) -> None:
    """Replace the slots in an outcome by their hosts.

    A host computes while at least one of its slots does.

    Args:
        outcome: the outcome to change.
        slots: number of slots per host.
    """

    def hosts_of_slots(numbers: Iterable[int]) -> list[int]:
        return sorted({number // slots for number in numbers})

    outcome.hosts //= slots
    running = [0] * outcome.hosts
    states = []
    for change in outcome.states:
        hosts = hosts_of_slots(change.hosts)
        if change.state in ("computing", "idle"):
            step = 1 if change.state == "computing" else -1
            for host in hosts:
                running[host] = max(running[host] + step, 0)
            hosts = [host for host in hosts if running[host] == max(step, 0)]
        states.append(StateChange(change.time_s, hosts, change.state, change.counted))
    outcome.states = states
    for job in outcome.jobs:
        job.hosts = hosts_of_slots(job.hosts)
