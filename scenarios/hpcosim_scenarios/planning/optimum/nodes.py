"""What jobs do on one node, as values: a search copies, keeps and compares them by the million.

Speeds, run times and powers are the server's own functions; what is here is only when each is
asked for, as `physics.execution.SharedProcessor` defines. The arithmetic is the same to
the last bit, so that instants coincide here where they do in the simulator.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_protocol import bandwidth_mbps, task_speed
from hpcosim_server.physics.cluster import AllocationPart, Cluster
from hpcosim_server.physics.execution import Execution
from hpcosim_workloads.table import JobSpec


class Share(NamedTuple):
    """A job that runs on a node.

    Attributes:
        kind: index of its kind.
        left_s: what it had left to do at `since_s`, in seconds at full speed.
        since_s: when its speed last changed.
        speed: share of the full speed it has had since.
        end_s: when it ends, at that speed.
    """

    kind: int
    left_s: float
    since_s: float
    speed: float
    end_s: float


class NodeModel:
    """What is the same for the nodes of a group: how long each kind of job takes, at what power.

    Attributes:
        capacity: cores of a node.
        cores: cores of a job, by kind.
        alone_s: run time of a job that nothing slows, by kind.
        idle_w: power of a node on which nothing runs.
        extra_w: power beyond that, by how many cores have a task.
        idle: such a node.
    """

    def __init__(
        self, cluster: Cluster, execution: Execution, node: int, kinds: Sequence[JobSpec]
    ) -> None:
        meter = cluster.meters[cluster.group_of[node]]
        self.capacity = cluster.capacity[node]
        self.cores = [kind.cores for kind in kinds]
        parts = [[AllocationPart(meter, [node], [[kind.cores]])] for kind in kinds]
        self.alone_s = [
            execution.run_time_s(kind, its) for kind, its in zip(kinds, parts, strict=True)
        ]
        # Tasks that share the memory's bandwidth; 0: the kind slows none and is slowed by none.
        self._sharing = [
            kind.cores if execution.is_shared(kind, its) else 0
            for kind, its in zip(kinds, parts, strict=True)
        ]
        self._mbps = [
            bandwidth_mbps(kind.memory_volume_mb, alone_s) if sharing else 0.0
            for kind, alone_s, sharing in zip(kinds, self.alone_s, self._sharing, strict=True)
        ]
        self._contention = meter.processors[0].contention
        powers_w = [cluster.power_w(node, "on", (busy,)) for busy in range(self.capacity + 1)]
        self.idle_w = powers_w[0]
        self.extra_w = [power_w - self.idle_w for power_w in powers_w]
        self._known: dict[tuple[Share, ...], NodeState] = {}
        self._numbers = itertools.count()
        self.idle = self.state(())

    def state(self, shares: tuple[Share, ...]) -> NodeState:
        """Return the one object that stands for these shares, in the order they came."""
        state = self._known.get(shares)
        if state is None:
            state = self._known[shares] = NodeState(self, next(self._numbers), shares)
        return state

    def speeds(self, running: Sequence[tuple[int, int]]) -> list[float]:
        """Return the speed of each of these, in order.

        Args:
            running: the kind of each job, and how many of its tasks have operations left.
        """
        if self._contention is None:
            return [1.0] * len(running)
        total_mbps = sum(self._mbps[kind] * self._sharing[kind] for kind, _ in running)
        active = max(sum(tasks for kind, tasks in running if self._sharing[kind]), 1)
        return [
            task_speed(self._contention, total_mbps, self._mbps[kind], active)
            if self._sharing[kind]
            else 1.0
            for kind, _ in running
        ]

    def with_speeds(self, shares: Sequence[Share], now_s: float) -> list[Share]:
        """Return shares as they go on once jobs came or went; those of an unchanged speed as is.

        One that is due now has nothing left, and only waits for its job to be forgotten.
        """
        tasks = [0 if share.end_s <= now_s else self.cores[share.kind] for share in shares]
        running = [(share.kind, count) for share, count in zip(shares, tasks, strict=True)]
        changed = []
        for share, count, speed in zip(shares, tasks, self.speeds(running), strict=True):
            if share.speed == speed or not count:
                changed.append(share)
                continue
            left_s = max(share.left_s - share.speed * (now_s - share.since_s), 0.0)
            changed.append(Share(share.kind, left_s, now_s, speed, now_s + left_s / speed))
        return changed


class NodeState:
    """What runs on a node from some instant on. There is one object for each, so `is` compares.

    Attributes:
        model: of the node.
        number: sets it apart from other states of the model.
        shares: what runs, in the order it came.
        free: cores without a task.
        next_end_s: when the next job ends; infinity: never.
        last_end_s: when the last does if no more come; minus infinity: nothing runs.
    """

    __slots__ = (
        "_after",
        "_after_j",
        "_started",
        "extra_w",
        "free",
        "last_end_s",
        "model",
        "next_end_s",
        "number",
        "shares",
    )

    def __init__(self, model: NodeModel, number: int, shares: tuple[Share, ...]) -> None:
        self.model = model
        self.number = number
        self.shares = shares
        busy = sum(model.cores[share.kind] for share in shares)
        self.free = model.capacity - busy
        self.extra_w = model.extra_w[busy]
        self._started: dict[tuple[int, float], NodeState] = {}
        self.next_end_s, self.last_end_s = math.inf, -math.inf
        self._after, self._after_j = self, 0.0
        if shares:
            self.next_end_s = min(share.end_s for share in shares)
            self._after = self._go_on()
            self.last_end_s = max(self.next_end_s, self._after.last_end_s)
            self._after_j = self._after.extra_j(self.next_end_s)

    def extra_j(self, from_s: float) -> float:
        """Return the energy beyond idle power from a time in this state on if no more jobs come."""
        if not self.shares:
            return 0.0
        return self.extra_w * (self.next_end_s - from_s) + self._after_j

    def after(self) -> NodeState:
        """Return the state from `next_end_s` on."""
        return self._after

    def start(self, kind: int, now_s: float) -> NodeState:
        """Return the state once a job of a kind has started, for which there are cores."""
        state = self._started.get((kind, now_s))
        if state is None:
            new = Share(kind, self.model.alone_s[kind], now_s, 0.0, math.inf)
            shares = self.model.with_speeds((*self.shares, new), now_s)
            state = self._started[kind, now_s] = self.model.state(tuple(shares))
        return state

    def _go_on(self) -> NodeState:
        """Return the state after the next end; jobs due together are forgotten one by one."""
        now_s, shares = self.next_end_s, list(self.shares)
        for due in [share for share in shares if share.end_s <= now_s]:
            shares = self.model.with_speeds([it for it in shares if it is not due], now_s)
        return self.model.state(tuple(shares))
