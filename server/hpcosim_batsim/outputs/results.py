"""What a run of a Batsim scheduler came to, for Batsim's output files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from hpcosim_batsim.bridge.run import SHARED_SLOTS, Run
from hpcosim_batsim.inputs.model import (
    HostState,
    JobOutcome,
    Outcome,
    PstateChange,
    StateChange,
)
from hpcosim_batsim.outputs.outcome import outcome_of
from hpcosim_server.record.recording import Recording

Unavailable = Sequence[tuple[float, tuple[int, ...], bool]]


def results_of(run: Run) -> Outcome:
    """Return what a run came to, finished or not."""

    def job(recording: Recording, row: int) -> JobOutcome:
        known = run.known.jobs[recording.job_id[row]]
        assert known.final is not None
        return JobOutcome(
            name=known.about.name,
            workload=known.about.workload,
            profile=known.about.profile,
            submit_s=known.about.submit_s,
            res=known.about.res,
            walltime_s=known.about.walltime_s,
            state=known.final,
            metadata=known.metadata,
        )

    outcome = outcome_of(
        run.simulation,
        job=job,
        pstates=run.hosts.pstates_of,
        energy=run.options.energy,
    )
    outcome.grouped_switches = run.switch_requests
    if run.options.compute_sharing:
        _share(outcome)
    outcome.states = with_unavailable(outcome.states, run.availability)
    return outcome


def with_unavailable(states: Iterable[StateChange], availability: Unavailable) -> list[StateChange]:
    """Return changes of hosts' states with those of hosts that could not be had.

    Such a host goes on with the job it runs; it is unavailable where it would be idle.
    """
    if not availability:
        return list(states)
    unavailable: set[int] = set()
    plain: dict[int, HostState] = {}  # what hosts would be if all were available
    found = []
    changes: list[tuple[float, int, StateChange | tuple[tuple[int, ...], bool]]] = [
        # Of one instant: jobs end, then hosts come and go, then others start.
        *((change.time_s, 2 * (change.state == "computing"), change) for change in states),
        *((time_s, 1, (hosts, gone)) for time_s, hosts, gone in availability),
    ]
    for time_s, _, change in sorted(changes, key=lambda entry: entry[:2]):
        if isinstance(change, StateChange):
            hosts: Sequence[int] = change.hosts
            plain.update(dict.fromkeys(hosts, change.state))
        else:
            named, gone = change
            hosts = [host for host in named if plain.get(host, "idle") == "idle"]
            unavailable = unavailable | set(named) if gone else unavailable - set(named)
        for state, members in _apart(hosts, plain, unavailable).items():
            found.append(StateChange(time_s, members, state))
    return found


def _apart(
    hosts: Iterable[int], plain: Mapping[int, HostState], unavailable: Set[int]
) -> dict[HostState, list[int]]:
    """Return hosts by the state they are in."""
    apart: dict[HostState, list[int]] = {}
    for host in hosts:
        state = plain.get(host, "idle")
        seen: HostState = "unavailable" if state == "idle" and host in unavailable else state
        apart.setdefault(seen, []).append(host)
    return apart


def _share(outcome: Outcome) -> None:
    """Let hosts be hosts again that were as many as the jobs each could run at a time."""
    outcome.hosts //= SHARED_SLOTS
    running = [0] * outcome.hosts
    states = []
    for change in outcome.states:
        hosts = _whole(change.hosts)
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
            PstateChange(change.time_s, _whole(change.hosts), change.pstate)
            for change in outcome.pstates
        ]
    for job in outcome.jobs:
        job.hosts = _whole(job.hosts)


def _whole(places: Iterable[int]) -> list[int]:
    return sorted({place // SHARED_SLOTS for place in places})
