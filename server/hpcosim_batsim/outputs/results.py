"""Result of a run of a Batsim scheduler, for Batsim's output files."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set

from hpcosim_batsim.bridge.run import SHARED_SLOTS, BatsimRun
from hpcosim_batsim.outputs.model import BatsimOutcome, HostState, JobOutcome, StateChange
from hpcosim_batsim.outputs.outcome import outcome_of
from hpcosim_sim.record.recording import Recording

# States of unavailable hosts, which the simulation does not record.

Unavailable = Sequence[tuple[float, tuple[int, ...], bool]]
"""Time, hosts, and whether they became unavailable (True) or available again (False)."""


def add_unavailable_states(
    states: Iterable[StateChange], availability: Unavailable
) -> list[StateChange]:
    """Return state changes of hosts with the state `unavailable`.

    An unavailable host finishes its job; it has the state `unavailable` instead of `idle`.

    Args:
        states: state changes of the simulation, by time.
        availability: changes of availability, by time.
    """
    if not availability:
        return list(states)
    unavailable: set[int] = set()
    recorded: dict[int, HostState] = {}  # states in the simulation
    result: list[StateChange] = []

    def add(time_s: float, hosts: Iterable[int], *, counted: bool) -> None:
        for state, members in _by_state(hosts, recorded, unavailable).items():
            result.append(StateChange(time_s, members, state, counted))

    waiting = deque(availability)
    for change in [*states, None]:
        while waiting and (change is None or _is_first(waiting[0][0], change)):
            time_s, named, lost = waiting.popleft()
            (unavailable.update if lost else unavailable.difference_update)(named)
            idle = [host for host in named if recorded.get(host, "idle") == "idle"]
            add(time_s, idle, counted=True)
        if change is None:
            continue
        recorded.update(dict.fromkeys(change.hosts, change.state))
        if change.hosts:
            add(change.time_s, change.hosts, counted=change.counted)
        else:
            result.append(change)
    return result


def _is_first(time_s: float, change: StateChange) -> bool:
    """Tell whether a change of availability comes before a state change.

    At one instant jobs end first, then availability changes, then jobs start.
    """
    return time_s < change.time_s or (time_s == change.time_s and change.state == "computing")


def _by_state(
    hosts: Iterable[int], recorded: Mapping[int, HostState], unavailable: Set[int]
) -> dict[HostState, list[int]]:
    """Return hosts by their state."""
    by_state: dict[HostState, list[int]] = {}
    for host in hosts:
        state = recorded.get(host, "idle")
        if state == "idle" and host in unavailable:
            state = "unavailable"
        by_state.setdefault(state, []).append(host)
    return by_state


# Compute sharing: conversion of the slots of a host back to one host.


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


def results_of(run: BatsimRun) -> BatsimOutcome:
    """Return the result of a run, complete or not."""

    def outcome_of_job(recording: Recording, row: int) -> JobOutcome:
        job = run.registry.jobs[recording.job_id[row]]
        assert job.final is not None
        return JobOutcome(
            name=job.source.name,
            workload=job.source.workload,
            profile=job.source.profile,
            submit_s=job.source.submit_s,
            res=job.source.res,
            walltime_s=job.source.walltime_s,
            state=job.final,
            metadata=job.metadata,
        )

    outcome = outcome_of(
        run.simulation.record(),
        job=outcome_of_job,
        log=run.hosts.log,
        energy=run.options.energy,
    )
    if run.options.compute_sharing:
        merge_slots(outcome, SHARED_SLOTS)
    outcome.states = add_unavailable_states(outcome.states, run.availability)
    return outcome
