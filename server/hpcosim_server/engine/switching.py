"""Nodes on their way on and off: the timers of transitions, and the jobs that wait for a node."""

from __future__ import annotations

import math
from collections.abc import Callable

from hpcosim_protocol import PowerState
from hpcosim_server.engine.clock import Clock, Rank, Timer
from hpcosim_server.engine.job import Job
from hpcosim_server.physics.node_power import NEXT, NodePower


class Switching:
    """Takes nodes from state to state, and jobs to their start.

    Args:
        clock: the simulation's.
        power: the states of the nodes.
        tell: called with a node and the state it entered.
        ready: called with a job whose last node is on.
    """

    def __init__(
        self,
        clock: Clock,
        power: NodePower,
        tell: Callable[[int, PowerState], None],
        ready: Callable[[Job], None],
    ) -> None:
        self._clock = clock
        self._power = power
        self._tell = tell
        self._ready = ready
        self._awaited: dict[int, list[Job]] = {}

    def switch(self, node: int, after: PowerState) -> None:
        """Let a node enter a state, and in its time the one it leads to."""
        now_s = self._clock.now
        lasts_s = self._power.enter(now_s, node, after)
        self._tell(node, after)
        if lasts_s < math.inf:
            end = (node, NEXT[after])
            self._clock.at(now_s + lasts_s, Rank.POWER, self._on_switched, end)

    def bring_on(self, job: Job) -> None:
        """Switch on the nodes of a job that sleep, and call it ready when all are on."""
        state = self._power.state
        off = [node for node in job.nodes if state[node] != "on"]
        job.off = len(off)
        for node in off:
            self._awaited.setdefault(node, []).append(job)
            if state[node] == "sleeping":
                self.switch(node, "switching_on")

    def forget(self, job: Job) -> None:
        """Wait no more for the nodes of a job; those on the way go on."""
        for node in job.nodes:
            if job in self._awaited.get(node, ()):
                self._awaited[node].remove(job)

    def _on_switched(self, timer: Timer) -> None:
        node, after = timer.subject
        self.switch(node, after)
        if after == "on":
            for job in self._awaited.pop(node, ()):
                job.off -= 1
                if not job.off:
                    self._ready(job)
