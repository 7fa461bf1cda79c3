"""Changes of the kinds of nodes while a simulation runs."""

from __future__ import annotations

from collections.abc import Iterable

from hpcosim_protocol import NodeGroup
from hpcosim_sim.engine.clock import Clock
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.record.recording import Recording


class NodeKinds:
    """Changes the kinds of nodes and records the changes.

    Args:
        clock: clock of the simulation.
        cluster: the nodes.
        recording: receives the new kinds and the changes.
    """

    def __init__(self, clock: Clock, cluster: Cluster, recording: Recording) -> None:
        self._clock = clock
        self._cluster = cluster
        self._recording = recording
        self._number_of: dict[NodeGroup, int] = {}  # of the added kinds

    def change(self, nodes: Iterable[int], kind: NodeGroup) -> None:
        """Change the kind of nodes: their speed, their power and their power states.

        The nodes are on. Every node has one processor, and the number of cores stays the same. The
        end times of running jobs do not change.
        """
        cluster, now_s = self._cluster, self._clock.now
        number = self._number_of.get(kind)
        if number is None:
            number = self._number_of[kind] = cluster.add_kind(kind, now_s)
            self._recording.kinds.append(kind)
        changed = [node for node in nodes if cluster.group_of[node] != number]
        if changed:
            cluster.change_kind(now_s, changed, number)
            for node in changed:
                self._recording.changed_kind(now_s, node, number)
