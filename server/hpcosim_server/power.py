"""Power and energy of a group of equal nodes, exact at any instant."""

from __future__ import annotations

from hpcosim_protocol import NodeGroup


class GroupMeter:
    """Integrates the power of a node group.

    Power is piecewise constant and a function of whole numbers (nodes computing, processors
    active, cores with a task), so it never drifts however often it changes, and a change
    costs the same for one node as for a thousand.

    A processor draws `idle_fraction * static_w` while none of its cores has a task and
    `static_w + dynamic_w * (cores with a task)` otherwise (Lopez, Stafford, Bosque 2025,
    section 3.1).

    Attributes:
        processors: those of each node.
        energy_j: energy of all nodes of the group, J, up to `settled_s`.
        idle_energy_j: the part of it drawn by nodes on which nothing ran.
        computing_node_s: node-seconds with something running.
        settled_s: the simulated second up to which these are integrated.
    """

    def __init__(self, group: NodeGroup, start_s: float) -> None:
        self.processors = group.processors
        self._count = group.count
        self._idle_w = [p.static_w * p.idle_fraction for p in group.processors]
        self._static_w = [p.static_w for p in group.processors]
        self._dynamic_w = [p.dynamic_w for p in group.processors]
        self._idle_node_w = sum(self._idle_w)
        self._computing_nodes = 0
        self._active = [0] * len(group.processors)
        self._tasks = [0] * len(group.processors)
        self.energy_j = 0.0
        self.idle_energy_j = 0.0
        self.computing_node_s = 0.0
        self.settled_s = start_s
        self._refresh()

    def settle(self, now_s: float) -> None:
        """Integrate up to `now_s`."""
        dt = now_s - self.settled_s
        if dt > 0.0:
            self.energy_j += self._power_w * dt
            self.idle_energy_j += self._idle_power_w * dt
            self.computing_node_s += self._computing_nodes * dt
            self.settled_s = now_s

    def change(
        self, now_s: float, computing_nodes: int, active: list[int], tasks: list[int]
    ) -> None:
        """Change the counts at `now_s`.

        Args:
            now_s: when.
            computing_nodes: by how many more nodes compute.
            active: for each processor of a node, by how many more of these are active.
            tasks: likewise, by how many more of their cores have a task.
        """
        self.settle(now_s)
        self._computing_nodes += computing_nodes
        for slot, more in enumerate(active):
            self._active[slot] += more
            self._tasks[slot] += tasks[slot]
        self._refresh()

    def node_power_w(self, tasks: tuple[int, ...]) -> float:
        """Return the power of one node whose processors have so many tasks each."""
        return sum(
            self._static_w[slot] + self._dynamic_w[slot] * busy if busy else self._idle_w[slot]
            for slot, busy in enumerate(tasks[: len(self.processors)])
        )

    def _refresh(self) -> None:
        self._idle_power_w = self._idle_node_w * (self._count - self._computing_nodes)
        self._power_w = 0.0
        for slot, active in enumerate(self._active):
            self._power_w += (
                self._idle_w[slot] * (self._count - active)
                + self._static_w[slot] * active
                + self._dynamic_w[slot] * self._tasks[slot]
            )
