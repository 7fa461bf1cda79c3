"""Hosts of each job, and state changes of hosts.

Batsim allocates whole hosts, each to one job. So each core is a host here. Hosts are numbered node
by node, and a job gets the free hosts of a node with the lowest numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain

from hpcosim_batsim.bridge.switch_log import (
    SWITCHING_OFF,
    SWITCHING_ON,
    PstateChange,
    StateEntry,
)
from hpcosim_batsim.outputs.model import HostState, StateChange
from hpcosim_protocol import Platform
from hpcosim_sim.physics.power import RecordedState
from hpcosim_sim.record.recording import Recording
from hpcosim_sim.record.replay import JobChange, PowerChange, changes_of

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
