"""The energy of a run so far at each change, and the power states of its hosts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from hpcosim_batsim.inputs.model import SWITCHING_OFF, SWITCHING_ON, EnergyPoint, PstateChange
from hpcosim_batsim.outputs.hosts import Hosts, hosts_of_nodes
from hpcosim_protocol import NodeGroup
from hpcosim_server.record.replay import (
    Change,
    JobChange,
    KindChange,
    NodeChange,
    PowerChange,
    Replay,
    changes_of,
)
from hpcosim_server.record.run_record import RunRecord

PstatesOf = Callable[[NodeGroup], tuple[int, int]]
"""Returns the numbers of the power states of a kind of nodes: while on, and while asleep."""


def energy_log(record: RunRecord, hosts: Hosts, pstates_of: PstatesOf) -> EnergyLog:
    """Return the energy and the power states of a run.

    Args:
        record: the run.
        hosts: the hosts of each node.
        pstates_of: numbers the power states.
    """
    log = EnergyLog(record, hosts, pstates_of)
    for change in changes_of(record.recording):
        log.note(change)
    return log


class EnergyLog:
    """What Batsim's two files about energy tell of a run. What a node draws counts once.

    Args:
        record: the run, from which `note` is told every change.
        hosts: the hosts of each node.
        pstates_of: numbers the power states.

    Attributes:
        points: the energy of all hosts at each change, in order.
        pstates: changes of power states, in order, those at the start first.
        unpaid_j: energy used before the first submission, J.
    """

    def __init__(self, record: RunRecord, hosts: Hosts, pstates_of: PstatesOf) -> None:
        self._hosts = hosts
        self._replay = Replay(record.platform, record.recording, record.start_s)
        self._kind_of = self._replay.cluster.group_of
        self._numbers = [pstates_of(kind) for kind in self._replay.cluster.kinds]
        self._count = Counter(zip(self._kind_of, self._replay.power, strict=True))
        self.points: list[EnergyPoint] = []
        self.pstates: list[PstateChange] = []
        self.unpaid_j = 0.0
        self._note_pstates(0.0, range(len(hosts)), {})
        self._first_s = min(record.recording.submit_s, default=record.start_s)

    def note(self, change: Change) -> None:
        """Note the next change of the recording."""
        if self._first_s <= change.time_s and not self.points:
            self.unpaid_j = self._energy_j(self._first_s)
        if isinstance(change, JobChange):
            self._replay.apply(change)
            self.points.append(self._point(change.time_s, "s" if change.starts else "e"))
        elif isinstance(change, PowerChange):
            self._note_power(change)
        else:
            self._note_kind(change)

    def _note_power(self, change: PowerChange) -> None:
        """Note a change of power as Batsim does: before it begins, or after it is complete."""
        before = self._point(change.time_s, "p")
        self._apply(change)
        begins = change.state.startswith("switching")
        self.points.append(before if begins else self._point(change.time_s, "p"))
        self._note_pstates(change.time_s, change.nodes, {})

    def _note_kind(self, change: KindChange) -> None:
        """Note a change of kind if it is one of power states; else only the load is another."""
        point = self._point(change.time_s, "p")
        before = {node: self._pstate(node) for node in change.nodes}
        self._apply(change)
        if any(self._pstate(node) != pstate for node, pstate in before.items()):
            self.points.append(point)
            self._note_pstates(change.time_s, change.nodes, before)

    def _apply(self, change: NodeChange) -> None:
        power = self._replay.power
        self._count.subtract((self._kind_of[node], power[node]) for node in change.nodes)
        self._replay.apply(change)
        self._count.update((self._kind_of[node], power[node]) for node in change.nodes)

    def _note_pstates(self, now_s: float, nodes: Iterable[int], before: Mapping[int, int]) -> None:
        """Note the power states that nodes are in, without those they were in before."""
        together: dict[int, list[int]] = {}
        for node in nodes:
            pstate = self._pstate(node)
            if before.get(node) != pstate:
                together.setdefault(pstate, []).append(node)
        for pstate, members in sorted(together.items()):
            self.pstates.append(PstateChange(now_s, hosts_of_nodes(self._hosts, members), pstate))

    def _pstate(self, node: int) -> int:
        on, asleep = self._numbers[self._kind_of[node]]
        numbers = {
            "on": on,
            "sleeping": asleep,
            "switching_on": SWITCHING_ON,
            "switching_off": SWITCHING_OFF,
        }
        return numbers[self._replay.power[node]]

    def _point(self, now_s: float, kind: Literal["s", "e", "p"]) -> EnergyPoint:
        return EnergyPoint(now_s, self._energy_j(now_s), kind, self._idle_w())

    def _energy_j(self, now_s: float) -> float:
        cluster = self._replay.cluster
        cluster.settle(now_s)
        return math.fsum(meter.energy_j for meter in cluster.meters)

    def _idle_w(self) -> float:
        """Return what all nodes would draw if none computed, W."""
        meters = self._replay.cluster.meters
        return math.fsum(
            count * meters[kind].node_power_w(state, (0,) * len(meters[kind].processors))
            for (kind, state), count in self._count.items()
        )
