"""The cheapest way to switch nodes off and on beside a schedule known from start to end.

The nodes are alike and jobs hold whole nodes, so it only counts how many nodes are in each state:
a flow of nodes through time.

    on and free --(switch_off_s)--> asleep --(switch_on_s)--> on and free
        ^  |
        |  v
       in jobs, as the schedule has it

Every job must find its nodes on, so the schedule stays as it is. What flows costs the power of
its state times the time it stays there; what computes costs nothing here, as it can't be changed.
The cheapest flow is a linear program whose matrix has in each column one 1 and one -1 at most. It
is totally unimodular, so the optimum the simplex method finds is of whole nodes, and it is the
least over all ways to give the jobs nodes, too: whoever frees a node need not know who takes it.

Which instants are enough. Look at one node between two of its jobs, free for a gap from a to b.
It stays on, or is switched off and on once or more often. Let sleeping draw the least of all
states (else we refuse). Then of all ways with any switching the cheapest is: off at a, asleep,
on just at b. For it goes through each transition once, which every other way does at least as
often, and spends all other time asleep, which nothing undercuts; and it fits whenever any other
way does. The time before a node's first job is such a gap, too; the one after its last job, at a,
or of a node without any, is open: the run ends at T, and what happens then no longer counts.
Whatever follows a first switching-off at s costs no less than sleeping to the end. That costs
idle power until s, then that of the transition until it or the run ends, then that of sleep. As s
grows this does not fall as long as the transition ends by T, and is linear from there to s = T,
so the least is at s = a or at s = T, which is to stay on. Therefore: nodes begin to be switched
off only when the run starts or a job ends, and end being switched on only when a job starts.

There is no simple rule, such as to take the node freed last first. Where a gap would pay that is
too short for both transitions, two middling gaps may cost less than that one and a long one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.power.oracle import NodeSwitch, State
from hpcosim_protocol import PowerStates
from hpcosim_scenarios.errors import OracleError
from hpcosim_scenarios.planning.oracle_nodes import check_states
from hpcosim_scenarios.planning.solver import scipy_for

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WHOLE = 1e-6  # by which a number of nodes may miss a whole one in the solver's arithmetic
SAME_COST = 1e-7  # by which part of itself a cost may differ


@dataclass(frozen=True, slots=True)
class Schedule:
    """Jobs on nodes, all over by the end.

    Attributes:
        nodes: how many nodes there are, all on at the start.
        start_s: when the run starts.
        end_s: when it ends: nothing is counted after that.
        job_start_s, job_end_s: float64[jobs].
        job_nodes: int64[jobs], how many nodes each holds from its start to its end.
    """

    nodes: int
    start_s: float
    end_s: float
    job_start_s: Floats
    job_end_s: Floats
    job_nodes: Ints


@dataclass(frozen=True, slots=True)
class CheapestPlan:
    """How to switch nodes beside a schedule, and the least energy that can be wasted with it.

    Attributes:
        switches: in order of time, at one instant `off` before `on`.
        idle_j, sleeping_j, switching_on_j, switching_off_j: energy of all nodes in these states,
            as the metrics of the same names have it, J.
        shutdowns: how often a node is switched off.
    """

    switches: list[NodeSwitch]
    idle_j: float
    sleeping_j: float
    switching_on_j: float
    switching_off_j: float
    shutdowns: int

    @property
    def wasted_j(self) -> float:
        """All energy not spent computing, J."""
        return self.idle_j + self.sleeping_j + self.switching_on_j + self.switching_off_j


def cheapest_switching(schedule: Schedule, idle_w: float, states: PowerStates) -> CheapestPlan:
    """Return the plan that wastes the least energy of all that delay no job of the schedule.

    It is the optimum for this schedule, over all ways to give jobs nodes. It is no bound on
    policies that let jobs wait longer, or start them in another order.

    Args:
        schedule: when jobs hold nodes, and how many.
        idle_w: power of a node that is on and computes nothing, W.
        states: how every node is switched.

    Raises:
        OracleError: the nodes or the schedule are such that this is not solved here, or SciPy is
            missing.
    """
    check_states(idle_w, states)
    if (schedule.job_end_s <= schedule.job_start_s).any():
        raise OracleError("a job of the schedule takes no time at all; the oracle plans for none")
    flow = _Flow(schedule, idle_w, states)
    return flow.plan(_solve(flow))


class _Flow:
    """The linear program: minimize `cost_j @ x` where `matrix @ x == supply` and `x >= 0`.

    The columns of x, numbers of nodes, in four parts:
    idle: on and free from each instant of `at_s` to the next;
    off: begin to be switched off at each of `off_at_s`;
    on: begin to be switched on at each of `on_at_s`;
    asleep: from each instant of `asleep_at_s` to the next, or the end.
    """

    def __init__(self, schedule: Schedule, idle_w: float, states: PowerStates) -> None:
        end_s = schedule.end_s
        self._edges(schedule)
        self.off_at_s = self._times_to_switch_off(schedule)
        asleep_s = self.off_at_s + states.switch_off_s
        self._times_to_switch_on(schedule, states.switch_on_s, asleep_s.min(initial=np.inf))
        sleeps = asleep_s <= end_s  # the others are still on their way when the run ends
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
        """Note the instants at which nodes are taken or freed, and how many, but for the end's."""
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
        """Note the times to begin switching on, and the starts of jobs that they are for."""
        needed_s = np.unique(schedule.job_start_s)
        wake_s = wake_times_s(needed_s, switch_on_s)
        can_be = wake_s >= first_asleep_s
        self.on_at_s, self._needed_s = wake_s[can_be], needed_s[can_be]

    @property
    def supply(self) -> Floats:
        """By row: nodes freed less those taken, and nothing for those asleep."""
        return np.concatenate([self._freed, np.zeros(len(self._asleep_at_s))])

    def entries(self) -> tuple[Ints, Ints, Floats]:
        """Return the matrix by its entries: row, column, value. A row is an instant.

        First come those of `at_s`: what stays idle, less what was idle before, plus what is
        switched off, less what is on now, is what was freed. Then those of `asleep_at_s`.
        """
        idle, off, on, asleep = (
            np.arange(first, last)
            for first, last in zip(self._first[:-1], self._first[1:], strict=True)
        )
        below = len(idle)  # rows of idle nodes
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
        """Return the plan of a solution, whole numbers of nodes."""
        parts = np.split(count, self._first[1:-1])
        costs_j = zip(self._parts_j, parts, strict=True)
        idle_j, off_j, on_j, asleep_j = (float(cost_j @ part) for cost_j, part in costs_j)
        _, off, on, _ = parts
        switches = [*_switches(self.off_at_s, off, "off"), *_switches(self.on_at_s, on, "on")]
        switches.sort(key=lambda row: row.time_s)  # stable: off stays before on
        return CheapestPlan(switches, idle_j, asleep_j, on_j, off_j, int(off.sum()))


def wake_times_s(needed_s: Floats, switch_on_s: float) -> Floats:
    """Return the latest times to begin switching on so that nodes are on before they are needed.

    That is, before the scheduler is told of the instant: a transition that ends at that instant
    is in time, one that only begins then is not, even if it takes no time (so that, for such
    nodes, a gap of just `switch_off_s` is too short). A time may be less than
    `needed_s - switch_on_s` by a rounding or two, as `time + switch_on_s`, rounded, is what the
    simulator's clock will say.
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
    """Return the cheapest flow, and make sure that it is one."""
    optimize, sparse = scipy_for("the oracle")
    rows, columns, values = flow.entries()
    supply = flow.supply
    shape = (len(supply), len(flow.cost_j))
    if not shape[1]:  # no time passes
        return np.zeros(0, dtype=np.int64)
    matrix = sparse.csr_array((values.astype(np.float64), (rows, columns)), shape=shape)
    # The simplex method ends at a corner, and corners are whole.
    result = optimize.linprog(flow.cost_j, A_eq=matrix, b_eq=supply, method="highs-ds")
    if result.x is None:
        raise OracleError(f"the solver found no plan: {result.message}")
    count: Floats = np.rint(result.x)
    cost_j = float(flow.cost_j @ count)
    assert np.abs(result.x - count).max() < WHOLE
    assert (count >= 0).all()
    assert (matrix @ count == supply).all()
    assert abs(cost_j - result.fun) <= SAME_COST * max(cost_j, 1.0)
    whole: Ints = count.astype(np.int64)
    return whole
