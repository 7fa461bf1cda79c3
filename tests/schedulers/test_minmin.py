"""MinMin, MaxMin and Duplex, in the batch mode and in the immediate one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import PolicyError
from hpcosim_client.view import Policy, View
from hpcosim_protocol import (
    AllocateJob,
    DecisionRejected,
    Event,
    JobRequest,
    JobStarted,
    JobSubmitted,
    NodeGroup,
    Platform,
    Processor,
)
from hpcosim_schedulers.heuristics.minmin import (
    duplex,
    immediate,
    map_queue,
    max_min,
    min_min,
    problem_of,
)
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.recording import STATES
from hpcosim_workloads.table import JobTable
from support.golden import golden, golden_jobs, golden_platform
from support.simulating import jobs_of, simulate, starts

BATCH: dict[str, Callable[[], Policy]] = {
    "min_min": lambda: min_min,
    "max_min": lambda: max_min,
    "duplex": lambda: duplex,
}
IMMEDIATE: dict[str, Callable[[], Policy]] = {
    "immediate_min_min": partial(immediate, "minmin"),
    "immediate_max_min": partial(immediate, "maxmin"),
    "immediate_duplex": partial(immediate, "duplex"),
}
CHAINED: dict[str, Callable[[], Policy]] = {
    "chained_min_min": partial(immediate, "minmin", chained=True),
    "chained_max_min": partial(immediate, "maxmin", chained=True),
    "chained_duplex": partial(immediate, "duplex", chained=True),
}
ALL = {**BATCH, **IMMEDIATE}


def nodes_of(*nodes: tuple[int, float]) -> Platform:
    """Return a platform of one node for each (cores, clock in GHz)."""
    return Platform(tuple(NodeGroup(1, (Processor(*node, 100.0, 10.0),)) for node in nodes))


def rows(simulation: Simulation) -> list[tuple[float, float, list[int]]]:
    """Return start, end and nodes of each job, by the order of submission."""
    recording = simulation.recording
    return [
        (recording.start_s[row], recording.end_s[row], list(recording.nodes_of(row)))
        for row in range(len(recording))
    ]


def view_of(platform: Platform, *events: Event, now_s: float = 0.0) -> View:
    """Return a view that has just heard of these events."""
    view = View(platform)
    view.apply(now_s, events)
    return view


def started(view: View) -> dict[int, int]:
    """Return the node each job was started on by the latest decisions."""
    allocations = [one for one in view.decisions if isinstance(one, AllocateJob)]
    return {one.job_id: one.nodes[0] for one in allocations}


def clusters() -> st.SearchStrategy[Platform]:
    """Draw a few nodes of few cores, of different speeds."""
    node = st.tuples(st.integers(1, 4), st.sampled_from([1.0, 1.5, 2.0, 4.0]))
    return st.lists(node, min_size=1, max_size=4).map(lambda nodes: nodes_of(*nodes))


@st.composite
def workloads(draw: st.DrawFn, platform: Platform) -> JobTable:
    """Draw jobs that fit a node, some submitted at one instant, some past their request."""
    widest = max(platform.cores_by_node())
    job = st.tuples(
        st.integers(0, 10).map(float),
        st.integers(1, 9).map(float),
        st.integers(1, widest),
        st.integers(1, 9).map(float),
    )
    jobs = draw(st.lists(job, min_size=1, max_size=25))
    return jobs_of(*sorted(jobs), placement=draw(st.sampled_from(["cores", "one_node"])))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Platform, JobTable]:
    """Draw a cluster and a workload for it."""
    platform = draw(clusters())
    return platform, draw(workloads(platform))


# The maps


@pytest.mark.parametrize("mode", ["", "immediate_"])
@pytest.mark.parametrize(
    ("way", "ends"),
    [("min_min", [1.0, 1.0, 3.0]), ("max_min", [1.0, 2.0, 2.0]), ("duplex", [1.0, 2.0, 2.0])],
)
def test_a_long_job_goes_first_in_max_min_only(mode: str, way: str, ends: list[float]) -> None:
    """Of 1, 1, 2 s on two equal nodes MaxMin ends at 2 s, MinMin at 3 s; Duplex as the better."""
    simulation = simulate(
        nodes_of((1, 1.0), (1, 1.0)), jobs_of((0, 1, 1), (0, 1, 1), (0, 2, 1)), ALL[mode + way]()
    )
    assert [end_s for _, end_s, _ in rows(simulation)] == ends


@pytest.mark.parametrize("mode", ["", "immediate_"])
@pytest.mark.parametrize(
    ("way", "first"),
    [("min_min", {1: 0, 3: 1}), ("max_min", {3: 0, 1: 1}), ("duplex", {1: 0, 3: 1})],
)
def test_duplex_takes_the_map_of_min_min_where_that_is_better(
    mode: str, way: str, first: dict[int, int]
) -> None:
    """Of 2, 2, 3, 3 s on nodes of 2 and 1 GHz MinMin plans to end at 3.5 s, MaxMin at 4 s.

    MinMin: 2 s ends at 1 on node 0, 2 s there at 2, 3 s on node 1 at 3, 3 s on node 0 at 3.5.
    MaxMin: 3 s ends at 1.5 on node 0, 3 s there at 3, 2 s on node 1 at 2, 2 s there at 4 or on
    node 0 at 4.
    """
    submitted = [
        JobSubmitted(0.0, number, 1, requested_s)
        for number, requested_s in enumerate([2.0, 2.0, 3.0, 3.0], start=1)
    ]
    view = view_of(nodes_of((1, 2.0), (1, 1.0)), *submitted)
    ALL[mode + way]()(view)
    assert started(view) == first


@pytest.mark.parametrize("policy", ALL)
def test_a_job_waits_for_a_fast_node_where_it_ends_sooner(policy: str) -> None:
    """8 s on a node of 4 GHz that is busy up to 1 s end at 3 s, on a free one of 1 GHz at 8 s."""
    simulation = simulate(
        nodes_of((1, 1.0), (1, 4.0)), jobs_of((0, 1, 1, 4), (0.5, 2, 1, 8)), ALL[policy]()
    )
    assert rows(simulation) == [(0.0, 1.0, [1]), (1.0, 3.0, [1])]


@pytest.mark.parametrize("policy", ALL)
def test_a_job_goes_only_where_there_are_cores_enough(policy: str) -> None:
    """The fast node is too narrow for it."""
    simulation = simulate(nodes_of((1, 4.0), (2, 1.0)), jobs_of((0, 1, 2)), ALL[policy]())
    assert rows(simulation) == [(0.0, 1.0, [1])]


@pytest.mark.parametrize("policy", BATCH)
def test_batch_holds_cores_for_a_wide_job_planned_first(policy: str) -> None:
    """Node 0: 1 of 2 cores is free until 5 s, when a job of 2 starts; one of 1 comes after.

    By requests the wide one ends at 6 s. The narrow, 20 s, would end at 20 s if it went first,
    at 26 s after: MinMin puts the wide one first, MaxMin the narrow, Duplex as MaxMin, as 21 s
    for both jobs is less than 26 s.
    """
    simulation = simulate(
        nodes_of((2, 1.0)), jobs_of((0, 5, 1), (0.5, 1, 2), (0.5, 20, 1)), ALL[policy]()
    )
    expected = {"min_min": {1: 0.0, 2: 5.0, 3: 6.0}}.get(policy, {1: 0.0, 3: 0.5, 2: 20.5})
    assert starts(simulation) == expected


@pytest.mark.parametrize("policy", BATCH)
def test_batch_maps_anew_when_a_job_ends_early(policy: str) -> None:
    """A job planned for node 0, that is free at 5 s, goes to node 1 when that is free at 1 s."""
    jobs = jobs_of((0, 5, 1, 5), (0, 1, 1, 10), (0.5, 1, 1, 1), placement="one_node")
    simulation = simulate(nodes_of((1, 1.0), (1, 1.0)), jobs, ALL[policy]())
    assert rows(simulation)[2] == (1.0, 2.0, [1 - rows(simulation)[0][2][0]])


@pytest.mark.parametrize("policy", BATCH)
def test_batch_takes_a_late_job_to_end_now_but_not_its_cores(policy: str) -> None:
    """A job is mapped to the fast node, whose job is late, and starts when that ends."""
    simulation = simulate(
        nodes_of((1, 4.0), (1, 1.0)), jobs_of((0, 9, 1, 1), (5, 1, 1, 1)), ALL[policy]()
    )
    assert rows(simulation)[1] == (9.0, 10.0, [0])


# What is particular to the immediate mode


@pytest.mark.parametrize("policy", IMMEDIATE)
def test_immediate_binds_for_ever(policy: str) -> None:
    """A job bound to node 0, free at 5 s, stays there though node 1 is free at 1 s."""
    jobs = jobs_of((0, 5, 1, 5), (0.25, 1, 1, 10), (0.5, 1, 1, 1))
    simulation = simulate(nodes_of((1, 1.0), (1, 1.0)), jobs, ALL[policy]())
    assert rows(simulation)[1:] == [(0.25, 1.25, [1]), (5.0, 6.0, [0])]


@pytest.mark.parametrize("policy", IMMEDIATE)
def test_immediate_estimates_as_if_a_node_ran_one_job_at_a_time(policy: str) -> None:
    """The second goes to node 1, for 7 s: node 0, where a core is free, is estimated at 7.5 s."""
    simulation = simulate(
        nodes_of((2, 2.0), (2, 1.0)), jobs_of((0, 5, 1, 9), (1, 6, 1, 6)), ALL[policy]()
    )
    assert [nodes for _, _, nodes in rows(simulation)] == [[0], [1]]


@pytest.mark.parametrize("policy", IMMEDIATE)
def test_immediate_counts_no_job_that_is_over(policy: str) -> None:
    """Node 0 was to be busy up to 100 s; its job ended at 1 s, so it is as good as node 1."""
    simulation = simulate(
        nodes_of((1, 1.0), (1, 1.0)), jobs_of((0, 1, 1, 100), (2, 1, 1)), ALL[policy]()
    )
    assert rows(simulation)[1] == (2.0, 3.0, [0])


@pytest.mark.parametrize("policy", IMMEDIATE)
def test_immediate_never_corrects_an_estimate(policy: str) -> None:
    """The job on node 0 was to end at 1 s; at 50 s it still is, and the next is bound there."""
    simulation = simulate(
        nodes_of((1, 1.0), (1, 1.0)), jobs_of((0, 100, 1, 1), (50, 1, 1)), ALL[policy]()
    )
    assert rows(simulation)[1] == (100.0, 101.0, [0])


@pytest.mark.parametrize("policy", IMMEDIATE)
def test_immediate_passes_over_a_job_without_room(policy: str) -> None:
    """A job of one core starts beside the running one, before a wide one bound earlier."""
    simulation = simulate(
        nodes_of((2, 1.0)), jobs_of((0, 5, 1), (1, 5, 2), (2, 5, 1)), ALL[policy]()
    )
    assert starts(simulation) == {1: 0.0, 2: 7.0, 3: 2.0}


@pytest.mark.parametrize("policy", IMMEDIATE)
def test_immediate_goes_on_from_a_snapshot(policy: str) -> None:
    """Jobs that run count on their node from their start, those that wait are bound."""
    view = view_of(
        nodes_of((1, 1.0), (1, 1.0)),
        JobSubmitted(0.0, 1, 1, 5.0),
        JobSubmitted(1.0, 2, 1, 1.0),
        JobSubmitted(1.0, 3, 1, 8.0),
        JobStarted(0.0, 1, [0], [1]),
        now_s=2.0,
    )
    ALL[policy]()(view)
    # Node 0 is free at 5 s, node 1 now: 8 s would end at 10 s on node 1, 11 s after the 1 s there.
    assert started(view) == {2 if policy == "immediate_min_min" else 3: 1}


# What is common to both modes


@pytest.mark.parametrize("policy", ALL)
def test_a_rejected_start_is_tried_again_on_the_same_node(policy: str) -> None:
    """The job comes back and keeps its node."""
    view = view_of(nodes_of((1, 1.0), (1, 2.0)), JobSubmitted(0.0, 7, 1, 5.0))
    decide = ALL[policy]()
    decide(view)
    assert started(view) == {7: 1}
    view.apply(0.0, [DecisionRejected(0.0, 1, 0, "allocate_job", "node_busy", "", 7)])
    decide(view)
    assert started(view) == {7: 1}


@pytest.mark.parametrize("policy", ALL)
@pytest.mark.parametrize("placement", ["cores", "whole_nodes"])
def test_what_needs_several_nodes_is_refused(policy: str, placement: Any) -> None:
    """The message states the restriction of these policies."""
    view = view_of(nodes_of((2, 1.0), (3, 1.0)), JobSubmitted(0.0, 7, 4, 5.0, placement))
    with pytest.raises(PolicyError, match=r"job 7 requests 4 cores.*one node, which has at most 3"):
        ALL[policy]()(view)


@pytest.mark.parametrize("policy", ALL)
def test_a_node_on_which_a_job_costs_too_much_is_not_taken(policy: str) -> None:
    """10 s at 110 W are 1100 J on node 0; 5 s at 310 W on node 1, the faster, are 1550 J."""
    dear = NodeGroup(1, (Processor(1, 2.0, 300.0, 10.0),))
    platform = Platform((NodeGroup(1, (Processor(1, 1.0, 100.0, 10.0),)), dear))
    view = view_of(
        platform,
        JobSubmitted(0.0, 1, 1, 10.0, max_energy_j=1100.0),
        JobSubmitted(0.0, 2, 1, 10.0, max_energy_j=1550.0),
    )
    ALL[policy]()(view)
    assert started(view) == {1: 0, 2: 1}


@pytest.mark.parametrize("policy", BATCH)
def test_batch_lets_a_job_wait_that_costs_too_much_everywhere(policy: str) -> None:
    """Beside another it shares static power: 1000 J alone, 600 J then."""
    view = view_of(nodes_of((2, 1.0)), JobSubmitted(0.0, 1, 1, 10.0, max_energy_j=600.0))
    decide = ALL[policy]()
    decide(view)
    assert started(view) == {}
    view.apply(1.0, [JobSubmitted(1.0, 2, 1, 10.0)])
    decide(view)
    assert started(view) == {2: 0}
    view.apply(2.0, [])
    decide(view)
    assert started(view) == {1: 0}


@pytest.mark.parametrize("policy", IMMEDIATE)
def test_immediate_refuses_a_job_that_costs_too_much_everywhere(policy: str) -> None:
    """A job whose energy estimate exceeds its limit everywhere is an error."""
    view = view_of(nodes_of((2, 1.0)), JobSubmitted(0.0, 7, 1, 10.0, max_energy_j=600.0))
    with pytest.raises(PolicyError, match="job 7: its energy estimate exceeds"):
        ALL[policy]()(view)


@pytest.mark.parametrize("policy", ALL)
@given(case=cases())
def test_no_job_is_lost_and_no_start_rejected(policy: str, case: tuple[Platform, JobTable]) -> None:
    """Every job runs to its end, on one node, on cores that are free."""
    platform, jobs = case
    decide = ALL[policy]()

    def watch(view: View) -> None:
        assert not view.rejected
        decide(view)

    recording = simulate(platform, jobs, watch).recording
    assert {STATES[code] for code in recording.state} == {"completed"}
    assert all(len(recording.nodes_of(row)) == 1 for row in range(len(recording)))


@pytest.mark.parametrize("policy", ALL)
@given(case=cases(), seed=st.integers(0, 99))
def test_jobs_killed_and_turned_away_hold_nothing_up(
    policy: str, case: tuple[Platform, JobTable], seed: int
) -> None:
    """Killed and rejected jobs do not stop the others."""
    platform, jobs = case
    decide, rng = ALL[policy](), np.random.default_rng(seed)

    def meddle(view: View) -> None:
        running = list(view.running.values())
        decide(view)
        if running and rng.random() < 0.3:
            view.kill(running[0])
        if view.queue and rng.random() < 0.3:
            view.reject(next(iter(view.queue.values())))
        view.wake_on = None

    states = {STATES[code] for code in simulate(platform, jobs, meddle).recording.state}
    assert states <= {"completed", "killed", "rejected"}


@pytest.mark.parametrize("policy", ALL)
@given(case=cases())
def test_sleeping_changes_nothing(policy: str, case: tuple[Platform, JobTable]) -> None:
    """A policy that is called at every event decides the same."""
    platform, jobs = case
    decide = ALL[policy]()

    def sleepless(view: View) -> None:
        decide(view)
        view.wake_on = None

    sleeping = rows(simulate(platform, jobs, ALL[policy]()))
    assert rows(simulate(platform, jobs, sleepless)) == sleeping


@pytest.mark.parametrize("latest_first", [False, True])
@given(case=cases(), running=st.integers(0, 6))
def test_stopping_early_starts_the_same_jobs(
    latest_first: bool, case: tuple[Platform, JobTable], running: int
) -> None:
    """A mapping that stops early starts the jobs of the whole mapping, on free cores."""
    platform, jobs = case
    view = view_of(platform, *submissions(jobs), now_s=3.0)
    for job in list(view.queue.values())[:running]:
        view.start(job)
    free = view.nodes.free.copy()
    problem = problem_of(view)
    early = map_queue(problem, latest_first=latest_first).starts
    assert early == map_queue(problem, latest_first=latest_first, whole=True).starts
    for job, node in early:
        free[node] -= job.cores
    assert (free >= 0).all()


@given(case=cases(), running=st.integers(0, 6), latest_first=st.booleans())
def test_a_map_is_that_of_the_definition(
    case: tuple[Platform, JobTable], running: int, latest_first: bool
) -> None:
    """The mapping equals that of plain loops over jobs, nodes and cores."""
    platform, jobs = case
    view = view_of(platform, *submissions(jobs), now_s=3.0)
    for job in list(view.queue.values())[:running]:
        view.start(job)
    plan = map_queue(problem_of(view), latest_first=latest_first, whole=True)
    assert (plan.starts, plan.makespan_s) == map_slowly(view, latest_first)


@pytest.mark.parametrize("policy", CHAINED)
def test_chained_estimates_follow_the_previous_job_on_any_node(policy: str) -> None:
    """Of two jobs of one instant the second finds all nodes as late as the first, so ties."""
    two = nodes_of((1, 1.0), (1, 1.0))
    jobs = jobs_of((0.0, 10.0, 1), (0.0, 10.0, 1), placement="one_node")
    assert rows(simulate(two, jobs, CHAINED[policy]())) == [(0.0, 10.0, [0]), (10.0, 20.0, [0])]
    assert rows(simulate(two, jobs, immediate("minmin")))[1] == (0.0, 10.0, [1])


def test_chained_estimates_begin_anew_at_the_next_instant() -> None:
    """A job of a later instant finds a node to which nothing is bound free."""
    two = nodes_of((1, 1.0), (1, 1.0))
    jobs = jobs_of((0.0, 10.0, 1), (1.0, 10.0, 1), placement="one_node")
    assert rows(simulate(two, jobs, immediate("minmin", chained=True))) == [
        (0.0, 10.0, [0]),
        (1.0, 11.0, [1]),
    ]


def test_chained_duplex_keeps_the_order_of_its_first_instant() -> None:
    """With one job at the first instant, chained Duplex stays MaxMin."""
    one = nodes_of((1, 1.0))
    jobs = jobs_of((0.0, 5.0, 1), (6.0, 1.0, 1), (6.0, 9.0, 1), placement="one_node")
    assert starts(simulate(one, jobs, immediate("duplex", chained=True))) == {
        1: 0.0,
        2: 15.0,
        3: 6.0,
    }


def submissions(jobs: JobTable) -> Iterable[JobSubmitted]:
    """Yield the submissions of a workload."""
    for spec in jobs.rows():
        yield JobSubmitted(spec.submit_s, spec.job_id, spec.cores, spec.requested_s, "one_node")


def map_slowly(view: View, latest_first: bool) -> tuple[list[tuple[Any, int]], float]:
    """Return starts and makespan of the map, by the definition."""
    slowest = view.platform.slowest_ops_per_s
    speeds = [
        group.ops_per_s / slowest for group in view.platform.nodes for _ in range(group.count)
    ]
    cores = [[(view.now_s, True)] * free for free in view.nodes.free.tolist()]
    for job in view.running.values():
        assert job.allocation is not None
        for node, held in job.allocation.by_node():
            end_s = max(job.start_s + job.requested_s * (1 / speeds[node]), view.now_s)
            cores[node] += [(end_s, False)] * held
    queue, starts, makespan_s = list(view.queue.values()), [], -math.inf
    while queue:
        best = []
        for place, job in enumerate(queue):
            ends = []
            for node, line in enumerate(cores):
                line.sort(key=lambda core: (core[0], not core[1]))
                if job.cores <= len(line):
                    ready_s = line[job.cores - 1][0]
                    ends.append((ready_s + job.requested_s * (1 / speeds[node]), node))
            end_s, node = min(ends)
            best.append((-end_s if latest_first else end_s, place, node, end_s))
        _, place, node, end_s = min(best)
        job = queue.pop(place)
        if all(free for _, free in cores[node][: job.cores]):
            starts.append((job, node))
        cores[node][: job.cores] = [(end_s, False)] * job.cores
        makespan_s = max(makespan_s, end_s)
    return starts, makespan_s


# The papers' experiments


@pytest.mark.parametrize("policy", IMMEDIATE)
@pytest.mark.parametrize(
    ("inputs", "energy_j"), [("exp1.json", 2854.2), ("exp2.inputs.json", 23836.8)]
)
def test_immediate_mode_gets_the_energy_of_the_reference(
    policy: str, inputs: str, energy_j: float
) -> None:
    """Experiments 1 and 2 of Lopez Rauhut 2023, to the tenth of a joule that is known."""
    assert round(energy_of(inputs, ALL[policy]()), 1) == energy_j


@pytest.mark.parametrize("policy", ["max_min", "duplex"])
def test_batch_mode_gets_what_an_agent_that_never_waits_gets_at_best(policy: str) -> None:
    """On Experiment 2, where 31757.7 J was found by search among such schedules."""
    assert round(energy_of("exp2.inputs.json", ALL[policy]()), 1) == 31757.7


def energy_of(inputs: str, policy: Policy) -> float:
    """Return the energy of an experiment; the test is skipped where its inputs are missing."""
    given = golden(inputs)
    platform, jobs = golden_platform(given["platform"]), golden_jobs(given["workload"])
    simulation = simulate(platform, jobs, policy)
    simulation.settle()
    return sum(meter.energy_j for meter in simulation.cluster.meters)


@pytest.mark.parametrize("policy", [min_min, immediate("minmin")])
def test_job_whose_gpus_are_on_several_nodes_is_an_error(policy: Policy) -> None:
    """A job for which a node has enough cores but too few GPUs is named."""
    platform = Platform((NodeGroup(2, (Processor(16),), gres={"gpu": 4}),))
    view = View(platform)
    request = JobRequest(gres_per_job={"gpu": 6.0})
    view.apply(0.0, [JobSubmitted(0.0, 1, 4, 60.0, request=request)])
    with pytest.raises(PolicyError, match="job 1 fits on no single node with what it requests"):
        policy(view)
