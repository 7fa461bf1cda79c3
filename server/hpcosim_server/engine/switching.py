"""Nodes on their way on and off: the timers of transitions, and the jobs that wait for a node."""

from __future__ import annotations

import math
from collections.abc import Callable

from hpcosim_protocol import Event, NodePowerChanged, PowerState
from hpcosim_server.engine.clock import Clock, Rank, Timer
from hpcosim_server.engine.jobs import SimulatedJob
from hpcosim_server.physics.node_power import NEXT, NodePower
from hpcosim_server.record.recording import Recording


class Switching:
    """Takes nodes from power state to power state, and jobs to their start.

    Args:
        clock: the simulation's.
        power: the power states of the nodes.
        recording: every change of them is noted there.
        tell: called with the event of a change.
        start: called with a job when the last of its nodes is on.
    """

    def __init__(
        self,
        clock: Clock,
        power: NodePower,
        recording: Recording,
        tell: Callable[[Event], None],
        start: Callable[[SimulatedJob], None],
    ) -> None:
        self._clock = clock
        self._power = power
        self._recording = recording
        self._tell = tell
        self._start = start
        self._awaited: dict[int, list[SimulatedJob]] = {}

    def switch(self, node: int, after: PowerState) -> None:
        """Let a node enter a power state, and later the state that this one leads to."""
        now_s = self._clock.now
        lasts_s = self._power.enter(now_s, node, after)
        self._recording.powered(now_s, node, after)
        self._tell(NodePowerChanged(now_s, node, after))
        if lasts_s < math.inf:
            end = (node, NEXT[after])
            self._clock.at(now_s + lasts_s, Rank.POWER, self._on_switched, end)

    def bring_on(self, job: SimulatedJob) -> None:
        """Switch on the nodes of a job that sleep, and start it when all are on."""
        state = self._power.state
        off = [node for node in job.nodes if state[node] != "on"]
        job.off = len(off)
        for node in off:
            self._awaited.setdefault(node, []).append(job)
            if state[node] == "sleeping":
                self.switch(node, "switching_on")

    def forget(self, job: SimulatedJob) -> None:
        """Stop waiting for the nodes of a job; transitions that have begun go on."""
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
                    self._start(job)
