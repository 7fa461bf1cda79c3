"""Power and energy of the nodes of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import Literal, get_args

from hpcosim_protocol import NodeGroup, PowerState

NodeState = Literal["computing", "idle", "sleeping", "switching_on", "switching_off", "down"]
"""State of a node for energy accounting. A node that is on is computing while it has tasks.

A node that failed is `down` until its repair and draws no power.
"""

NODE_STATES: tuple[NodeState, ...] = get_args(NodeState)
COMPUTING, IDLE = 0, 1

RecordedState = PowerState | Literal["down"]
"""Power state of a node, or `down` while it has failed."""

RECORDED_STATES: tuple[RecordedState, ...] = (*get_args(PowerState), "down")


class GroupMeter:
    """Integrates the power of the nodes of one kind.

    Power is piecewise constant and computed from integers (nodes in each state, active processors,
    cores with a task). It accumulates no rounding errors, and a change costs the same for any
    number of nodes.

    The power of a processor is `idle_fraction * static_w` while it has no task and
    `static_w + dynamic_w * (number of cores with a task)` otherwise (Lopez, Stafford, Bosque 2025,
    section 3.1). `power_states` of the node group gives the power of a node that is not on.

    Args:
        count: initial number of nodes; None: `group.count`.

    Attributes:
        state_energy_j: energy of all nodes by `NODE_STATES` up to `settled_s`, J.
        state_node_s: node-seconds by `NODE_STATES` up to `settled_s`.
        settled_s: simulation time up to which energy is integrated, s.
        power_w: present power of all nodes, W.
    """

    def __init__(self, group: NodeGroup, start_s: float, count: int | None = None) -> None:
        self.processors = group.processors
        self._idle_w = [p.static_w * p.idle_fraction for p in group.processors]
        self._static_w = [p.static_w for p in group.processors]
        self._dynamic_w = [p.dynamic_w for p in group.processors]
        self._active = [0] * len(group.processors)
        self._tasks = [0] * len(group.processors)
        self._nodes = [0] * len(NODE_STATES)
        self._nodes[IDLE] = group.count if count is None else count
        # Power of one node by `NODE_STATES`; that of computing nodes depends on their tasks.
        self._node_w = [0.0, sum(self._idle_w), *_power_off_w(group)]
        self._computing_w = 0.0
        self._never_off = group.power_states is None
        self.state_energy_j = [0.0] * len(NODE_STATES)
        self.state_node_s = [0.0] * len(NODE_STATES)
        self.settled_s = start_s
        self._sum_power()

    @property
    def energy_j(self) -> float:
        """Energy of all nodes up to `settled_s`, J."""
        return sum(self.state_energy_j)

    @property
    def state_power_w(self) -> list[float]:
        """Present power of all nodes by `NODE_STATES`, W."""
        resting_w = map(mul, self._node_w[IDLE:], self._nodes[IDLE:])
        return [self._computing_w, *resting_w]

    @property
    def has_nodes(self) -> bool:
        """Whether any node is of this kind now."""
        return any(self._nodes)

    @property
    def idle_power_w(self) -> float:
        """Power of all nodes if those that compute were idle, W."""
        return self.power_w - self._computing_w + self._node_w[IDLE] * self._nodes[COMPUTING]

    def settle(self, now_s: float) -> None:
        """Integrate up to `now_s`."""
        dt = now_s - self.settled_s
        if dt <= 0.0:
            return
        nodes, energy_j, node_s = self._nodes, self.state_energy_j, self.state_node_s
        energy_j[COMPUTING] += self._computing_w * dt
        node_s[COMPUTING] += nodes[COMPUTING] * dt
        energy_j[IDLE] += self._node_w[IDLE] * nodes[IDLE] * dt
        node_s[IDLE] += nodes[IDLE] * dt
        if not self._never_off:
            for state in range(IDLE + 1, len(NODE_STATES)):
                energy_j[state] += self._node_w[state] * nodes[state] * dt
                node_s[state] += nodes[state] * dt
        self.settled_s = now_s

    def change(
        self, now_s: float, computing_nodes: int, active: Sequence[int], tasks: Sequence[int]
    ) -> None:
        """Change the counts of computing nodes, active processors and tasks.

        Args:
            active: change of the number of active processors, by slot of a node.
            tasks: change of the number of tasks, by slot of a node.
        """
        if now_s > self.settled_s:
            self.settle(now_s)
        self._nodes[IDLE] -= computing_nodes
        self._nodes[COMPUTING] = computing = self._nodes[COMPUTING] + computing_nodes
        computing_w = 0.0
        for slot, more in enumerate(active):
            self._active[slot] = busy = self._active[slot] + more
            self._tasks[slot] = load = self._tasks[slot] + tasks[slot]
            computing_w += (
                self._idle_w[slot] * (computing - busy)
                + self._static_w[slot] * busy
                + self._dynamic_w[slot] * load
            )
        self._computing_w = computing_w
        self._sum_power()

    def change_one(self, now_s: float, active: int, tasks: int) -> None:
        """Change the counts of active processors and tasks of nodes with one processor."""
        if now_s > self.settled_s:
            self.settle(now_s)
        nodes = self._nodes
        nodes[IDLE] -= active
        nodes[COMPUTING] += active
        self._active[0] = busy = self._active[0] + active
        self._tasks[0] = load = self._tasks[0] + tasks
        self._computing_w = self._static_w[0] * busy + self._dynamic_w[0] * load
        if self._never_off:  # the usual case, without a call
            self.power_w = self._computing_w + self._node_w[IDLE] * nodes[IDLE]
        else:
            self._sum_power()

    def add_idle(self, now_s: float, idle_nodes: int) -> None:
        """Add idle nodes to the kind; remove them if the number is negative."""
        self.settle(now_s)
        self._nodes[IDLE] += idle_nodes
        self._sum_power()

    def switch(self, now_s: float, before: RecordedState, after: RecordedState) -> None:
        """Move one node without tasks from one power state to another."""
        self.settle(now_s)
        self._never_off = False
        self._nodes[_state_of(before)] -= 1
        self._nodes[_state_of(after)] += 1
        self._sum_power()

    def _sum_power(self) -> None:
        nodes, node_w = self._nodes, self._node_w
        resting_w = node_w[IDLE] * nodes[IDLE]
        for state in range(IDLE + 1, len(NODE_STATES)):  # `sum` differs from Python 3.12 on
            resting_w += node_w[state] * nodes[state]
        self.power_w = self._computing_w + resting_w

    def node_power_w(self, power: RecordedState, tasks: tuple[int, ...]) -> float:
        """Return the power of one node, W.

        Args:
            power: power state of the node, or `down`.
            tasks: number of tasks on each of its processors.
        """
        if power != "on":
            return self._node_w[_state_of(power)]
        return sum(
            self._static_w[slot] + self._dynamic_w[slot] * busy if busy else self._idle_w[slot]
            for slot, busy in enumerate(tasks[: len(self.processors)])
        )


def _state_of(power: RecordedState) -> int:
    return IDLE if power == "on" else NODE_STATES.index(power)


def _power_off_w(group: NodeGroup) -> list[float]:
    """Return the power of a node in the states after `idle`, in the order of `NODE_STATES`, W."""
    states = group.power_states
    if states is None:
        return [0.0, 0.0, 0.0, 0.0]
    return [states.sleep_w, states.switch_on_w, states.switch_off_w, 0.0]
