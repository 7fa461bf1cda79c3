"""Energy of a run at each event, and pstates of its hosts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from hpcosim_batsim.bridge.switch_log import SWITCHING_OFF, SWITCHING_ON, PstateChange
from hpcosim_batsim.outputs.host_changes import Hosts, hosts_of_nodes
from hpcosim_batsim.outputs.model import EnergyPoint
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
"""Returns the pstates of a kind of node: while on, and while asleep."""


def energy_log(record: RunRecord, hosts: Hosts, pstates_of: PstatesOf) -> EnergyLog:
    """Return energy and pstates of a run.

    Args:
        record: the run.
        hosts: hosts of each node.
        pstates_of: returns the pstates of a kind of node.
    """
    log = EnergyLog(record, hosts, pstates_of)
    for change in changes_of(record.recording):
        log.add(change)
    return log


class EnergyLog:
    """Content of `PREFIX_consumed_energy.csv` and `PREFIX_pstate_changes.csv`.

    Args:
        record: the run; `add` takes its changes one by one.
        hosts: hosts of each node.
        pstates_of: returns the pstates of a kind of node.

    Attributes:
        points: energy of all hosts at each event, by time.
        pstates: pstate changes by time, the initial pstates first.
        energy_before_j: energy before the first submission, J; None: nothing changed after it.
    """

    def __init__(self, record: RunRecord, hosts: Hosts, pstates_of: PstatesOf) -> None:
        self._hosts = hosts
        self._replay = Replay(record.platform, record.recording, record.start_s)
        self._kind_of = self._replay.cluster.group_of
        self._pstates_of_kind = [pstates_of(kind) for kind in self._replay.cluster.kinds]
        self._count = Counter(zip(self._kind_of, self._replay.power, strict=True))
        self.points: list[EnergyPoint] = []
        self.pstates: list[PstateChange] = []
        self.energy_before_j: float | None = None
        self._add_pstates(0.0, range(len(hosts)), {})
        self._first_s = min(record.recording.submit_s, default=record.start_s)

    def add(self, change: Change) -> None:
        """Add the next change of the recording."""
        if self._first_s <= change.time_s and self.energy_before_j is None:
            self.energy_before_j = self._energy_j(self._first_s)
        if isinstance(change, JobChange):
            self._replay.apply(change)
            self.points.append(self._point(change.time_s, "s" if change.starts else "e"))
        elif isinstance(change, PowerChange):
            self._add_power(change)
        else:
            self._add_kind(change)

    def _add_power(self, change: PowerChange) -> None:
        """Add a power change, as Batsim does: before it begins, or after it is complete."""
        before = self._point(change.time_s, "p")
        self._apply(change)
        begins = change.state.startswith("switching")
        self.points.append(before if begins else self._point(change.time_s, "p"))
        self._add_pstates(change.time_s, change.nodes, {})

    def _add_kind(self, change: KindChange) -> None:
        """Add a change of kind if the pstate changes; otherwise only the load has changed."""
        before = {node: self._pstate(node) for node in change.nodes}
        if any(self._pstate(node, change.kind) != pstate for node, pstate in before.items()):
            self.points.append(self._point(change.time_s, "p"))
        self._apply(change)
        self._add_pstates(change.time_s, change.nodes, before)

    def _apply(self, change: NodeChange) -> None:
        power = self._replay.power
        self._count.subtract((self._kind_of[node], power[node]) for node in change.nodes)
        self._replay.apply(change)
        self._count.update((self._kind_of[node], power[node]) for node in change.nodes)
        for key in [key for key, count in self._count.items() if not count]:
            del self._count[key]

    def _add_pstates(self, now_s: float, nodes: Iterable[int], before: Mapping[int, int]) -> None:
        """Add the pstates of nodes that differ from those before."""
        together: dict[int, list[int]] = {}
        for node in nodes:
            pstate = self._pstate(node)
            if before.get(node) != pstate:
                together.setdefault(pstate, []).append(node)
        for pstate, members in sorted(together.items()):
            self.pstates.append(PstateChange(now_s, hosts_of_nodes(self._hosts, members), pstate))

    def _pstate(self, node: int, kind: int | None = None) -> int:
        """Return the pstate of a node, also if it were of another kind."""
        on, asleep = self._pstates_of_kind[self._kind_of[node] if kind is None else kind]
        numbers = {
            "on": on,
            "down": on,
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
        """Return the power of all nodes if all were idle, W."""
        meters = self._replay.cluster.meters
        return math.fsum(
            count * meters[kind].node_power_w(state, (0,) * len(meters[kind].processors))
            for (kind, state), count in self._count.items()
        )
