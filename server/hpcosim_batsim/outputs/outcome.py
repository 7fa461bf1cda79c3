"""Result of a run in Batsim's terms."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate, chain
from typing import Literal

from msgspec import Struct

from hpcosim_batsim.bridge.jobs import FINAL
from hpcosim_batsim.bridge.switch_log import (
    SWITCHING_OFF,
    SWITCHING_ON,
    EnergyEntry,
    PstateChange,
    StateEntry,
    SwitchLog,
)
from hpcosim_batsim.outputs.model import (
    MIN_RUN_S,
    BatsimOutcome,
    EnergyPoint,
    HostState,
    JobOutcome,
    StateChange,
)
from hpcosim_protocol import Platform
from hpcosim_sim.physics.power import RecordedState
from hpcosim_sim.record.recording import STATES, Recording
from hpcosim_sim.record.replay import JobChange, PowerChange, Replay, changes_of
from hpcosim_sim.record.run_record import RunRecord

# Hosts of each job, and state changes of hosts.

_PSTATES: Mapping[RecordedState, int] = {
    "on": 0,
    "down": 0,
    "sleeping": 1,
    "switching_on": SWITCHING_ON,
    "switching_off": SWITCHING_OFF,
}

Hosts = Sequence[range]
"""Hosts of each node."""

HOST_STATES: Mapping[RecordedState, HostState] = {
    "on": "idle",
    "sleeping": "sleeping",
    "switching_on": "switching_on",
    "switching_off": "switching_off",
    "down": "unavailable",
}


def hosts_by_node(platform: Platform) -> Hosts:
    """Return the hosts of each node of a platform."""
    cores = platform.cores_by_node()
    ends = accumulate(cores)
    return [range(end - count, end) for end, count in zip(ends, cores, strict=True)]


def hosts_of_nodes(hosts: Hosts, nodes: Iterable[int]) -> array[int]:
    """Return the hosts of nodes, node by node."""
    return array("i", chain.from_iterable(hosts[node] for node in nodes))


def hosts_of_jobs(recording: Recording, hosts: Hosts) -> dict[int, array[int]]:
    """Return the hosts of each job that started, by row."""
    free = [list(of_node) for of_node in hosts]
    allocated: dict[int, array[int]] = {}
    periods = recording.periods
    for code in recording.changes:
        period = code if code >= 0 else ~code
        row = periods.row[period]
        places = zip(periods.nodes_of(period), periods.tasks_of(period), strict=True)
        if code >= 0:
            allocated[row] = of_job = array("i")
            for node, count in places:
                of_job.extend(free[node][:count])
                del free[node][:count]
        else:
            released = iter(allocated[row])
            for node, count in places:
                free[node] = sorted([*free[node], *(next(released) for _ in range(count))])
    return allocated


def state_changes(
    recording: Recording, hosts: Hosts, allocated: Mapping[int, array[int]]
) -> Iterator[StateChange]:
    """Yield every state change of hosts by time; all hosts are idle at first.

    Args:
        recording: the recording of the run.
        hosts: hosts of each node.
        allocated: hosts of each job, from `hosts_of_jobs`.
    """
    for change in changes_of(recording):
        state: HostState
        if isinstance(change, JobChange):
            state = "computing" if change.starts else "idle"
            yield StateChange(change.time_s, allocated[change.row], state)
        elif isinstance(change, PowerChange):
            state = HOST_STATES[change.state]
            yield StateChange(change.time_s, hosts_of_nodes(hosts, change.nodes), state)


def pstate_changes(recording: Recording, hosts: Hosts) -> Iterator[PstateChange]:
    """Yield the pstates of a run whose nodes have two, 0 on and 1 asleep; all are on at first.

    Args:
        recording: the recording of the run.
        hosts: hosts of each node.
    """
    yield PstateChange(0.0, hosts_of_nodes(hosts, range(len(hosts))), _PSTATES["on"])
    for change in changes_of(recording):
        if isinstance(change, PowerChange):
            switched = hosts_of_nodes(hosts, change.nodes)
            yield PstateChange(change.time_s, switched, _PSTATES[change.state])


def logged_state_changes(
    recording: Recording,
    hosts: Hosts,
    allocated: Mapping[int, array[int]],
    log: Iterable[StateEntry],
) -> Iterator[StateChange]:
    """Yield every state change of hosts as `state_changes` does, with one entry per request.

    Args:
        recording: the recording of the run.
        hosts: hosts of each node; a host of the log is a node.
        allocated: hosts of each job, from `hosts_of_jobs`.
        log: state changes by requests, in chronological order.
    """
    entries = iter(log)
    entry = next(entries, None)
    periods = recording.periods
    for index, code in enumerate(recording.changes):
        while entry is not None and entry.after <= index:
            yield _logged(entry, hosts)
            entry = next(entries, None)
        starts = code >= 0
        period = code if starts else ~code
        time_s = periods.start_s[period] if starts else periods.end_s[period]
        state: HostState = "computing" if starts else "idle"
        yield StateChange(time_s, allocated[periods.row[period]], state)
    while entry is not None:
        yield _logged(entry, hosts)
        entry = next(entries, None)


def _logged(entry: StateEntry, hosts: Hosts) -> StateChange:
    switched = hosts_of_nodes(hosts, entry.hosts)
    return StateChange(entry.time_s, switched, entry.state, entry.counted)


# Energy of a run at each event.


class EnergyLog(Struct):
    """Energy of a run over time.

    Attributes:
        points: energy of all hosts at each event, by time.
        before_j: energy before the first submission, J; 0 if nothing changed after it.
    """

    points: list[EnergyPoint]
    before_j: float = 0.0


def energy_log(record: RunRecord, switches: Iterable[EnergyEntry] | None) -> EnergyLog:
    """Return the energy of a run.

    Args:
        record: the run.
        switches: energy at requests to change pstates and at their ends; None: each change of power
            in the recording is a request or an end.
    """
    replay = Replay(record.platform, record.recording, record.start_s)
    log, of_requests = EnergyLog([]), deque(switches or ())
    first_s = min(record.recording.submit_s, default=record.start_s)
    starts_and_ends, before = 0, True
    for change in changes_of(record.recording):
        if before and first_s <= change.time_s:
            log.before_j, before = replay.cluster.energy_j(first_s), False
        if isinstance(change, JobChange):
            while of_requests and of_requests[0].after <= starts_and_ends:
                log.points.append(_point_of(of_requests.popleft()))
            starts_and_ends += 1
            replay.apply(change)
            log.points.append(_point(replay, change.time_s, "s" if change.starts else "e"))
        elif switches is None and isinstance(change, PowerChange):
            requested = _point(replay, change.time_s, "p")
            replay.apply(change)
            begins = change.state.startswith("switching")
            log.points.append(requested if begins else _point(replay, change.time_s, "p"))
        else:
            replay.apply(change)
    log.points += map(_point_of, of_requests)
    return log


def _point(replay: Replay, time_s: float, kind: Literal["s", "e", "p"]) -> EnergyPoint:
    cluster = replay.cluster
    return EnergyPoint(time_s, cluster.energy_j(time_s), kind, cluster.idle_power_w)


def _point_of(entry: EnergyEntry) -> EnergyPoint:
    return EnergyPoint(entry.time_s, entry.energy_j, "p", entry.idle_w)


JobOf = Callable[[Recording, int], JobOutcome]
"""Returns the result of the job in a row of the recording, without start, end, hosts, energy."""


def native_job(recording: Recording, row: int) -> JobOutcome:
    """Return the job in a row of the recording of a run without Batsim's workloads."""
    return JobOutcome(
        name=str(recording.job_id[row]),
        workload="w0",
        profile="",
        submit_s=recording.submit_s[row],
        res=recording.cores[row],
        walltime_s=recording.requested_s[row],
        state=FINAL[STATES[recording.state[row]]],
    )


def outcome_of(
    record: RunRecord,
    *,
    job: JobOf = native_job,
    log: SwitchLog | None = None,
    energy: bool = True,
) -> BatsimOutcome:
    """Return the result of a run, complete or not, without the jobs that have not ended.

    Args:
        record: the run.
        job: returns the result of a job.
        log: the requests to change pstates; None: each change of power in the recording is one.
        energy: include the energy over time and of each job, and the pstates.
    """
    recording, hosts = record.recording, hosts_by_node(record.platform)
    allocated = hosts_of_jobs(recording, hosts)
    if log is None:
        states = list(state_changes(recording, hosts, allocated))
        switches = [change.hosts for change in states if change.state.startswith("switching")]
        requests, switched = len(switches), sum(map(len, switches))
        pstates = list(pstate_changes(recording, hosts))
    else:
        states = list(logged_state_changes(recording, hosts, allocated, log.states))
        requests, switched, pstates = log.requests, log.hosts, log.pstates
    consumed = energy_log(record, None if log is None else log.energy) if energy else None
    return BatsimOutcome(
        hosts=record.platform.core_count,
        jobs=_jobs(record, job, allocated, energy=energy),
        states=states,
        pstates=pstates if energy else None,
        energy=consumed.points if consumed else None,
        start_s=record.start_s,
        energy_before_j=consumed.before_j if consumed else 0.0,
        grouped_switches=requests,
        machine_switches=switched,
        version=f"hpcosim {_version()}",
    )


def _version() -> str:
    try:
        return version("hpcosim")
    except PackageNotFoundError:  # run from the source tree
        return "unknown"


def _jobs(
    record: RunRecord, job: JobOf, allocated: Mapping[int, array[int]], *, energy: bool
) -> list[JobOutcome]:
    """Return the jobs that have ended, in the order in which they ended."""
    recording = record.recording
    energies_j = record.job_energies_j if energy else None
    row_of = recording.periods.row
    place = {row_of[~code]: place for place, code in enumerate(recording.changes) if code < 0}
    ended = [row for row in range(len(recording)) if not math.isnan(recording.end_s[row])]
    ended.sort(key=lambda row: (recording.end_s[row], place.get(row, len(recording.changes))))
    jobs = []
    for row in ended:
        result = job(recording, row)
        if row in allocated:
            result.start_s, result.end_s = recording.start_s[row], recording.end_s[row]
            if result.end_s == result.start_s:
                result.end_s += MIN_RUN_S
            result.hosts = allocated[row]
            result.energy_j = None if energies_j is None else energies_j[row]
        jobs.append(result)
    return jobs
