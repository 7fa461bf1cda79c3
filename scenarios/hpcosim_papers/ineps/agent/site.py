"""Forecast of a node: the ends of its jobs, and the cost of one more job."""

from __future__ import annotations

import math
from typing import NamedTuple

from hpcosim_client.job import Job
from hpcosim_papers.ineps.agent.lanes import NodeType, Work
from hpcosim_papers.ineps.agent.sharing import Load, run_on
from hpcosim_protocol import NodeGroup, bandwidth_mbps

# A job that overruns its request is expected to need this share of its run time more.
LATE = 0.01


class Kind(NamedTuple):
    """The properties of a job that a forecast uses. Jobs of one kind are interchangeable.

    The fields are those of `Job`.
    """

    cores: int
    requested_s: float
    memory_volume_mb: float
    max_energy_j: float


def kind_of(job: Job) -> Kind:
    """Return the kind of a job."""
    return Kind(job.cores, job.requested_s, job.memory_volume_mb, job.max_energy_j)


class Option(NamedTuple):
    """Forecast of a job that starts on a node as soon as it fits.

    Attributes:
        start_s: start, simulated seconds.
        end_s: end, simulated seconds.
        extra_j: additional energy of the node, in J.
        delay_s: delay of the ends of the node's other jobs, summed, in seconds.
    """

    start_s: float
    end_s: float
    extra_j: float
    delay_s: float


class Share:
    """A job on a node.

    Attributes:
        job_id: number of the job.
        kind: kind of the job.
        load: cores and bandwidth that it needs.
        alone_s: run time on this node without contention, in seconds.
        left_s: remaining work at the last update, in seconds at full speed.
        end_s: forecast of its end, simulated seconds.
    """

    __slots__ = ("alone_s", "end_s", "job_id", "kind", "left_s", "load")

    def __init__(self, job_id: int, kind: Kind, load: Load, alone_s: float) -> None:
        self.job_id = job_id
        self.kind = kind
        self.load = load
        self.alone_s = self.left_s = alone_s
        self.end_s = math.inf


class Site:
    """A node and the jobs on it.

    Attributes:
        group: index of the node group.
        cores: number of cores.
        shares: the jobs on the node.
        state: equal for nodes with equal forecasts.
        type: the properties that a plan of the node depends on.
        busy_until_s: forecast of the end of its last job, simulated seconds; minus infinity: idle.
    """

    def __init__(self, group: int, node: NodeGroup, slowest_ops_per_s: float) -> None:
        self.group = group
        self.cores = node.cores
        self.shares: list[Share] = []
        self.state: tuple[object, ...] = (group,)
        self.busy_until_s = -math.inf
        self._slowness = slowest_ops_per_s / node.ops_per_s
        processors = node.processors
        self._model = processors[0].contention if len(processors) == 1 else None
        self._computing_w = sum(p.static_w * (1.0 - p.idle_fraction) for p in processors)
        self._core_w = node.dynamic_w
        self.type = NodeType(node.cores, self._model, self._computing_w, self._core_w)
        self._since_s = 0.0
        self._options: dict[Kind, tuple[float, Option]] = {}  # with the time of the forecast

    def add(self, now_s: float, job_id: int, kind: Kind) -> None:
        """Add a job that starts."""
        self._go_on(now_s)
        self.shares.append(Share(job_id, kind, *self._demand(kind)))
        self._look_ahead()

    def remove(self, now_s: float, job_id: int) -> None:
        """Remove a job that ended."""
        self._go_on(now_s)
        self.shares = [share for share in self.shares if share.job_id != job_id]
        self._look_ahead()

    def late(self, now_s: float) -> bool:
        """Return whether a job overruns its forecast end."""
        return any(share.end_s < now_s for share in self.shares)

    def look_again(self, now_s: float) -> None:
        """Update the forecast from the remaining work."""
        self._go_on(now_s)
        self._look_ahead()

    def option(self, now_s: float, free: int, kind: Kind) -> Option | None:
        """Return the forecast of a job of a kind on this node; None: it has too few cores.

        Args:
            now_s: simulated time, in seconds.
            free: number of free cores now.
            kind: kind of the job.
        """
        if kind.cores > self.cores:
            return None
        at_s, known = self._options.get(kind, (-1.0, None))
        if known is not None and (at_s == now_s or known.start_s > now_s):
            return known
        option = self._option(now_s, free, kind)
        self._options[kind] = (now_s, option)
        return option

    def remaining(self, now_s: float) -> list[float]:
        """Return the remaining work of each job, in seconds at full speed."""
        left = [share.left_s for share in self.shares]
        run_on(self._model, self._since_s, [share.load for share in self.shares], left, now_s)
        return [rest or LATE * share.alone_s for rest, share in zip(left, self.shares, strict=True)]

    def work(self, kind: Kind) -> Work:
        """Return a job of a kind on this node."""
        load, alone_s = self._demand(kind)
        return Work(load, alone_s)

    def requested_mbps(self) -> float:
        """Return the bandwidth that all tasks of the node need, in MB/s."""
        return sum(share.load.cores * share.load.mbps for share in self.shares)

    def _demand(self, kind: Kind) -> tuple[Load, float]:
        """Return the load of a job of a kind, and its run time without contention, in seconds."""
        alone_s = kind.requested_s * self._slowness
        mbps = bandwidth_mbps(kind.memory_volume_mb, alone_s) if alone_s else 0.0
        return Load(kind.cores, mbps), alone_s

    def _option(self, now_s: float, free: int, kind: Kind) -> Option:
        start_s = self._start_s(now_s, free, kind.cores)
        load, alone_s = self._demand(kind)
        shares = self.shares
        left = [share.left_s for share in shares]
        run_on(self._model, self._since_s, [share.load for share in shares], left, start_s)
        there = [
            place
            for place, share in enumerate(shares)
            if left[place] > 0.0 and (share.end_s > start_s)
        ]
        loads = [shares[place].load for place in there]
        ends_s = run_on(
            self._model, start_s, [*loads, load], [*(left[place] for place in there), alone_s]
        )
        core_s, delay_s = kind.cores * (ends_s[-1] - start_s), 0.0
        for place, end_s in zip(there, ends_s, strict=False):
            later_s = end_s - shares[place].end_s
            core_s += shares[place].load.cores * later_s
            delay_s += later_s
        busy_s = max(ends_s) - max(self.busy_until_s, start_s)
        extra_j = self._computing_w * max(busy_s, 0.0) + self._core_w * core_s
        return Option(start_s, ends_s[-1], extra_j, max(delay_s, 0.0))

    def _start_s(self, now_s: float, free: int, cores: int) -> float:
        if cores <= free:
            return now_s
        for share in sorted(self.shares, key=lambda share: share.end_s):
            free += share.load.cores
            if cores <= free:
                return max(share.end_s, now_s)
        return now_s

    def _go_on(self, now_s: float) -> None:
        """Advance the tasks to `now_s`."""
        shares = self.shares
        left = [share.left_s for share in shares]
        run_on(self._model, self._since_s, [share.load for share in shares], left, now_s)
        for share, left_s in zip(shares, left, strict=True):
            share.left_s = left_s or LATE * share.alone_s
        self._since_s = now_s

    def _look_ahead(self) -> None:
        shares = self.shares
        left = [share.left_s for share in shares]
        ends_s = run_on(self._model, self._since_s, [share.load for share in shares], left)
        for share, end_s in zip(shares, ends_s, strict=True):
            share.end_s = end_s
        self.busy_until_s = max(ends_s, default=-math.inf)
        self.state = (self.group, *sorted((share.end_s, share.kind) for share in shares))
        self._options.clear()
