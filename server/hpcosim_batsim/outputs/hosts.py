"""Hosts: which of them each job had, and what each was doing over time.

Batsim gives hosts to jobs, and a host to one job at a time. So a host is a core here, numbered
from node to node; on a node a job has the free cores of the lowest numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain

from hpcosim_batsim.inputs.model import HostState, StateChange
from hpcosim_protocol import Platform
from hpcosim_server.record.recording import Recording
from hpcosim_server.record.replay import JobChange, PowerChange, changes_of

Hosts = Sequence[range]
"""The hosts of each node."""


def hosts_by_node(platform: Platform) -> Hosts:
    """Return the hosts of each node of a platform."""
    cores = platform.cores_by_node()
    ends = accumulate(cores)
    return [range(end - count, end) for end, count in zip(ends, cores, strict=True)]


def hosts_of_nodes(hosts: Hosts, nodes: Iterable[int]) -> array[int]:
    """Return the hosts of some nodes, node by node."""
    return array("i", chain.from_iterable(hosts[node] for node in nodes))


def hosts_of_jobs(recording: Recording, hosts: Hosts) -> dict[int, array[int]]:
    """Return the hosts of each job that started, by its row."""
    free = [list(of_node) for of_node in hosts]
    given: dict[int, array[int]] = {}
    for code in recording.changes:
        row = code if code >= 0 else ~code
        places = zip(recording.nodes_of(row), recording.tasks_of(row), strict=True)
        if code >= 0:
            given[row] = mine = array("i")
            for node, count in places:
                mine.extend(free[node][:count])
                del free[node][:count]
        else:
            of_job = iter(given[row])
            for node, count in places:
                free[node] = sorted([*free[node], *(next(of_job) for _ in range(count))])
    return given


def state_changes(
    recording: Recording, hosts: Hosts, given: Mapping[int, array[int]]
) -> Iterator[StateChange]:
    """Yield every change of what hosts are doing, in order; all are idle before.

    Args:
        recording: what happened.
        hosts: the hosts of each node.
        given: the hosts of each job, as `hosts_of_jobs` returns them.
    """
    for change in changes_of(recording):
        state: HostState
        if isinstance(change, JobChange):
            state = "computing" if change.starts else "idle"
            yield StateChange(change.time_s, given[change.row], state)
        elif isinstance(change, PowerChange):
            state = "idle" if change.state == "on" else change.state
            yield StateChange(change.time_s, hosts_of_nodes(hosts, change.nodes), state)
