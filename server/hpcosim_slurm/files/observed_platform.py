"""The platform that the recorded runs of jobs show: hosts, cores, GPUs and queues.

Accounting has no table of nodes. A host has at least the cores that jobs used on it at once, and a
queue at least the hosts on which its jobs ran.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hpcosim_protocol.hosts import compress
from hpcosim_scenarios.model.messages import NAME_PATTERN
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm.nodes import NodePower
from hpcosim_workloads.accounting.record import Record

MOST_QUEUES = 10_000

Runs = Sequence[Record]
Change = tuple[float, int]
"""Time, and by how much what is in use changes."""

_PARTS = re.compile(r"(\d+)")


class KnownNodes(NamedTuple):
    """What the user states of the nodes; 0: not stated."""

    nodes: int = 0
    cores: int = 0


class Host(NamedTuple):
    """Cores and GPUs of a host."""

    cores: int
    gpus: int


def observed_platform(
    jobs: Sequence[Runs], known: KnownNodes, power: NodePower, report: ImportReport
) -> dict[str, Any] | None:
    """Return the platform section of a scenario; None: neither hosts nor nodes are known.

    Args:
        jobs: the runs of each job.

    Raises:
        InputError: jobs ran on more hosts than there are nodes.
    """
    runs = [run for history in jobs for run in history]
    hosts = _hosts(runs, known, report)
    if not hosts:
        if not (known.nodes and known.cores):
            return None
        gpus = math.ceil(_peak(_changes(runs, "gres/gpu")) / known.nodes)
        groups = [_group("", known.nodes, Host(known.cores, gpus), power)]
    else:
        groups = _groups(hosts, power)
        if known.nodes and known.nodes < len(hosts):
            what = f"--nodes: jobs ran on {len(hosts)} hosts, so there are not {known.nodes} nodes"
            raise InputError(f"{what}; state at least {len(hosts)}, or leave it out")
        if known.nodes > len(hosts):
            cores = known.cores or max(host.cores for host in hosts.values())
            groups.append(_group("", known.nodes - len(hosts), Host(cores, 0), power))
    total = sum(group["count"] for group in groups)
    report.add(
        "guessed",
        f"power: {power.static_w:g} W of each core, and {power.dynamic_w:g} W more with a task",
        count=total,
    )
    found: dict[str, Any] = {"nodes": groups, "consumable": ["cores"]}
    partitions = _partitions(jobs, hosts, report)
    return found | ({"partitions": partitions} if partitions else {})


def _hosts(runs: Runs, known: KnownNodes, report: ImportReport) -> dict[str, Host]:
    """Return cores and GPUs of the hosts of runs, by name."""
    cores: defaultdict[str, list[Change]] = defaultdict(list)
    gpus: defaultdict[str, list[Change]] = defaultdict(list)
    unknown = 0
    for run in runs:
        if not run.allocated or run.start_s is None or run.end_s is None:
            continue
        wanted = run.requested.get("gres/gpu", 0.0)
        stated = any(each.gpus for each in run.allocated)
        part = 0 if stated else math.ceil(wanted / len(run.allocated))
        unknown += not all(each.cores for each in run.allocated)
        for host, number, devices in run.allocated:
            changes = cores[host]
            changes.append((run.start_s, number))
            changes.append((run.end_s, -number))
            if devices := devices or part:
                gpus[host] += ((run.start_s, devices), (run.end_s, -devices))
    if not cores:
        return {}
    peaks = {host: _peak(changes) for host, changes in cores.items()}
    level = 1
    if unknown:
        level = math.ceil(_peak(_changes(runs, "cpu")) / len(peaks))
        what = "cores of jobs on several hosts: the most of all jobs at once, in equal parts"
        report.add("guessed", what, count=unknown)
    found = {
        host: Host(max(peak, level, known.cores), _peak(gpus.get(host, ())))
        for host, peak in peaks.items()
    }
    report.add("guessed", "cores of nodes: the most that jobs used at once", count=len(found))
    if known.cores and (more := sum(peak > known.cores for peak in peaks.values())):
        what = "nodes on which jobs used more cores than --cores-per-node at once: that number"
        report.add("guessed", what, count=more)
    return found


def _changes(runs: Runs, resource: str) -> Iterator[Change]:
    for run in runs:
        if run.start_s is not None and run.end_s is not None:
            amount = int(run.requested.get(resource, 0.0))
            yield run.start_s, amount
            yield run.end_s, -amount


def _peak(changes: Iterable[Change]) -> int:
    """Return the most that was in use at once; what ends at a time is free at that time."""
    used = most = 0
    for _, change in sorted(changes):
        used += change
        most = max(most, used)
    return most


def _groups(hosts: Mapping[str, Host], power: NodePower) -> list[dict[str, Any]]:
    """Return the node groups, of hosts with the same cores and GPUs."""
    names: defaultdict[Host, list[str]] = defaultdict(list)
    for name in sorted(hosts, key=_natural):
        names[hosts[name]].append(name)
    return [_group(compress(each), len(each), host, power) for host, each in names.items()]


def _natural(name: str) -> list[tuple[int, str]]:
    """Return the key of a name in an order in which n2 comes before n10."""
    parts = _PARTS.split(name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _group(names: str, count: int, host: Host, power: NodePower) -> dict[str, Any]:
    processor = {
        "cores": host.cores,
        "static_w": host.cores * power.static_w,
        "dynamic_w": power.dynamic_w,
    }
    return {
        **({"names": names} if names else {}),
        "count": count,
        "processors": [processor],
        **({"gres": {"gpu": host.gpus}} if host.gpus else {}),
    }


def _partitions(
    jobs: Sequence[Runs], hosts: Mapping[str, Host], report: ImportReport
) -> list[dict[str, Any]]:
    """Return a partition for each queue, of the hosts on which its jobs ran.

    A queue of which not all jobs have hosts, or whose hosts have fewer cores than one of its jobs,
    has all nodes.
    """
    where: defaultdict[str, set[str]] = defaultdict(set)
    widest: defaultdict[str, int] = defaultdict(int)
    unknown: set[str] = set()
    for history in jobs:
        queue = history[0].partition
        widest[queue] = max(widest[queue], int(history[0].requested["cpu"]))
        for run in history:
            where[queue].update(each.host for each in run.allocated)
            if not run.allocated:
                unknown.add(queue)
    where.pop("", None)
    if len(where) > MOST_QUEUES or not all(re.fullmatch(NAME_PATTERN, name) for name in where):
        what = "queues with names that partitions cannot have: the jobs' partition is a label"
        report.add("guessed", what)
        return []
    found: list[dict[str, Any]] = []
    for queue, names in sorted(where.items()):
        cores = sum(hosts[name].cores for name in names)
        sound = queue not in unknown and widest[queue] <= cores
        if not sound:
            report.add("guessed", "queues whose nodes are not recorded: all nodes")
        nodes = compress(sorted(names, key=_natural)) if sound else "ALL"
        found.append({"name": queue, "nodes": nodes})
    if found and "" in widest:
        found[0]["default"] = True
        report.add("guessed", "jobs without a queue: the first partition is the default")
    return found
