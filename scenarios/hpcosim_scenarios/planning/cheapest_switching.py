"""The switching of nodes with the least energy for a fixed schedule, by a linear program.

The nodes are equal and jobs hold whole nodes. So only the number of nodes in each state matters: a
flow of nodes through time.

    on and free --(switch_off_s)--> asleep --(switch_on_s)--> on and free
        ^  |
        |  v
       in jobs, by the schedule

Every job finds its nodes on, so the schedule does not change. The cost of an edge is the power of
the state times the time in it. Computing has no cost here, because it is fixed. The minimum-cost
flow is a linear program. Each column of its matrix has at most one 1 and one -1, so the matrix is
totally unimodular, and the optimum that the simplex method finds has integer numbers of nodes. It
is also the minimum over all assignments of nodes to jobs, because equal nodes are interchangeable.

Instants of the program. Consider one node between two of its jobs, free from a to b. It stays on,
or it is switched off and on once or several times. Let sleeping have the lowest power of all states
(otherwise the oracle refuses the platform). Then the cheapest way with any switching is: off at a,
asleep, on exactly at b. It makes each transition once, and any other way makes each at least once;
it spends the remaining time asleep, at the lowest power; and it fits if any other way fits. The
time before the first job of a node is such a gap, too. The time after the last job, from a, or of a
node without jobs, is open: the run ends at T, and later costs do not count. After the first
switching-off at s, sleeping to the end is the cheapest. It costs idle power until s, then the power
of the transition until the transition or the run ends, then that of sleep. As a function of s this
does not decrease as long as the transition ends by T, and is linear from there to s = T. So its
minimum is at s = a, or at s = T, which means to stay on. Therefore nodes begin to be switched off
only at the start of the run or at the end of a job, and end being switched on only at the start of
a job.

No simple rule is optimal, such as to allocate the node that was freed last. If a gap with savings
is too short for both transitions, two medium gaps can cost less than this gap and a long one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import NodeGroup, Platform, PowerStates
from hpcosim_scenarios.errors import OracleError
from hpcosim_schedulers.power.oracle import NodeSwitch, State
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.recording import Recording
from hpcosim_workloads.table import PLACEMENTS

# Checks of the nodes that the oracle plans for.


WHOLE_NODES = PLACEMENTS.index("whole_nodes")


class EveryNode(NamedTuple):
    """The properties that all nodes share.

    Attributes:
        idle_w: power of a node that is on without jobs, W.
        states: power and times of sleeping and switching.
    """

    idle_w: float
    states: PowerStates


def every_node(platform: Platform) -> EveryNode:
    """Return the properties that all nodes share.

    Raises:
        OracleError: nodes differ, cannot be switched, or fail `check_states`.
    """
    group = _only_group(platform)
    if group.power_states is None:
        raise OracleError("the oracle switches nodes; add power_states to the node group")
    check_states(group.idle_w, group.power_states)
    return EveryNode(group.idle_w, group.power_states)


def check_states(idle_w: float, states: PowerStates) -> None:
    """Check that switching times are not random, and that no state draws less than sleeping.

    Raises:
        OracleError: a check failed.
    """
    if states.switch_on_sd_s > 0.0 or states.switch_off_sd_s > 0.0:
        raise OracleError(
            "the oracle needs fixed switching times; set switch_on_sd_s and switch_off_sd_s to 0"
        )
    others_w = {"idle": idle_w}
    if states.switch_on_s > 0.0:
        others_w["switch_on_w"] = states.switch_on_w
    if states.switch_off_s > 0.0:
        others_w["switch_off_w"] = states.switch_off_w
    least = min(others_w, key=lambda state: others_w[state])
    if states.sleep_w > others_w[least]:
        raise OracleError(
            f"the oracle needs sleep_w to be the lowest power of a node; "
            f"sleep_w is {states.sleep_w} W, {least} is {others_w[least]} W"
        )


def _only_group(platform: Platform) -> NodeGroup:
    kinds = [msgspec.structs.replace(group, count=1) for group in platform.nodes]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise OracleError(
                f"the oracle plans for equal nodes; platform.nodes[{number}] differs from "
                f"platform.nodes[0]"
            )
    return kinds[0]


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

INTEGER_TOLERANCE = 1e-6  # of numbers of nodes in the solver's result
COST_TOLERANCE = 1e-7  # relative, between the solver's cost and that of the rounded solution


@dataclass(frozen=True, slots=True)
class Schedule:
    """A complete schedule of jobs on nodes.

    Attributes:
        nodes: number of nodes, all on at the start.
        start_s: start of the run, s.
        end_s: end of the run, s; later energy does not count.
        job_start_s, job_end_s: float64[jobs], start and end of each job, s.
        job_nodes: int64[jobs], number of nodes of each job.
    """

    nodes: int
    start_s: float
    end_s: float
    job_start_s: Floats
    job_end_s: Floats
    job_nodes: Ints


@dataclass(frozen=True, slots=True)
class CheapestPlan:
    """The optimal switching of nodes for a schedule.

    Attributes:
        switches: in order of time; at one instant `off` before `on`.
        idle_j, sleeping_j, switching_on_j, switching_off_j: energy of all nodes in these states,
            J, as in the metrics of the same names.
        shutdowns: number of times a node is switched off.
    """

    switches: list[NodeSwitch]
    idle_j: float
    sleeping_j: float
    switching_on_j: float
    switching_off_j: float
    shutdowns: int

    @property
    def wasted_j(self) -> float:
        """Energy of all nodes in states other than computing, J."""
        return self.idle_j + self.sleeping_j + self.switching_on_j + self.switching_off_j


def cheapest_switching(schedule: Schedule, idle_w: float, states: PowerStates) -> CheapestPlan:
    """Return the plan with the least wasted energy that delays no job of a schedule.

    It is the optimum for this schedule over all assignments of nodes to jobs. It is no lower bound
    for policies that delay jobs or start them in another order.

    Args:
        schedule: the jobs with their times and numbers of nodes.
        idle_w: power of a node that is on without jobs, W.
        states: power and times of sleeping and switching.

    Raises:
        OracleError: `check_states` fails, a job has a run time of 0, or SciPy is missing.
    """
    check_states(idle_w, states)
    if (schedule.job_end_s <= schedule.job_start_s).any():
        raise OracleError("the oracle does not support jobs with a run time of 0")
    flow = _Flow(schedule, idle_w, states)
    return flow.plan(_solve(flow))


class _Flow:
    """The linear program: minimize `cost_j @ x` subject to `matrix @ x == supply` and `x >= 0`.

    The columns of x are numbers of nodes, in four parts:
    idle: on and free from each instant of `at_s` to the next;
    off: begin to be switched off at each instant of `off_at_s`;
    on: begin to be switched on at each instant of `on_at_s`;
    asleep: from each instant of `asleep_at_s` to the next, or to the end.
    """

    def __init__(self, schedule: Schedule, idle_w: float, states: PowerStates) -> None:
        end_s = schedule.end_s
        self._edges(schedule)
        self.off_at_s = self._times_to_switch_off(schedule)
        asleep_s = self.off_at_s + states.switch_off_s
        self._times_to_switch_on(schedule, states.switch_on_s, asleep_s.min(initial=np.inf))
        sleeps = asleep_s <= end_s  # the others are still being switched when the run ends
        self._asleep_at_s = np.unique(np.concatenate([asleep_s[sleeps], self.on_at_s]))
        self._parts_j = [
            idle_w * np.diff(self._at_s),
            states.switch_off_w * np.minimum(states.switch_off_s, end_s - self.off_at_s),
            np.full(len(self.on_at_s), states.switch_on_w * states.switch_on_s),
            states.sleep_w * np.diff(self._asleep_at_s, append=end_s),
        ]
        self.cost_j = np.concatenate(self._parts_j)
        self._first = np.cumsum([0, *(len(part) for part in self._parts_j)])
        self._asleep_s = asleep_s
        self._sleeps = sleeps

    def _edges(self, schedule: Schedule) -> None:
        """Set the instants of allocating or freeing nodes, and the net number freed at each."""
        start_s, end_s, nodes = schedule.job_start_s, schedule.job_end_s, schedule.job_nodes
        times_s = np.concatenate([[schedule.start_s], start_s, end_s, [schedule.end_s]])
        change = np.concatenate([[schedule.nodes], -nodes, nodes, [0]])
        self._at_s, where = np.unique(times_s, return_inverse=True)
        freed = np.zeros(len(self._at_s), dtype=np.int64)
        np.add.at(freed, where, change)
        self._freed = freed[:-1]

    def _times_to_switch_off(self, schedule: Schedule) -> Floats:
        times_s = np.unique(np.concatenate([[schedule.start_s], schedule.job_end_s]))
        return times_s[times_s < schedule.end_s]

    def _times_to_switch_on(
        self, schedule: Schedule, switch_on_s: float, first_asleep_s: float
    ) -> None:
        """Set the times to begin switching on, and the starts of jobs that need them."""
        needed_s = np.unique(schedule.job_start_s)
        wake_s = wake_times_s(needed_s, switch_on_s)
        can_be = wake_s >= first_asleep_s
        self.on_at_s, self._needed_s = wake_s[can_be], needed_s[can_be]

    @property
    def supply(self) -> Floats:
        """The right-hand side: nodes freed minus allocated; 0 in the rows of sleeping nodes."""
        return np.concatenate([self._freed, np.zeros(len(self._asleep_at_s))])

    def entries(self) -> tuple[Ints, Ints, Floats]:
        """Return the entries of the matrix: row, column, value. A row is an instant.

        First the rows of `at_s`: idle now - idle before + switched off - switched on = freed. Then
        those of `asleep_at_s`.
        """
        idle, off, on, asleep = (
            np.arange(first, last)
            for first, last in zip(self._first[:-1], self._first[1:], strict=True)
        )
        below = len(idle)  # number of rows of idle nodes
        entries = [
            (np.arange(len(idle)), idle, 1),
            (np.arange(1, len(idle)), idle[:-1], -1),
            (np.searchsorted(self._at_s, self.off_at_s), off, 1),
            (np.searchsorted(self._at_s, self._needed_s), on, -1),
            (below + np.arange(len(asleep)), asleep, 1),
            (below + np.arange(1, len(asleep)), asleep[:-1], -1),
            (below + self._row_asleep(self._asleep_s[self._sleeps]), off[self._sleeps], -1),
            (below + self._row_asleep(self.on_at_s), on, 1),
        ]
        rows, columns, values = zip(*entries, strict=True)
        signs = [np.full(len(row), value) for row, value in zip(rows, values, strict=True)]
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(signs)

    def _row_asleep(self, times_s: Floats) -> Ints:
        return np.searchsorted(self._asleep_at_s, times_s)

    def plan(self, count: Ints) -> CheapestPlan:
        """Return the plan of an integer solution."""
        parts = np.split(count, self._first[1:-1])
        costs_j = zip(self._parts_j, parts, strict=True)
        idle_j, off_j, on_j, asleep_j = (float(cost_j @ part) for cost_j, part in costs_j)
        _, off, on, _ = parts
        switches = [*_switches(self.off_at_s, off, "off"), *_switches(self.on_at_s, on, "on")]
        switches.sort(key=lambda row: row.time_s)  # stable: off stays before on
        return CheapestPlan(switches, idle_j, asleep_j, on_j, off_j, int(off.sum()))


def wake_times_s(needed_s: Floats, switch_on_s: float) -> Floats:
    """Return the latest times to begin switching on so that nodes are on when they are needed.

    The transition must end before the scheduler sees the instant. One that ends at that instant is
    in time. One that begins then is late, even if it takes no time (so for such nodes a gap of
    exactly `switch_off_s` is too short). A time can be less than `needed_s - switch_on_s` by one or
    two roundings, because the simulator's clock shows `time + switch_on_s`, rounded.
    """
    wake_s = needed_s - switch_on_s
    while (late := (wake_s + switch_on_s > needed_s) | (wake_s >= needed_s)).any():
        wake_s = np.where(late, np.nextafter(wake_s, -np.inf), wake_s)
    return wake_s


def _switches(times_s: Floats, counts: Ints, state: State) -> list[NodeSwitch]:
    return [
        NodeSwitch(time_s, count, state)
        for time_s, count in zip(times_s.tolist(), counts.tolist(), strict=True)
        if count
    ]


def _solve(flow: _Flow) -> Ints:
    """Return the minimum-cost flow after checking that it is integer and feasible."""
    optimize, sparse = scipy_for("the oracle")
    rows, columns, values = flow.entries()
    supply = flow.supply
    shape = (len(supply), len(flow.cost_j))
    if not shape[1]:  # the run takes no time
        return np.zeros(0, dtype=np.int64)
    matrix = sparse.csr_array((values.astype(np.float64), (rows, columns)), shape=shape)
    # The simplex method ends at a vertex, and all vertices are integer.
    result = optimize.linprog(flow.cost_j, A_eq=matrix, b_eq=supply, method="highs-ds")
    if result.x is None:
        raise OracleError(f"the solver found no plan: {result.message}")
    count: Floats = np.rint(result.x)
    cost_j = float(flow.cost_j @ count)
    assert np.abs(result.x - count).max() < INTEGER_TOLERANCE
    assert (count >= 0).all()
    assert (matrix @ count == supply).all()
    assert abs(cost_j - result.fun) <= COST_TOLERANCE * max(cost_j, 1.0)
    whole: Ints = count.astype(np.int64)
    return whole


def scipy_for(what: str) -> tuple[Any, Any]:
    """Return the modules `scipy.optimize` and `scipy.sparse`.

    Raises:
        OracleError: SciPy is not installed.
    """
    try:
        from scipy import optimize, sparse
    except ImportError:
        raise OracleError(f"{what} needs SciPy: pip install 'hpcosim[oracle]'") from None
    return optimize, sparse


def starts_of(simulation: Simulation) -> dict[int, float]:
    """Return the start of each job that started, s, by its number."""
    recording = simulation.recording
    starts_s = zip(recording.job_id, recording.start_s, strict=True)
    return {job_id: start_s for job_id, start_s in starts_s if not math.isnan(start_s)}


def schedule_of(simulation: Simulation) -> Schedule:
    """Return the schedule of a complete simulation.

    Raises:
        OracleError: a job does not hold whole nodes.
    """
    recording, capacity = simulation.recording, simulation.cluster.capacity
    start_s = np.array(recording.start_s)
    ran = np.flatnonzero(~np.isnan(start_s))
    for row in ran.tolist():
        _check_holds_whole_nodes(recording, row, int(capacity[0]))
    return Schedule(
        nodes=len(capacity),
        start_s=simulation.start_s,
        end_s=simulation.now_s,
        job_start_s=start_s[ran],
        job_end_s=np.array(recording.end_s)[ran],
        job_nodes=np.array([len(recording.nodes_of(row)) for row in ran.tolist()], np.int64),
    )


def _check_holds_whole_nodes(recording: Recording, row: int, node_cores: int) -> None:
    if recording.placement[row] == WHOLE_NODES:
        return
    if any(tasks < node_cores for tasks in recording.tasks_of(row)):
        raise OracleError(
            f"the oracle plans for jobs that hold whole nodes, and job {recording.job_id[row]} "
            f"leaves cores of a node free; set workload.placement: whole_nodes"
        )
