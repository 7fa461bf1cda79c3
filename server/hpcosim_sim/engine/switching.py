"""Transitions of node power states: their timers, and the jobs that wait for nodes to be on."""

from __future__ import annotations

import math
from collections.abc import Callable

from hpcosim_protocol import Event, NodePowerChanged, PowerState
from hpcosim_sim.engine.clock import Clock, Rank, Timer
from hpcosim_sim.engine.jobs import SimulatedJob
from hpcosim_sim.physics.node_power import NEXT, NodePower
from hpcosim_sim.record.recording import Recording


class Switching:
    """Switches nodes between power states and starts jobs when their nodes are on.

    Args:
        clock: clock of the simulation.
        power: power states of the nodes.
        recording: receives every change of a power state.
        emit: called with a `NodePowerChanged` event at each change.
        start: called with an allocated job when the last of its nodes is on.
    """

    def __init__(
        self,
        clock: Clock,
        power: NodePower,
        recording: Recording,
        emit: Callable[[Event], None],
        start: Callable[[SimulatedJob], None],
    ) -> None:
        self._clock = clock
        self._power = power
        self._recording = recording
        self._emit = emit
        self._start = start
        self._waiting_for: dict[int, list[SimulatedJob]] = {}
        self._timers: dict[int, Timer] = {}  # of nodes in transitional states

    def switch(self, node: int, after: PowerState) -> None:
        """Move a node to a power state and set the timer that ends a transitional state."""
        now_s = self._clock.now
        lasts_s = self._power.enter(now_s, node, after)
        self._recording.powered(now_s, node, after)
        self._emit(NodePowerChanged(now_s, node, after))
        if lasts_s < math.inf:
            end = (node, NEXT[after])
            self._timers[node] = self._clock.at(now_s + lasts_s, Rank.POWER, self._on_switched, end)

    def cancel(self, node: int) -> None:
        """Cancel the transition of a node, for which no job waits; nothing happens without one."""
        timer = self._timers.pop(node, None)
        if timer is not None:
            self._clock.cancel(timer)

    def complete(self, node: int) -> None:
        """End the transition of a node now; nothing happens without one."""
        timer = self._timers.get(node)
        if timer is not None:
            self._clock.cancel(timer)
            self._on_switched(timer)

    def switch_on_for(self, job: SimulatedJob) -> None:
        """Switch on the sleeping nodes of an allocated job and start it when all are on."""
        state = self._power.state
        off = [node for node in job.nodes if state[node] != "on"]
        job.nodes_off = len(off)
        for node in off:
            self._waiting_for.setdefault(node, []).append(job)
            if state[node] == "sleeping":
                self.switch(node, "switching_on")

    def cancel_wait(self, job: SimulatedJob) -> None:
        """Remove an allocated job from the waiting lists; started transitions continue."""
        for node in job.nodes:
            if job in self._waiting_for.get(node, ()):
                self._waiting_for[node].remove(job)

    def _on_switched(self, timer: Timer) -> None:
        node, after = timer.subject
        del self._timers[node]
        self.switch(node, after)
        if after == "on":
            for job in self._waiting_for.pop(node, ()):
                job.nodes_off -= 1
                if not job.nodes_off:
                    self._start(job)
