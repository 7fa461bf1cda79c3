"""The parts of the scheduler `slurm`: plan, node choice, timers, passes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import play
from hpcosim_client.demand import Demand, NodeChoice
from hpcosim_client.job import Job
from hpcosim_protocol import JobRequest, NodeGroup, Platform, Processor, Switch
from hpcosim_schedulers.slurm.backfill import NodeSpace
from hpcosim_schedulers.slurm.future import mask_of, set_of, set_of_mask
from hpcosim_schedulers.slurm.policy import slurm
from hpcosim_schedulers.slurm.select import NodeOrder, choose_nodes
from hpcosim_schedulers.slurm.settings import Selection, parse_site
from hpcosim_schedulers.slurm.timers import (
    PING_S,
    SHORT_SLEEP_S,
    BackfillTimer,
    LimitTimer,
    MainTimer,
    NodePings,
    SiteClock,
)
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.engine.site_events import NodeChange, SiteEvents
from hpcosim_sim.record.recording import STATES
from hpcosim_workloads.table import JobSpec
from support.golden_slurm import job_table_of, micro_cluster
from support.simulating import cluster_of, jobs_of, simulate

Reserved = st.tuples(st.integers(0, 500), st.integers(1, 300), st.integers(1, 255))


@given(st.lists(Reserved, max_size=8), st.integers(0, 500), st.integers(0, 300))
def test_plan_agrees_with_a_table_of_seconds(
    reserved: list[tuple[int, int, int]], start: int, length: int
) -> None:
    """A plan has the nodes that a table with a row for each second has."""
    plan = NodeSpace(0, 2000, 255, 60)
    table = [255] * 2000
    for begin, time, nodes in reserved:
        plan.reserve(begin, begin + time, nodes)
        for second in range(begin // 60 * 60, (begin + time) // 60 * 60):
            table[second] &= ~nodes
    expected = 255
    for second in range(start, start + length + 1):
        expected &= table[second]
    assert plan.free_during(start, start + length)[0] == expected


@given(st.lists(Reserved, max_size=8), Reserved)
def test_overlaps_of_a_plan_agree_with_a_table_of_seconds(
    reserved: list[tuple[int, int, int]], wanted: tuple[int, int, int]
) -> None:
    """A reservation overlaps the plan if a second of it has a reserved node."""
    plan = NodeSpace(0, 2000, 255, 60)
    table = [0] * 2000
    for begin, time, nodes in reserved:
        plan.reserve(begin, begin + time, nodes)
        for second in range(begin // 60 * 60, (begin + time) // 60 * 60):
            table[second] |= nodes
    begin, time, nodes = wanted
    seconds = range(begin // 60 * 60, (begin + time) // 60 * 60)
    expected = any(table[second] & nodes for second in seconds)
    assert plan.overlaps(begin, begin + time, nodes) == expected


@given(st.sets(st.integers(0, 200)))
def test_node_sets_and_masks_agree(nodes: set[int]) -> None:
    """A set of nodes becomes a mask and back."""
    assert set_of_mask(mask_of(set_of(nodes), 201)) == set_of(nodes)


def chosen(cores: list[int], need: int, platform: Platform, **request: int) -> list[int] | None:
    """Return the nodes of a job that needs `need` cores."""
    stated = JobRequest(**request)  # type: ignore[arg-type]
    job = Job(1, 0.0, need, 60.0, request=stated)
    choice = NodeChoice("", np.ones(len(cores), dtype=np.bool_))
    order = NodeOrder.of(platform, Selection())
    found = choose_nodes(job, Demand(stated, (choice,)), choice, np.array(cores), order)
    return None if found is None else sorted(found.tolist())


def test_leaf_switch_with_fewest_sufficient_nodes_comes_first() -> None:
    """A job gets the smallest leaf switch that has as many nodes as it needs."""
    idle = [12] * 10
    assert chosen(idle, 12, micro_cluster()) == [0]
    assert chosen(idle, 36, micro_cluster(), tasks_per_node=12) == [6, 7, 8]


def test_largest_leaf_switch_comes_first_if_none_is_sufficient() -> None:
    """A job that fits on no leaf switch gets the one with most nodes, and the rest elsewhere."""
    cores = [0, 0, 12, 12, 12, 12, 12, 0, 12, 12]
    assert chosen(cores, 60, micro_cluster(), tasks_per_node=12) == [2, 3, 4, 5, 6]


def test_nodes_with_few_cores_are_left_out_if_they_prevent_the_choice() -> None:
    """A job with a greatest number of nodes gets larger nodes than the first ones if it must."""
    assert chosen([2, 4, 4, 4], 8, cluster_of(4), nodes_min=2, nodes_max=2) == [1, 2]
    assert chosen([2, 4, 3, 3], 8, cluster_of(4), nodes_min=2, nodes_max=2) is None


def test_no_run_of_nodes_is_taken_twice() -> None:
    """A job with enough cores and too few nodes gets its last node from another run."""
    assert chosen([2, 0, 1, 0, 1], 2, cluster_of(5), nodes_min=2) == [0, 2]


def test_runs_of_nodes_are_chosen_by_best_fit_without_topology() -> None:
    """Without switches a job gets the smallest sufficient run of consecutive nodes."""
    assert chosen([1, 1, 1, 0, 1, 1, 0, 1], 2, cluster_of(8)) == [4, 5]
    assert chosen([1, 1, 1, 0, 1, 1, 0, 1], 5, cluster_of(8)) == [0, 1, 2, 4, 5]


def test_nodes_of_small_weight_come_first() -> None:
    """Nodes of greater weight are used only as needed."""
    processor = (Processor(4),)
    platform = Platform(
        (NodeGroup(2, processor, weight=5), NodeGroup(2, processor, weight=1)),
        switches=(Switch(name="s", nodes=((0, 3),)),),
    )
    assert chosen([4] * 4, 4, platform) == [2]
    assert chosen([4] * 4, 12, platform) == [0, 2, 3]


def two_levels() -> Platform:
    """Return 12 nodes on four leaf switches, two of them below each of two switches."""
    names = ("l1", "l2", "l3", "l4")
    leaves = [Switch(name=n, nodes=((3 * k, 3 * k + 2),)) for k, n in enumerate(names)]
    middle = [Switch(name="a", switches=("l1", "l2")), Switch(name="b", switches=("l3", "l4"))]
    top = Switch(name="top", switches=("a", "b"))
    nodes = (NodeGroup(12, (Processor(12),)),)
    return Platform(nodes, switches=(top, *middle, *leaves))


def test_leaf_below_the_tightest_switch_comes_first() -> None:
    """A job that fits on no leaf switch gets those below the switch with the fewest nodes."""
    cores = [12, 12, 0, 12, 12, 0, 12, 12, 12, 12, 12, 12]
    assert chosen(cores, 48, two_levels(), tasks_per_node=12) == [0, 1, 3, 4]
    assert chosen(cores, 60, two_levels(), tasks_per_node=12) == [0, 1, 6, 7, 8]


def test_closest_leaf_comes_next_if_leaves_fit_alike() -> None:
    """The rest of a job goes to a leaf below the same switch as its first nodes."""
    cores = [12, 0, 0, 12, 0, 0, 12, 12, 12, 12, 0, 0]
    assert chosen(cores, 48, two_levels(), tasks_per_node=12) == [6, 7, 8, 9]


def site_clock() -> SiteClock:
    """Return the clock of a site whose main loop begins 1 s after simulated second 0."""
    return SiteClock(parse_site({"scheduler": {"loop_begin_s": 1.0}}))


def test_main_scheduler_runs_in_the_next_iteration_three_seconds_after_its_last_pass() -> None:
    """A submission wakes the main scheduler, at the earliest `batch_sched_delay` after a pass."""
    timer = MainTimer(site_clock(), parse_site({}).scheduler)
    timer.request(10.5)
    assert timer.next_s(10.5, waiting=True) == 11.0
    assert not timer.ran(11.0)
    timer.request(11.2)
    assert timer.next_s(11.2, waiting=True) == 14.0


def test_main_scheduler_covers_the_whole_queue_each_minute() -> None:
    """A pass over the whole queue is due in the first iteration of each `sched_interval`."""
    timer = MainTimer(site_clock(), parse_site({}).scheduler)
    assert timer.next_s(10.0, waiting=True) == 61.0
    assert timer.ran(61.0)
    assert timer.next_s(61.0, waiting=True) == 121.0
    assert timer.next_s(61.0, waiting=False) == math.inf


def test_backfill_scheduler_sleeps_between_passes_and_looks_each_second_when_idle() -> None:
    """A change wakes the backfill scheduler at its next look, at the earliest after a sleep."""
    clock = site_clock()
    timer = BackfillTimer(clock, parse_site({}).scheduler, NodePings(clock, 0.0, 1))
    timer.skip_to(40.2, 0)
    timer.changed(40.2)
    assert timer.next_s() == 60.83
    timer.ran(60.83, 0)
    timer.skip_to(100.1, 0)
    timer.changed(100.1)
    assert timer.next_s() == pytest.approx(60.83 + 30.0 + 10 * SHORT_SLEEP_S)


def test_idle_nodes_are_pinged_in_every_second_round() -> None:
    """Nodes that have responded within a third of SlurmdTimeout are left out, as observed."""
    clock = SiteClock(parse_site({"scheduler": {"loop_begin_s": 0.11, "loop_s": 1.003}}))
    pings, answered = NodePings(clock, 300.0, 10), []
    while pings.next_s < 600.0:
        at_s = pings.next_s
        if pings.answer():
            answered.append(int(at_s))
    assert answered == [104, 304, 504]


def test_node_that_responds_otherwise_is_not_pinged() -> None:
    """A node whose job ended within a third of SlurmdTimeout is left out of a round."""
    clock = site_clock()
    pings = NodePings(clock, 300.0, 2)
    pings.responded(np.array([0]), 50.0)
    assert [pings.answer() for _ in range(4)] == [False, True, True, True]
    pings = NodePings(clock, 300.0, 2)
    pings.responded(np.array([0, 1]), 50.0)
    assert [pings.answer() for _ in range(4)] == [False, False, True, False]


def test_answer_to_a_ping_wakes_the_idle_backfill_scheduler() -> None:
    """After its first pass an idle backfill scheduler looks each second until nodes answer."""
    clock = site_clock()
    timer = BackfillTimer(clock, parse_site({}).scheduler, NodePings(clock, 300.0, 1))
    timer.skip_to(130.0, 0)
    timer.changed(130.0)
    pass_s = 30.83 + 30.0 + 45 * SHORT_SLEEP_S
    assert timer.next_s() == pytest.approx(pass_s + 30.0)


def test_rounds_of_pings_before_a_unix_time_are_skipped() -> None:
    """The first call of a live cluster takes no longer than others, and the phase is kept."""
    clock = site_clock()
    pings = NodePings(clock, 300.0, 2)
    pings.responded(np.array([0]), 50.0)
    now_s = 1.8e9
    pings.skip_to(now_s)
    assert now_s - 200.0 <= pings.next_s <= now_s
    assert (pings.next_s - PING_S) % 100.0 == pytest.approx(5.0)
    assert [pings.answer() for _ in range(4)] == [False, True, True, True]
    timer = BackfillTimer(clock, parse_site({}).scheduler, NodePings(clock, 300.0, 10))
    timer.skip_to(now_s, 0)
    timer.changed(now_s)
    assert now_s <= timer.next_s() <= now_s + 31.0


def test_time_limits_are_checked_each_half_minute() -> None:
    """The check that ends a job is the first of the 30 s after its limit."""
    assert LimitTimer(site_clock()).after(40) == 61.0


def test_main_scheduler_stops_at_the_first_job_that_does_not_fit() -> None:
    """A later small job waits for the backfill scheduler behind a blocked job."""
    jobs = jobs_of((0, 100, 2), (1, 100, 4), (2, 10, 1))
    simulation = simulate(
        cluster_of(4), jobs, slurm(parse_site({"scheduler": {"backfill": False}}))
    )
    starts = dict(zip(simulation.recording.job_id, simulation.recording.start_s, strict=True))
    assert starts[2] > 100
    assert starts[3] > starts[2]


def test_backfill_starts_a_job_that_delays_no_planned_start() -> None:
    """A job that ends before the planned start of the blocked one is backfilled."""
    jobs = jobs_of((0, 100, 2), (1, 100, 4), (2, 10, 1))
    policy = slurm(parse_site({}))
    simulation = simulate(cluster_of(4), jobs, policy)
    starts = dict(zip(simulation.recording.job_id, simulation.recording.start_s, strict=True))
    assert starts[3] < 100 < starts[2]
    assert policy.started_by == {1: "main", 2: "main", 3: "backfill"}


def test_job_beyond_its_limit_times_out() -> None:
    """A job that runs longer than requested ends at a check of time limits."""
    simulation = simulate(cluster_of(1), jobs_of((0, 500, 1, 60)), slurm(parse_site({})))
    assert 60 < simulation.recording.end_s[0] <= 60 + 30 + 5


def test_requeued_job_runs_again_after_121_s_though_nothing_else_happens() -> None:
    """A job on a failed node starts again on another one."""
    jobs = [JobSpec(1, 0.0, 500.0, 600.0, 1, "cores", request=JobRequest(requeue=True))]
    failure = SiteEvents((NodeChange(100.0, (0,), "fail"),))
    platform = cluster_of(2)
    simulation = Simulation(platform, job_table_of(jobs), site_events=failure)
    play(
        slurm(parse_site({})),
        platform,
        lambda decisions, wake_on, elapsed_s: simulation.advance(
            decisions, wake_on=wake_on, elapsed_s=elapsed_s
        ),
    )
    assert 221 <= simulation.recording.start_s[0] <= 221 + 60


def test_resumed_node_gets_jobs_after_it_has_responded() -> None:
    """The pass at the response of a resumed node starts a job, at the earliest 3 s after the last.

    The pass before it, in the iteration of the main loop in which slurmctld pings the node, does
    not.
    """
    jobs = [JobSpec(1, 50.0, 10.0, 60.0, 1, "cores")]
    changes = (NodeChange(10.0, (0,), "fail"), NodeChange(200.0, (0,), "repair"))
    simulation = Simulation(cluster_of(1), job_table_of(jobs), site_events=SiteEvents(changes))
    play(
        slurm(parse_site({"scheduler": {"backfill": False}})),
        cluster_of(1),
        lambda decisions, wake_on, elapsed_s: simulation.advance(
            decisions, wake_on=wake_on, elapsed_s=elapsed_s
        ),
    )
    assert simulation.recording.start_s[0] == pytest.approx(203.15)


def test_work_without_waiting_jobs_ends() -> None:
    """The alarms of the policy do not keep a simulation alive."""
    simulation = simulate(cluster_of(2), jobs_of((0, 5, 1), (5000, 5, 2)), slurm(parse_site({})))
    assert simulation.recording.end_s[1] < 5100


def test_job_that_no_node_can_run_is_refused() -> None:
    """A job whose tasks per node fit on no node does not wait for ever."""
    request = JobRequest(tasks_per_node=3)
    jobs = [JobSpec(1, 0.0, 10.0, 20.0, 4, "cores", request=request)]
    simulation = simulate(cluster_of(4, cores=2), job_table_of(jobs), slurm(parse_site({})))
    assert STATES[simulation.recording.state[0]] == "rejected"
    assert simulation.now_s < 60
