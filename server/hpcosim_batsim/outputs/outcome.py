"""What a simulation comes to in Batsim's terms.

Batsim gives hosts to jobs, and a host to one job at a time. So a host is a core here, numbered
from node to node; on a node a job has the free cores of the lowest numbers. What a node draws
counts once.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import Literal, NamedTuple

from hpcosim_batsim.inputs.model import (
    SWITCHING_OFF,
    SWITCHING_ON,
    EnergyPoint,
    FinalState,
    JobOutcome,
    Outcome,
    PstateChange,
    StateChange,
)
from hpcosim_protocol import NodeGroup, PowerState
from hpcosim_server.engine.engine import Engine as Simulation
from hpcosim_server.physics.cluster import Cluster, Part
from hpcosim_server.record.recording import POWER_STATES, STATES, Recording

FINAL: Mapping[str, FinalState] = {
    "completed": "COMPLETED_SUCCESSFULLY",
    "timeout": "COMPLETED_WALLTIME_REACHED",
    "killed": "COMPLETED_KILLED",
    "node_failed": "COMPLETED_FAILED",
    "rejected": "REJECTED",
}


def plain_job(recording: Recording, row: int) -> JobOutcome:
    """Return a job of one of our workloads, by its row: those have no profiles to speak of."""
    return JobOutcome(
        name=str(recording.job_id[row]),
        workload="w0",
        profile="",
        submit_s=recording.submit_s[row],
        res=recording.cores[row],
        walltime_s=recording.requested_s[row],
        state=FINAL[STATES[recording.state[row]]],
    )


def plain_pstates(_: NodeGroup) -> tuple[int, int]:
    """Return the numbers of the power states of one of our nodes: on, and sleeping."""
    return 0, 1


def outcome_of(
    simulation: Simulation,
    *,
    job: Callable[[Recording, int], JobOutcome] = plain_job,
    pstates: Callable[[NodeGroup], tuple[int, int]] = plain_pstates,
    energy: bool = True,
) -> Outcome:
    """Return what a simulation came to, finished or not; jobs that are not over are left out.

    Args:
        simulation: which.
        job: returns what is known of a job, by its row, before what is worked out here: when it
            ran, where, and what energy it used.
        pstates: the power states of a kind of nodes: while on, and while asleep.
        energy: say what was used when, and by which job.
    """
    replayed = _Replay(simulation, pstates, energy=energy)
    replayed.play()
    return Outcome(
        hosts=simulation.cluster.core_count,
        jobs=_jobs(simulation, job, replayed.given, energy=energy),
        states=replayed.states,
        pstates=replayed.pstates if energy else None,
        energy=replayed.energy if energy else None,
        start_s=simulation.start_s,
        unpaid_j=replayed.unpaid_j,
        grouped_switches=replayed.switches,
        version=f"hpcosim {_version()}",
    )


def _version() -> str:
    try:
        return version("hpcosim")
    except PackageNotFoundError:  # run from its source
        return "unknown"


def _jobs(
    simulation: Simulation,
    job: Callable[[Recording, int], JobOutcome],
    given: Mapping[int, array[int]],
    *,
    energy: bool,
) -> list[JobOutcome]:
    """Return the jobs that are over, in the order in which they were."""
    recording = simulation.recording
    energies_j = simulation.job_energies_j() if energy else None
    place = {~code: place for place, code in enumerate(recording.changes) if code < 0}
    over = [row for row in range(len(recording)) if not math.isnan(recording.end_s[row])]
    over.sort(key=lambda row: (recording.end_s[row], place.get(row, len(recording.changes))))
    jobs = []
    for row in over:
        told = job(recording, row)
        if row in given:
            told.start_s, told.end_s = recording.start_s[row], recording.end_s[row]
            told.hosts = given[row]
            told.energy_j = None if energies_j is None else energies_j[row]
        jobs.append(told)
    return jobs


class _Switch(NamedTuple):
    """Nodes that entered a power state at once: one request was carried out, or begun.

    `at`: before which change of the recording.
    """

    at: int
    time_s: float
    state: PowerState
    nodes: list[int]


class _Turn(NamedTuple):
    """Nodes that were turned into another kind at once; `at` as in `_Switch`."""

    at: int
    time_s: float
    kind: int
    nodes: list[int]


class _Run(NamedTuple):
    """A job started (its row), or ended (the row's complement)."""

    time_s: float
    code: int


class _Replay:
    """A recording played once more, change by change.

    Attributes:
        given: the hosts of each job that started, by its row.
        states, pstates, energy, unpaid_j: as in `Outcome`.
        switches: how often nodes began to be switched.
    """

    def __init__(
        self,
        simulation: Simulation,
        pstates: Callable[[NodeGroup], tuple[int, int]],
        *,
        energy: bool,
    ) -> None:
        self._recording = recording = simulation.recording
        self._notes_energy = energy
        self._start_s = simulation.start_s
        platform = simulation.cluster.platform
        self._cluster = Cluster(platform, self._start_s, recording.kinds)
        self._pstates = [pstates(kind) for kind in self._cluster.kinds]
        capacity = self._cluster.capacity
        first = accumulate(capacity[:-1], initial=0)
        self._cores = [range(at, at + count) for at, count in zip(first, capacity, strict=True)]
        self._free = [list(cores) for cores in self._cores]
        self._power: list[PowerState] = ["on"] * len(capacity)
        # How many nodes of each kind are in each power state.
        self._count = Counter((kind, self._power[0]) for kind in self._cluster.group_of)
        self._parts: dict[int, list[Part]] = {}
        self.given: dict[int, array[int]] = {}
        self.states: list[StateChange] = []
        self.pstates: list[PstateChange] = []
        self.energy: list[EnergyPoint] = []
        self.unpaid_j = 0.0
        self.switches = 0

    def play(self) -> None:
        self._note_pstates(0.0, range(len(self._power)), {})
        first_s = min(self._recording.submit_s, default=self._start_s)
        for change in self._in_order():
            if self._notes_energy and first_s <= change.time_s and not self.energy:
                self.unpaid_j = self._energy_j(first_s)
            if isinstance(change, _Switch):
                self._switch(change)
            elif isinstance(change, _Turn):
                self._turn(change)
            elif change.code >= 0:
                self._begin(change.time_s, change.code)
            else:
                self._end(change.time_s, ~change.code)

    def _in_order(self) -> Iterator[_Switch | _Turn | _Run]:
        """Yield all changes as they came.

        Of switches and turns between two changes of jobs it is not recorded which came first; a
        node is turned while it is on.
        """
        recording = self._recording
        switches, turns = deque(_switches(recording)), deque(_turns(recording))
        for place in range(len(recording.changes) + 1):
            while (switches and switches[0].at <= place) or (turns and turns[0].at <= place):
                turn_first = turns and turns[0].at <= place and self._is_next(turns[0], switches)
                yield turns.popleft() if turn_first else switches.popleft()
            if place < len(recording.changes):
                code = recording.changes[place]
                time_s = recording.start_s[code] if code >= 0 else recording.end_s[~code]
                yield _Run(time_s, code)

    def _is_next(self, turn: _Turn, switches: Sequence[_Switch]) -> bool:
        if not switches or (turn.at, turn.time_s) < (switches[0].at, switches[0].time_s):
            return True
        same = (turn.at, turn.time_s) == (switches[0].at, switches[0].time_s)
        return same and all(self._power[node] == "on" for node in turn.nodes)

    def _begin(self, now_s: float, row: int) -> None:
        nodes, tasks = self._recording.nodes_of(row), self._recording.tasks_of(row)
        cores: array[int] = array("i")
        for node, count in zip(nodes, tasks, strict=True):
            free = self._free[node]
            cores.extend(free[:count])
            del free[:count]
        self.given[row] = cores
        if self._notes_energy:
            self._parts[row] = self._cluster.occupy(now_s, nodes, tasks)
        self.states.append(StateChange(now_s, cores, "computing"))
        self._note_energy(now_s, "s")

    def _end(self, now_s: float, row: int) -> None:
        nodes, tasks = self._recording.nodes_of(row), self._recording.tasks_of(row)
        cores, place = self.given[row], 0
        for node, count in zip(nodes, tasks, strict=True):
            self._free[node] = sorted([*self._free[node], *cores[place : place + count]])
            place += count
        if self._notes_energy:
            self._cluster.vacate(now_s, self._parts.pop(row))
        self.states.append(StateChange(now_s, cores, "idle"))
        self._note_energy(now_s, "e")

    def _switch(self, switch: _Switch) -> None:
        _, now_s, state, nodes = switch
        begins = state.startswith("switching")
        self.switches += begins
        if begins:
            self._note_energy(now_s, "p")
        for node in nodes:
            kind, before = self._cluster.group_of[node], self._power[node]
            self._cluster.meters[kind].switch(now_s, before, state)
            self._count[kind, before] -= 1
            self._count[kind, state] += 1
            self._power[node] = state
        if not begins:
            self._note_energy(now_s, "p")
        now = "idle" if state == "on" else state
        self.states.append(StateChange(now_s, self._cores_of(nodes), now))
        self._note_pstates(now_s, nodes, {})

    def _turn(self, turn: _Turn) -> None:
        _, now_s, kind, nodes = turn
        before = {node: self._pstate(node) for node in nodes}
        energy_j = self._energy_j(now_s)
        idle_w = self._idle_w()
        for node in nodes:
            self._count[self._cluster.group_of[node], "on"] -= 1
            self._count[kind, "on"] += 1
            self._cluster.turn_into(now_s, node, kind)
        if any(self._pstate(node) != pstate for node, pstate in before.items()):
            self.energy.append(EnergyPoint(now_s, energy_j, "p", idle_w))
            self._note_pstates(now_s, nodes, before)

    def _note_pstates(self, now_s: float, nodes: Iterable[int], before: Mapping[int, int]) -> None:
        """Note the power states that nodes are in, but of those that were before."""
        together: dict[int, list[int]] = {}
        for node in nodes:
            pstate = self._pstate(node)
            if before.get(node) != pstate:
                together.setdefault(pstate, []).append(node)
        for pstate, members in sorted(together.items()):
            self.pstates.append(PstateChange(now_s, self._cores_of(members), pstate))

    def _pstate(self, node: int) -> int:
        on, asleep = self._pstates[self._cluster.group_of[node]]
        numbers = {
            "on": on,
            "sleeping": asleep,
            "switching_on": SWITCHING_ON,
            "switching_off": SWITCHING_OFF,
        }
        return numbers[self._power[node]]

    def _note_energy(self, now_s: float, kind: Literal["s", "e", "p"]) -> None:
        if self._notes_energy:
            point = EnergyPoint(now_s, self._energy_j(now_s), kind, self._idle_w())
            self.energy.append(point)

    def _energy_j(self, now_s: float) -> float:
        self._cluster.settle(now_s)
        return math.fsum(meter.energy_j for meter in self._cluster.meters)

    def _idle_w(self) -> float:
        """Return what all nodes would draw if none computed, W."""
        meters = self._cluster.meters
        return math.fsum(
            count * meters[kind].node_power_w(state, (0,) * len(meters[kind].processors))
            for (kind, state), count in self._count.items()
        )

    def _cores_of(self, nodes: Iterable[int]) -> array[int]:
        return array("i", chain.from_iterable(self._cores[node] for node in nodes))


def _turns(recording: Recording) -> Iterator[_Turn]:
    columns = zip(
        recording.turned_at,
        recording.turned_s,
        recording.turned_kind,
        recording.turned_node,
        strict=True,
    )
    for (at, time_s, kind), group in groupby(columns, key=itemgetter(0, 1, 2)):
        yield _Turn(at, time_s, kind, [node for *_, node in group])


def _switches(recording: Recording) -> Iterator[_Switch]:
    columns = zip(
        recording.power_at,
        recording.power_s,
        recording.power_state,
        recording.power_node,
        strict=True,
    )
    for (at, time_s, code), group in groupby(columns, key=itemgetter(0, 1, 2)):
        yield _Switch(at, time_s, POWER_STATES[code], [node for *_, node in group])
