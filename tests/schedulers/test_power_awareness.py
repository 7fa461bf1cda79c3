"""Job schedulers that are aware of power states: traces, invariants, a slow reference."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import Policy, PolicyError, View, play
from hpcosim_protocol import (
    Decision,
    DecisionRejected,
    EventKind,
    JobAllocated,
    NodeGroup,
    Platform,
    PowerStates,
    Processor,
)
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.running.compare import compare_schedulers
from hpcosim_scenarios.running.run import check, run_scenario
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.catalogue.power import title, with_power
from hpcosim_schedulers.power.manager import managed
from hpcosim_schedulers.power.settings import AlwaysOn, Awareness, KeepIdle, Power, Timeout
from hpcosim_sim.engine.simulation import Batch, Rules, Simulation
from hpcosim_workloads.table import PLACEMENTS, JobTable
from support.awareness_oracle import Oracle, Row
from support.examples import examples
from support.power_manager_runs import switched
from support.simulating import jobs_of, simulate

Aware = Literal["aware", "planned"]
BACKFILLING = ("easy", "conservative")
AWARE: tuple[Aware, ...] = ("aware", "planned")
MOST_ANSWERS = 20_000


def group(
    count: int, *, cores: int = 1, on_s: float = 10, off_s: float = 4, sd_s: float = 0
) -> NodeGroup:
    """Return nodes that take so long to be switched on and off."""
    states = PowerStates(5, on_s, 80, off_s, 20, switch_on_sd_s=sd_s, switch_off_sd_s=sd_s)
    return NodeGroup(count, (Processor(cores, 1.0, 100.0),), power_states=states)


def cluster(*groups: NodeGroup | int) -> Platform:
    """Return a platform of these groups; a number is that of nodes that boot in 10 s."""
    return Platform(tuple(group(one) if isinstance(one, int) else one for one in groups))


@dataclass
class Trace:
    """What happened.

    Attributes:
        starts: when each job started.
        switchings: when which node entered which state.
        nodes: those of each job.
        allocated: jobs that were given nodes that were not all on.
        rejected: decisions that were.
        alarms_s: when the scheduler was woken by an alarm.
        end_s: when it was over.
    """

    starts: list[float]
    switchings: list[tuple[float, int, str]]
    nodes: list[list[int]]
    allocated: list[int]
    rejected: list[str]
    alarms_s: list[float]
    end_s: float

    def of(self, node: int) -> list[tuple[float, str]]:
        """Return when a node entered which state."""
        return [(at_s, state) for at_s, each, state in self.switchings if each == node]


def trace(
    platform: Platform, jobs: JobTable, policy: Policy, rules: Rules | None = None, seed: int = 0
) -> Trace:
    """Run a workload to its end and check that every job ends."""
    simulation = Simulation(platform, jobs, rules, np.random.default_rng(seed))
    allocated: list[int] = []
    rejected: list[str] = []
    alarms_s: list[float] = []
    answers = 0

    def ask(
        decisions: Sequence[Decision], wake_on: Collection[EventKind] | None, elapsed_s: float
    ) -> Batch:
        nonlocal answers
        answers += 1
        assert answers < MOST_ANSWERS, f"it goes on for ever at {simulation.now_s} s"
        batch = simulation.advance(decisions, wake_on=wake_on, elapsed_s=elapsed_s)
        for event in batch.events:
            if isinstance(event, JobAllocated):
                allocated.append(event.job_id)
            elif isinstance(event, DecisionRejected):
                rejected.append(event.reason)
        return batch

    def watched(view: View) -> None:
        if view.alarms:
            alarms_s.append(view.now_s)
        policy(view)

    play(watched, platform, ask, wake_on_allocation=simulation.rules.wake_on_allocation)
    recording = simulation.recording
    assert recording.over == len(jobs)
    assert not np.isnan(recording.end_s).any()
    return Trace(
        list(recording.start_s),
        switched(simulation),
        [list(recording.nodes_of(row)) for row in range(len(jobs))],
        allocated,
        rejected,
        alarms_s,
        simulation.now_s,
    )


Jobs = list[tuple[float, float, int] | tuple[float, float, int, float]]


def under(
    name: str,
    awareness: Awareness,
    jobs: Jobs,
    nodes: Platform | int = 2,
    *,
    timeout_s: float = 5.0,
    rules: Rules | None = None,
) -> Trace:
    """Return what happens to jobs of (submit_s, run_s, nodes[, requested_s]) beside a timeout."""
    platform = cluster(nodes) if isinstance(nodes, int) else nodes
    return trace(platform, jobs_of(*jobs), with_power(name, Timeout(timeout_s), awareness), rules)


def switching(policy: Policy, *orders: tuple[float, int, bool]) -> Policy:
    """Return the policy beside a manager that switches nodes at given times: node, and if on."""

    def manage(view: View) -> None:
        for at_s, node, on in orders:
            if at_s == view.now_s and view.nodes.power[node] == ("sleeping" if on else "on"):
                view.set_node_power(node, on=on)

    return managed(policy, manage)


backfilling = pytest.mark.parametrize("name", BACKFILLING)
both = pytest.mark.parametrize("awareness", AWARE)

# --- aware: which nodes ------------------------------------------------------------------------

FOUR_KINDS: Jobs = [(0, 100, 1), (12, 100, 1), (13, 100, 1), (14, 100, 1)]
"""When job 1 has node 0, node 1 sleeps, node 2 boots from 12 to 22 and node 3 is on."""


def with_four_kinds(name: str, awareness: Awareness) -> Trace:
    """Return what happens to these jobs."""
    policy = switching(make_policy(name, awareness), (0, 1, False), (0, 2, False), (12, 2, True))
    return trace(cluster(4), jobs_of(*FOUR_KINDS), policy)


@pytest.mark.parametrize(
    "name", ["fcfs", "sjf", "f1", "first-high-cores", "random-none", *BACKFILLING]
)
def test_nodes_that_are_on_go_first_then_booting_then_sleeping(name: str) -> None:
    """Whatever the order of the queue, and though others have lower numbers."""
    result = with_four_kinds(name, "aware")
    assert result.nodes == [[0], [3], [2], [1]]
    assert result.starts == [0, 12, 22, 24]
    assert result.allocated == [3, 4]  # held from then on
    assert result.of(1) == [
        (0, "switching_off"),
        (4, "sleeping"),
        (14, "switching_on"),
        (24, "on"),
    ]


def test_unaware_the_lowest_numbered_node_is_taken_though_it_sleeps() -> None:
    """The job waits for the node to boot."""
    result = with_four_kinds("fcfs", "unaware")
    assert (result.nodes[1], result.starts[1]) == ([1], 22)


def test_a_job_over_several_nodes_has_those_that_are_on() -> None:
    """Also of a heuristic that orders nodes: of four, it is the sleeping node 1 that it spares."""
    policy = switching(make_policy("first-none", "aware"), (0, 1, False))
    result = trace(cluster(4), jobs_of((0, 1, 1), (20, 5, 3)), policy)
    assert (result.nodes, result.starts) == ([[0], [0, 2, 3]], [0, 20])


# --- waiting, or waking -------------------------------------------------------------------------

ASLEEP = [(5, 1, "switching_off"), (9, 1, "sleeping")]
"""What becomes of node 1 of two beside a timeout of 5 s when a job has node 0 from the start."""


@backfilling
@both
@pytest.mark.parametrize("run_s", [18, 20])
def test_a_job_waits_for_a_running_one_that_ends_no_later_than_a_boot_would(
    name: str, awareness: Aware, run_s: int
) -> None:
    """Node 1 would be on at 20: it goes on sleeping, also where node 0 is free just then."""
    result = under(name, awareness, [(0, run_s, 1), (10, 5, 1)])
    assert (result.starts, result.switchings) == ([0, run_s], ASLEEP)


@backfilling
@both
def test_a_job_wakes_a_node_where_that_is_sooner(name: str, awareness: Aware) -> None:
    """Aware, it is given the node and holds it; planned, it starts when that is on."""
    result = under(name, awareness, [(0, 21, 1), (10, 5, 1)])
    assert result.starts == [0, 20]
    assert result.switchings == [*ASLEEP, (10, 1, "switching_on"), (20, 1, "on")]
    assert result.allocated == ([2] if awareness == "aware" else [])


def test_a_list_scheduler_that_is_aware_does_not_wait() -> None:
    """It only chooses among nodes: what it can be given now, it is given."""
    result = under("fcfs", "aware", [(0, 18, 1), (10, 5, 1)])
    assert result.starts == [0, 20]
    assert result.switchings[:3] == [*ASLEEP, (10, 1, "switching_on")]


@backfilling
@both
def test_a_job_behind_has_a_sleeping_node_while_the_head_waits_for_a_running_job(
    name: str, awareness: Aware
) -> None:
    """Job 2 has node 0 at 18; job 3 would have that at 23, so it wakes node 1."""
    result = under(name, awareness, [(0, 18, 1), (10, 5, 1), (11, 5, 1)])
    assert (result.starts, result.nodes) == ([0, 18, 21], [[0], [0], [1]])


@backfilling
@both
def test_a_node_being_switched_off_is_back_after_sleeping_and_booting(
    name: str, awareness: Aware
) -> None:
    """On its way off from 5 to 9, it can be on at 19; node 0 is free a second later."""
    result = under(name, awareness, [(0, 20, 1), (6, 30, 1)])
    assert result.starts == [0, 19]
    assert result.switchings[:4] == [*ASLEEP, (9, 1, "switching_on"), (19, 1, "on")]


@backfilling
@both
def test_a_node_being_switched_off_is_not_back_before(name: str, awareness: Aware) -> None:
    """Node 0 is free at 19, too, so node 1 sleeps on."""
    result = under(name, awareness, [(0, 19, 1), (6, 5, 1)])
    assert (result.starts, result.switchings[:2]) == ([0, 19], ASLEEP)
    assert (9, 1, "switching_on") not in result.switchings


@backfilling
def test_a_late_job_counts_as_ending_now(name: str) -> None:
    """So others wait for it, one behind the other, and node 1 goes on sleeping."""
    result = under(name, "planned", [(0, 50, 1, 15), (20, 5, 1), (21, 5, 1)])
    assert (result.starts, result.switchings[:2]) == ([0, 50, 55], ASLEEP)


# --- aware: a reservation -----------------------------------------------------------------------


@backfilling
def test_aware_nodes_are_woken_when_all_others_are_there(name: str) -> None:
    """Job 2 needs both nodes; it is given them when node 0 is free, and holds it for 10 s."""
    result = under(name, "aware", [(0, 50, 1), (20, 5, 2)])
    assert result.starts == [0, 60]
    assert result.switchings == [*ASLEEP, (50, 1, "switching_on"), (60, 1, "on")]


@backfilling
@both
def test_nodes_are_left_on_for_a_reservation(name: str, awareness: Aware) -> None:
    """At 5 node 1 has been idle for 5 s; were it switched off, it would be back at 19, not 18."""
    result = under(name, awareness, [(0, 18, 1), (1, 5, 2)])
    assert (result.starts, result.switchings) == ([0, 18], [])


# --- planned: a reservation ---------------------------------------------------------------------


@backfilling
@pytest.mark.parametrize(("run_s", "woken_s"), [(19, 9), (30, 20), (50, 40)])
def test_a_node_is_switched_off_where_the_reservation_is_far_off(
    name: str, run_s: int, woken_s: int
) -> None:
    """Far off is when it can be back just in time, for which it is switched on."""
    result = under(name, "planned", [(0, run_s, 1), (1, 5, 2)])
    assert result.starts == [0, run_s]
    assert result.switchings == [*ASLEEP, (woken_s, 1, "switching_on"), (run_s, 1, "on")]


@backfilling
@pytest.mark.parametrize("wake_on_allocation", [True, False])
def test_nodes_are_woken_just_in_time(name: str, wake_on_allocation: bool) -> None:
    """Behind a running job, so early that they are on when it ends; no job is given one before."""
    rules = Rules(wake_on_allocation=wake_on_allocation)
    result = under(name, "planned", [(0, 50, 1), (20, 5, 2)], rules=rules)
    assert result.starts == [0, 50]
    assert result.switchings == [*ASLEEP, (40, 1, "switching_on"), (50, 1, "on")]
    assert result.allocated == []


@backfilling
def test_nodes_are_woken_each_in_its_own_time(name: str) -> None:
    """Nodes that boot in 10 s are switched on before those that boot in 3 s."""
    platform = cluster(2, group(1, on_s=3, off_s=1))
    result = under(name, "planned", [(0, 50, 1), (20, 5, 3)], platform)
    assert result.starts == [0, 50]
    assert result.of(1)[2:] == [(40, "switching_on"), (50, "on")]
    assert result.of(2)[2:] == [(47, "switching_on"), (50, "on")]


@backfilling
def test_a_reservation_comes_forward_when_a_job_ends_early(name: str) -> None:
    """Job 1 requests 80 s: when it ends at 50, node 1 is switched on."""
    result = under(name, "planned", [(0, 50, 1, 80), (20, 5, 2)])
    assert result.starts == [0, 60]
    assert result.switchings == [*ASLEEP, (50, 1, "switching_on"), (60, 1, "on")]


@backfilling
def test_a_woken_node_is_left_on_while_a_job_is_late(name: str) -> None:
    """Job 1 requests 30 s: node 1 is on at 30 and stays on until the job ends at 50."""
    result = under(name, "planned", [(0, 50, 1, 30), (15, 5, 2)])
    assert result.starts == [0, 50]
    assert result.switchings == [*ASLEEP, (20, 1, "switching_on"), (30, 1, "on")]


@backfilling
def test_jobs_are_backfilled_while_the_head_waits_for_a_boot(name: str) -> None:
    """Up to just before it starts, on nodes that stay on for it; none that would delay it.

    Job 3 needs all nodes, and node 2 sleeps: it has its reservation from 21 on. Job 4 would end
    just then, job 5 a second later. Node 1 has been idle since 10, and is left on.
    """
    jobs: Jobs = [(0, 12, 1), (0, 10, 1), (11, 10, 3), (13, 8, 1), (13, 9, 1)]
    result = under(name, "planned", jobs, 3)
    assert result.starts == [0, 0, 21, 13, 31]
    assert result.switchings[:4] == [
        (5, 2, "switching_off"),
        (9, 2, "sleeping"),
        (11, 2, "switching_on"),
        (21, 2, "on"),
    ]
    assert [at_s for at_s, _, state in result.switchings[4:] if state == "switching_off"] == [
        36,
        36,
    ]


@backfilling
def test_a_node_serves_others_until_its_reservation_begins(name: str) -> None:
    """Node 1 sleeps, is woken for job 3, which ends just when job 2 has its reservation."""
    result = under(name, "planned", [(0, 50, 1), (20, 5, 2), (25, 15, 1)])
    assert result.starts == [0, 50, 35]
    assert result.of(1) == [
        (5, "switching_off"),
        (9, "sleeping"),
        (25, "switching_on"),
        (35, "on"),
    ]


@backfilling
def test_a_job_that_would_delay_the_reservation_wakes_nothing(name: str) -> None:
    """A second longer, it would hold node 1 past 50."""
    result = under(name, "planned", [(0, 50, 1), (20, 5, 2), (25, 16, 1)])
    assert result.starts == [0, 50, 55]
    assert result.of(1)[2:4] == [(40, "switching_on"), (50, "on")]


# --- what always holds --------------------------------------------------------------------------

POWERS: tuple[Power, ...] = (AlwaysOn(), Timeout(0), Timeout(7.5), KeepIdle(0), KeepIdle(2, 3.0))


@st.composite
def rows_of(
    draw: st.DrawFn, width: int, over: tuple[int, int], last_s: int = 60, most: int = 10
) -> list[Row]:
    """Return up to `most` jobs in whole seconds; `over` is request minus run time."""
    rows = []
    for submit_s in sorted(draw(st.lists(st.integers(0, last_s), min_size=1, max_size=most))):
        run_s = draw(st.integers(1, 20))
        requested_s = max(1, run_s + draw(st.integers(*over)))
        rows.append((submit_s, run_s, draw(st.integers(1, width)), requested_s))
    return rows


EXACT, ABOVE, MIXED = (0, 0), (0, 12), (-8, 12)


@st.composite
def platforms(
    draw: st.DrawFn, *, cores: tuple[int, ...] = (1,), sd_s: float = 0, groups: int = 2
) -> Platform:
    """Return up to two groups of up to three nodes each."""
    return cluster(
        *(
            group(
                draw(st.integers(1, 3)),
                cores=draw(st.sampled_from(cores)),
                on_s=draw(st.integers(1, 12)),
                off_s=draw(st.integers(1, 6)),
                sd_s=sd_s,
            )
            for _ in range(draw(st.integers(1, groups)))
        )
    )


@st.composite
def placed(draw: st.DrawFn, platform: Platform, over: tuple[int, int]) -> JobTable:
    """Return jobs of every placement, each small enough to run."""
    table = jobs_of(*draw(rows_of(platform.core_count, over)))
    for row in range(len(table)):
        placement = draw(st.sampled_from(PLACEMENTS))
        table.placement[row] = PLACEMENTS.index(placement)
        if placement == "one_node":
            table.cores[row] = min(int(table.cores[row]), max(platform.cores_by_node()))
    return table


@examples(150)
@given(data=st.data())
def test_every_job_runs_and_nothing_is_refused(data: st.DataObject) -> None:
    """Whatever the platform, the placements, the requests, the manager and the boot times."""
    sd_s = data.draw(st.sampled_from([0, 3.0]))
    platform = data.draw(platforms(cores=(1, 2, 4), sd_s=sd_s))
    jobs = data.draw(placed(platform, MIXED))
    name = data.draw(st.sampled_from(BACKFILLING))
    awareness = data.draw(st.sampled_from(AWARE))
    power = data.draw(st.sampled_from(POWERS))
    wakes = awareness == "aware" or data.draw(st.booleans())
    policy = with_power(name, power, awareness)
    result = trace(platform, jobs, policy, Rules(wake_on_allocation=wakes), seed=sd_s > 0)
    assert result.rejected == []
    if awareness == "planned":
        assert result.allocated == []


@examples(60)
@given(data=st.data())
def test_every_other_scheduler_that_is_aware_runs_every_job(data: st.DataObject) -> None:
    """Those that only prefer nodes that are on, too."""
    platform = data.draw(platforms(cores=(1, 2, 4), sd_s=2.0))
    jobs = data.draw(placed(platform, MIXED))
    name = data.draw(st.sampled_from(["fcfs", "sjf", "f1", "first-high-cores", "random-random"]))
    power = data.draw(st.sampled_from(POWERS))
    assert trace(platform, jobs, with_power(name, power, "aware")).rejected == []


def without_those_behind(policy: Policy, head: int, from_s: float) -> Policy:
    """Return the policy that rejects jobs behind `head` from `from_s` on."""

    def decide(view: View) -> None:
        gone = [job for job in view.queue.values() if job.job_id > head and view.now_s >= from_s]
        for job in gone:
            del view.queue[job.job_id]
        policy(view)
        for job in gone:
            view.reject(job)

    return decide


def never_delays_the_head(platform: Platform, jobs: JobTable, new: Callable[[], Policy]) -> bool:
    """Return whether each job, once it is first in the queue, starts as if it stood there alone."""
    first_s: dict[int, float] = {}
    policy = new()

    def noting(view: View) -> None:
        policy(view)
        for head in list(view.queue)[:1]:
            first_s.setdefault(head, view.now_s)

    start_s = trace(platform, jobs, noting).starts
    for head, from_s in first_s.items():
        alone = simulate(platform, jobs, without_those_behind(new(), head, from_s))
        if start_s[head - 1] > alone.recording.start_s[head - 1]:
            return False
    return True


@examples(60)
@given(data=st.data())
def test_jobs_behind_never_delay_the_head(data: st.DataObject) -> None:
    """Where requests are exact it starts no later for them, on nodes of one core."""
    platform = data.draw(platforms())
    jobs = jobs_of(*data.draw(rows_of(platform.core_count, EXACT)))
    names: list[tuple[str, Aware]] = [
        ("easy", "planned"),
        ("conservative", "planned"),
        ("easy", "aware"),
    ]
    name, awareness = data.draw(st.sampled_from(names))
    power = data.draw(st.sampled_from(POWERS))
    if awareness == "aware" and len(platform.nodes) > 1:
        return  # see `test_aware_an_allocated_node_boots_only_once`
    assert never_delays_the_head(platform, jobs, lambda: with_power(name, power, awareness))


def unused(result: Trace) -> list[tuple[float, int, str]]:
    """Return the nodes that were switched on though no job starts on them as soon as they are."""
    used = {
        (start_s, node)
        for start_s, nodes in zip(result.starts, result.nodes, strict=True)
        for node in nodes
    }
    return [
        switching
        for switching in result.switchings
        if switching[2] == "on" and switching[:2] not in used
    ]


@examples(60)
@given(data=st.data())
def test_conservative_wakes_no_node_without_use(data: st.DataObject) -> None:
    """Planned, with exact requests and jobs submitted at 0, each woken node runs a job when on."""
    platform = data.draw(platforms())
    jobs: Jobs = list(data.draw(rows_of(platform.core_count, EXACT, last_s=0)))
    timeout_s = data.draw(st.sampled_from([0, 2, 7]))
    assert unused(under("conservative", "planned", jobs, platform, timeout_s=timeout_s)) == []


@examples(60)
@given(data=st.data())
def test_conservative_without_power_states_is_the_same(data: st.DataObject) -> None:
    """With exact requests, on nodes of one core, awareness changes no start of five jobs.

    With eight jobs it can: a reservation of nodes is bound to them, a reservation of cores is not.
    """
    platform = data.draw(platforms())
    jobs = jobs_of(*data.draw(rows_of(platform.core_count, EXACT, most=5)))
    expected = trace(platform, jobs, make_policy("conservative")).starts
    for awareness in AWARE:
        assert trace(platform, jobs, make_policy("conservative", awareness)).starts == expected


@examples(60)
@given(data=st.data())
def test_planned_needs_no_waking_on_allocation(data: st.DataObject) -> None:
    """It never makes use of it, so it makes no difference."""
    platform = data.draw(platforms(cores=(1, 2, 4)))
    jobs = data.draw(placed(platform, ABOVE))
    name = data.draw(st.sampled_from(BACKFILLING))
    results = [
        trace(platform, jobs, with_power(name, Timeout(7), "planned"), rules)
        for rules in (Rules(), Rules(wake_on_allocation=False))
    ]
    assert results[0] == results[1]


# --- against the slow reference -----------------------------------------------------------------


def as_the_reference(platform: Platform, rows: list[Row], timeout_s: int, awareness: Aware) -> None:
    """Check the starts and switches of EASY against the reference."""
    policy = with_power("easy", Timeout(timeout_s), awareness)
    result = trace(platform, jobs_of(*rows), policy)
    times = [
        (int(one.power_states.switch_on_s), int(one.power_states.switch_off_s))
        for one in platform.nodes
        if one.power_states is not None
        for _ in range(one.count)
    ]
    slow = Oracle(times, rows, awareness, timeout_s, result.alarms_s)
    assert (result.starts, result.switchings) == slow.run()


TIMEOUTS = st.sampled_from([0, 1, 2, 5, 9])


@examples(300)
@given(data=st.data(), timeout_s=TIMEOUTS, over=st.sampled_from([EXACT, ABOVE]))
def test_easy_planned_equals_the_reference(
    data: st.DataObject, timeout_s: int, over: tuple[int, int]
) -> None:
    """Every start and every switching is the slow reference's, on up to two groups of nodes."""
    platform = data.draw(platforms())
    rows = data.draw(rows_of(platform.core_count, over))
    as_the_reference(platform, rows, timeout_s, "planned")


@examples(300)
@given(data=st.data(), timeout_s=TIMEOUTS, over=st.sampled_from([EXACT, ABOVE]))
def test_easy_aware_equals_the_reference(
    data: st.DataObject, timeout_s: int, over: tuple[int, int]
) -> None:
    """Every start and every switching is the slow reference's, on nodes that are alike."""
    platform = data.draw(platforms(groups=1))
    rows = data.draw(rows_of(platform.core_count, over))
    as_the_reference(platform, rows, timeout_s, "aware")


# --- what once was wrong ------------------------------------------------------------------------


def test_easy_aware_gives_away_no_sleeping_node_of_a_reservation() -> None:
    """Job 2 has nodes 0, 2 and 3 reserved from 23 to 24; job 3 must not hold 2 and 3 for 30 s."""
    platform = cluster(2, group(2, on_s=3, off_s=1))
    jobs: Jobs = [(0, 23, 1), (20, 1, 3), (20, 30, 2)]
    alone = under("easy", "aware", jobs[:2], platform, timeout_s=2)
    assert alone.starts == [0, 26]
    assert under("easy", "aware", jobs, platform, timeout_s=2).starts[1] <= 26


def test_easy_aware_equals_the_reference_on_different_nodes() -> None:
    """The same, against the reference."""
    platform = cluster(2, group(2, on_s=3, off_s=1))
    as_the_reference(platform, [(0, 23, 1, 23), (20, 1, 3, 1), (20, 30, 2, 30)], 2, "aware")


def test_conservative_aware_gives_away_no_sleeping_node_of_a_reservation() -> None:
    """Job 2 has both nodes reserved at 50, and job 3 node 0 at 55; job 4 has node 1 then.

    Job 2 would start at 142 otherwise.
    """
    jobs: Jobs = [(0, 50, 1), (20, 5, 2), (21, 100, 1), (22, 100, 1)]
    assert under("conservative", "aware", jobs[:2]).starts == [0, 60]
    assert under("conservative", "aware", jobs).starts[1] <= 60


@backfilling
def test_aware_no_booting_node_of_a_reservation_is_given_away(name: str) -> None:
    """Job 3 has both nodes reserved from 30, when node 0 has booted; job 4 must not hold it.

    It runs for 100 s, and job 3 would start at 130.
    """

    def result(jobs: Jobs) -> list[float]:
        policy = switching(make_policy(name, "aware"), (2, 0, False), (20, 0, True))
        return trace(cluster(2), jobs_of(*jobs), policy).starts

    jobs: Jobs = [(0, 2, 1), (0, 30, 1), (20, 5, 2), (26, 100, 1)]
    assert result(jobs[:3]) == [0, 0, 30]
    assert result(jobs)[2] == 30


@backfilling
def test_aware_the_head_is_not_passed_for_ever(name: str) -> None:
    """It needs all three nodes, and one sleeps.

    Its reservation begins when it can hold both others, not a boot from now at any time: before
    that ever more jobs no longer than a boot would fit.
    """
    jobs: Jobs = [(0, 30, 1), (0, 25, 1), (20, 10, 3)]
    short: Jobs = [(24 + 4 * i, 8, 1) for i in range(40)]
    assert under(name, "aware", jobs, 3).starts[2] == 40
    assert under(name, "aware", jobs + short, 3).starts[2] == 40


@backfilling
def test_planned_no_job_is_given_a_node_that_boots_longer_than_expected(name: str) -> None:
    """Node 0, expected on at 30, is on at 32.5; job 3, submitted at 31, does not get it."""
    jobs = jobs_of((0, 1, 1), (20, 5, 1), (31, 5, 1))
    policy = with_power(name, Timeout(2), "planned")
    assert trace(cluster(group(1, sd_s=3)), jobs, policy, seed=1).allocated == []


@backfilling
def test_planned_no_job_is_given_a_node_that_boots_in_no_time(name: str) -> None:
    """It is switched on, and the job starts at the same instant, but on a node that is on."""
    result = under(name, "planned", [(0, 1, 1), (20, 5, 1)], cluster(group(1, on_s=0)))
    assert (result.starts, result.allocated) == ([0, 20], [])


@backfilling
def test_planned_and_a_manager_do_not_switch_a_node_to_and_fro_for_ever(name: str) -> None:
    """Job 1 is late, so job 2 has its reservation now; woken for that, node 1 is left on."""
    platform = cluster(group(2, on_s=0, off_s=0))
    jobs: Jobs = [(0, 50, 1, 10), (5, 5, 2)]
    assert under(name, "planned", jobs, platform, timeout_s=0).starts == [0, 50]


@backfilling
def test_planned_switches_no_node_repeatedly_while_another_boots_late(name: str) -> None:
    """Node 0 takes no time; woken for job 2, it is left on until node 1 is on, too."""
    platform = cluster(group(1, on_s=0, off_s=0), group(1, sd_s=3))
    jobs = jobs_of((0, 1, 1), (20, 5, 2), (31, 5, 2))
    result = trace(platform, jobs, with_power(name, Timeout(0), "planned"))
    woken_s = [at_s for at_s, node, change in result.switchings if (node, change) == (0, "on")]
    assert woken_s == result.starts[1:2]


def test_easy_planned_needs_no_waking_on_allocation() -> None:
    """Sleeping nodes cannot be allocated; job 3, submitted while job 2 waits, wakes one."""
    jobs: Jobs = [(0, 300, 1), (40, 5, 3), (50, 10, 1)]
    assert under("easy", "planned", jobs, 3).starts == [0, 300, 60]
    rules = Rules(wake_on_allocation=False)
    assert under("easy", "planned", jobs, 3, rules=rules).starts == [0, 300, 60]


def test_easy_planned_wakes_no_node_in_vain() -> None:
    """Jobs 2 and 3 will have both nodes at 20, so job 4 does not count on one, and wakes none."""
    jobs: Jobs = [(0, 20, 2), (12, 30, 1), (12, 30, 1), (12, 5, 2)]
    assert unused(under("easy", "planned", jobs, 3)) == []


@backfilling
def test_planned_no_alarm_is_left_that_keeps_the_run_alive(name: str) -> None:
    """Where the scheduler may submit jobs, one would hold up the end: from 65 to 990 here."""
    jobs: Jobs = [(0, 50, 1, 1000), (40, 5, 2)]
    result = under(name, "planned", jobs, rules=Rules(dynamic_jobs=True))
    assert (result.starts, result.end_s) == ([0, 60], 65)


NO_SWITCHING: dict[str, tuple[str, int, int, Jobs]] = {
    "easy, nodes of several cores": ("easy", 2, 4, [(0, 4, 1), (0, 5, 6), (1, 1, 4), (1, 2, 2)]),
    "easy, late jobs": (
        "easy",
        4,
        1,
        [(0, 1, 1), (0, 1, 1), (0, 1, 3), (0, 2, 1, 1), (0, 2, 1, 1), (0, 2, 1)],
    ),
    "conservative, jobs that end early": (
        "conservative",
        2,
        1,
        [(0, 2, 1, 3), (0, 2, 1, 4), (0, 2, 2), (1, 1, 1)],
    ),
}
"""Scheduler, nodes, cores of each, and jobs."""


@pytest.mark.parametrize("case", NO_SWITCHING)
@pytest.mark.parametrize("states", [None, PowerStates(5, 10, 80, 4, 20)])
@both
def test_where_nothing_is_switched_awareness_makes_no_difference(
    case: str, states: PowerStates | None, awareness: Aware
) -> None:
    """Without sleeping nodes the title does not name the awareness."""
    name, nodes, cores, jobs = NO_SWITCHING[case]
    platform = Platform((NodeGroup(nodes, (Processor(cores),), power_states=states),))
    assert title(name, AlwaysOn(), awareness) == title(name, AlwaysOn())
    policies = (make_policy(name), with_power(name, AlwaysOn(), awareness))
    expected, found = (trace(platform, jobs_of(*jobs), policy).starts for policy in policies)
    assert found == expected


# --- what is wrong ------------------------------------------------------------------------------


@both
def test_easy_a_job_does_not_wait_for_a_late_job_beside_an_idle_node(awareness: Aware) -> None:
    """Job 1 should have ended at 15; node 1 is on and free, so job 2 starts at 20, not at 50."""
    jobs: Jobs = [(0, 50, 1, 15), (20, 5, 1)]
    assert under("easy", "unaware", jobs, timeout_s=99).starts == [0, 20]
    assert under("easy", awareness, jobs, timeout_s=99).starts == [0, 20]


def test_conservative_aware_no_job_overtakes_one_that_has_a_reservation() -> None:
    """Job 2 has both nodes from 20 to 40, job 3 from 40 on; then node 1 is switched off.

    So job 2 will run from 30 to 50, and job 3 goes first: job 2 starts at 130.
    """
    jobs: Jobs = [(0, 20, 1), (0, 20, 2), (1, 100, 2)]
    assert under("conservative", "aware", jobs[:2]).starts == [0, 30]
    assert under("conservative", "aware", jobs).starts == [0, 30, 50]


@backfilling
@pytest.mark.xfail(
    raises=AssertionError, strict=True, reason="`View._start` leaves nodes asleep that boot for it"
)
def test_aware_an_allocated_node_boots_only_once(name: str) -> None:
    """Job 2 wakes node 0 at 20 and has it from 23 to 26: then job 3 does, not node 1 at 28.

    Both come at 20, and are decided on at once. Were it a boot more, node 0 would be on at 29.
    """
    platform = cluster(group(1, on_s=3, off_s=1), group(1, on_s=8))
    result = under(name, "aware", [(0, 1, 1), (20, 3, 1), (20, 5, 1)], platform, timeout_s=2)
    assert (result.starts, result.nodes) == ([0, 23, 26], [[0], [0], [0]])


@pytest.mark.xfail(
    raises=AssertionError, strict=True, reason="job 3 gets its reservation only as the head"
)
def test_easy_planned_wakes_no_node_without_use_for_a_job_behind_the_next_head() -> None:
    """At 12 job 4 wakes node 2 for 22; at 20 job 3 is the head, and job 4 must let it go first."""
    jobs: Jobs = [(0, 20, 2), (12, 30, 1), (12, 5, 3), (12, 60, 2)]
    assert unused(under("easy", "planned", jobs, 3)) == []


# --- errors, and names --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fcfs", "sjf", "f1", "first-high-cores", "minmin"])
def test_planned_is_only_for_those_that_reserve(name: str) -> None:
    """The error names the schedulers that support it."""
    error = (
        "planned is supported by easy, conservative, young-daly, which reserve nodes, "
        f"not by {name}"
    )
    for make in (make_policy(name), with_power(name, Timeout(60))):
        assert callable(make)
    with pytest.raises(PolicyError, match=error):
        make_policy(name, "planned")
    with pytest.raises(PolicyError, match=error):
        with_power(name, Timeout(60), "planned")


@pytest.mark.parametrize("name", ["minmin", "maxmin-immediate", "duplex-chained", "scripted"])
def test_aware_is_not_for_those_whose_nodes_are_set(name: str, tmp_path: Path) -> None:
    """The error states the expected value."""
    if name == "scripted":
        schedule = tmp_path / "schedule.csv"
        schedule.write_text("job_id,start_s,nodes\n1,0,0\n")
        name = f"scripted:{schedule}"
    assert callable(make_policy(name))
    with pytest.raises(PolicyError, match="power_awareness: aware is not supported by"):
        make_policy(name, "aware")


def test_an_unknown_scheduler_is_reported_first() -> None:
    """Whatever the awareness."""
    with pytest.raises(PolicyError, match="there is no scheduler 'eazy'; did you mean easy"):
        make_policy("eazy", "planned")


SCENARIO = """
name: night
platform:
  nodes:
    - count: 8
      processors: [{cores: 2, static_w: 100, dynamic_w: 5}]
      power_states:
        {sleep_w: 9, switch_on_s: 60, switch_on_w: 90, switch_off_s: 30, switch_off_w: 9,
         switch_on_sd_s: 5}
workload: {synthetic: {model: poisson, jobs: 60, mean_interarrival_s: 300}}
scheduler:
  name: easy
  power: {name: timeout, timeout_s: 120}
  power_awareness: planned
"""


def scenario(tmp_path: Path, old: str = "", new: str = "", after: str = "") -> Path:
    """Return the file of the scenario, with a part of it put otherwise."""
    assert old in SCENARIO
    file = tmp_path / "night.yaml"
    file.write_text(SCENARIO.replace(old, new) + after if old else SCENARIO + after)
    return file


def test_planned_goes_without_waking_on_allocation(tmp_path: Path) -> None:
    """Planned schedulers switch nodes on themselves; the error for others proposes it."""
    off = "wake_on_allocation: false\n"
    assert not check(scenario(tmp_path, after=off)).scenario.wake_on_allocation
    with pytest.raises(ScenarioError, match=r"wake_on_allocation: true.* power_awareness: planned"):
        check(scenario(tmp_path, ": planned", ": aware", off))


def test_a_scenario_s_scheduler_must_go_with_its_awareness(tmp_path: Path) -> None:
    """Said by validate and before a run, also of one named instead, or beside others."""
    file = scenario(tmp_path, "name: easy", "name: fcfs")
    with pytest.raises(PolicyError, match="planned is supported by easy, conservative, young-daly"):
        check(file)
    with pytest.raises(PolicyError, match="planned is supported by easy, conservative, young-daly"):
        run_scenario(file, transport="inproc", out=tmp_path / "out")
    with pytest.raises(PolicyError, match="planned is supported by easy, conservative, young-daly"):
        compare_schedulers(scenario(tmp_path), ["easy", "sjf"])
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKFILLING)
def test_a_planned_run_is_the_same_on_every_transport(name: str, tmp_path: Path) -> None:
    """Drawn boot times, alarms and all: the same bytes in one process and over two wires."""
    file = scenario(tmp_path, "name: easy", f"name: {name}")
    folders = []
    for transport in ("inproc", "ipc", "tcp"):
        metrics, folder = run_scenario(file, transport=transport, out=tmp_path / transport)
        assert metrics["node_shutdowns"] > 0
        folders.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert folders[0] == folders[1] == folders[2]
    called = json.loads(folders[0]["run.json"])["scheduler"]
    assert called == f"planned {name}, timeout(timeout_s=120.0)"


def test_compare_uses_the_scenario_s_awareness(tmp_path: Path) -> None:
    """The metrics equal those of single runs."""
    file = scenario(tmp_path)
    compared = compare_schedulers(file, ["easy", "conservative"])
    for name in BACKFILLING:
        alone, _ = run_scenario(file, scheduler=name, transport="inproc", out=tmp_path / name)
        assert compared[name] == alone
