"""FCFS, EASY and conservative backfilling against slow schedulers written from the definitions.

The references know a capacity and, of each job, how much of it it needs: cores, or whole nodes
of equal size. They look at everything anew at every instant at which something happens.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client.job import Job as ClientJob
from hpcosim_protocol import NodeGroup, Placement, Platform, Processor
from hpcosim_schedulers.heuristics.list_scheduling import FIXED
from hpcosim_workloads.table import PLACEMENTS, JobTable
from support.examples import examples
from support.simulating import cluster_of, jobs_of, simulate, starts
from support.slow_schedulers import (
    Decide,
    Job,
    Machine,
    conservative,
    easy,
    fcfs,
    reference,
    shadow_s,
)

Row = tuple[float, float, int, float]  # submit_s, run_s, cores, requested_s


REFERENCES: dict[str, Decide] = {"fcfs": fcfs, "easy": easy, "conservative": conservative}

# How requested times lie to run times: (least, most) that is added to the run time.
EXACT, ABOVE, MIXED = (0, 0), (0, 12), (-6, 12)


@st.composite
def workloads(
    draw: st.DrawFn, most_cores: int, estimates: tuple[int, int], last_submit_s: int = 20
) -> list[Row]:
    """Return jobs in order of submission, times in half seconds."""
    halves = st.integers(0, 2 * last_submit_s)
    rows = []
    for submit in sorted(draw(st.lists(halves, min_size=1, max_size=12))):
        run = draw(st.integers(1, 20))
        requested = max(1, run + draw(st.integers(*estimates)))
        cores = draw(st.integers(1, most_cores))
        rows.append((submit / 2, run / 2, cores, requested / 2))
    return rows


def ours(
    policy: str, nodes: int, cores: int, rows: list[Row], placement: Placement = "cores"
) -> list[float]:
    """Return when our scheduler starts each job."""
    simulation = simulate(cluster_of(nodes, cores), jobs_of(*rows, placement=placement), policy)
    assert simulation.recording.over == len(rows)
    return list(simulation.recording.start_s)


# --- cores ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "estimates", "last_submit_s"),
    [
        ("fcfs", MIXED, 20),
        ("easy", ABOVE, 20),
        ("easy", MIXED, 20),  # an overdue job counts as ending now
        ("conservative", EXACT, 20),
        ("conservative", ABOVE, 0),  # all at once: the schedule is compressed
        ("conservative", MIXED, 0),  # and pushed back
        ("conservative", ABOVE, 20),
        ("conservative", MIXED, 20),
    ],
)
@examples(300)
@given(data=st.data())
def test_starts_are_as_defined(
    policy: str, estimates: tuple[int, int], last_submit_s: int, data: st.DataObject
) -> None:
    """Every job starts when the slow scheduler starts it."""
    rows = data.draw(workloads(5, estimates, last_submit_s))
    assert ours(policy, 5, 1, rows) == reference(5, rows, REFERENCES[policy])


def test_conservative_never_gets_stuck() -> None:
    """A job starts when its reservation begins, also without another event."""
    rows = [(0.0, 1.0, 1, 3.0), (0.0, 1.0, 5, 1.0), (0.0, 2.0, 1, 2.0), (0.0, 1.0, 4, 1.0)]
    assert ours("conservative", 5, 1, rows) == [0.0, 3.0, 0.0, 1.0]


def test_conservative_starts_a_reservation_on_time() -> None:
    """A job starts no later than its reservation, also without another event."""
    rows = [
        (0.0, 4.0, 3, 4.0),
        (0.0, 1.0, 1, 1.0),
        (0.0, 1.0, 1, 3.0),
        (0.0, 1.0, 1, 1.0),
        (0.0, 1.0, 2, 1.0),
        (0.0, 1.0, 1, 1.0),
    ]
    assert ours("conservative", 5, 1, rows) == [0.0, 0.0, 0.0, 1.0, 3.0, 1.0]


def test_conservative_compresses_before_it_places_new_jobs() -> None:
    """A gap in the schedule is used by the waiting job, not by one submitted at that instant."""
    rows = [(0.0, 5.0, 2, 10.0), (1.0, 10.0, 2, 10.0), (5.0, 3.0, 1, 3.0)]
    assert ours("conservative", 2, 1, rows) == [0.0, 5.0, 15.0]


def test_conservative_reserves_while_the_cluster_is_full() -> None:
    """A job submitted while no core is free starts after those submitted before it."""
    rows = [(0.0, 5.0, 2, 10.0), (1.0, 10.0, 2, 10.0), (2.0, 3.0, 1, 3.0)]
    assert ours("conservative", 2, 1, rows) == [0.0, 5.0, 15.0]


def test_conservative_keeps_a_reservation_made_while_the_cluster_was_full() -> None:
    """A job backfilled while no core was free keeps its place when the schedule is compressed."""
    rows = [(0.0, 7.0, 1, 7.0), (0.0, 5.0, 1, 10.0), (1.0, 10.0, 2, 10.0), (2.0, 3.0, 1, 3.0)]
    assert ours("conservative", 2, 1, rows) == [0.0, 0.0, 10.0, 5.0]


# --- whole nodes ------------------------------------------------------------------------------


def in_nodes(rows: list[Row], cores: int) -> list[Row]:
    """Return the jobs with the whole nodes they need in place of their cores."""
    return [(submit, run, -(-need // cores), asked) for submit, run, need, asked in rows]


@pytest.mark.parametrize(
    ("policy", "estimates"),
    [("fcfs", MIXED), ("easy", MIXED), ("conservative", EXACT), ("conservative", MIXED)],
)
@examples(200)
@given(data=st.data())
def test_whole_nodes_start_as_defined(
    policy: str, estimates: tuple[int, int], data: st.DataObject
) -> None:
    """Jobs of whole nodes start when the slow scheduler starts them."""
    rows = data.draw(workloads(20, estimates))
    slow = reference(5, in_nodes(rows, 4), REFERENCES[policy])
    assert ours(policy, 5, 4, rows, "whole_nodes") == slow


# --- the counting and the node-by-node profile ------------------------------------------------


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_extra_cores_do_not_depend_on_another_placement(policy: str) -> None:
    """A job within the extra cores starts, also if another job has placement one_node.

    A job of one core is the same job under `cores` and `one_node`, but the second makes the
    scheduler look at nodes one by one.
    """
    rows = [(0.0, 1.0, 1, 1.0), (0.0, 2.0, 4, 2.0), (0.0, 1.0, 2, 1.0), (0.0, 2.0, 1, 2.0)]
    table = jobs_of(*rows)
    table.placement[0] = PLACEMENTS.index("one_node")
    by_nodes = simulate(cluster_of(5), table, policy)
    assert list(by_nodes.recording.start_s) == reference(5, rows, REFERENCES[policy])


# --- promises to the head of the queue, on any platform ---------------------------------------


@st.composite
def mixed(draw: st.DrawFn, estimates: tuple[int, int]) -> tuple[Platform, JobTable]:
    """Return nodes of several sizes and jobs of every placement, each small enough to run."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=3))
    groups = [NodeGroup(draw(st.integers(1, 2)), (Processor(size),)) for size in sizes]
    platform = Platform(tuple(groups))
    table = jobs_of(*draw(workloads(platform.core_count, estimates)))
    for row in range(len(table)):
        placement = draw(st.sampled_from(PLACEMENTS))
        table.placement[row] = PLACEMENTS.index(placement)
        if placement == "one_node":
            table.cores[row] = min(int(table.cores[row]), max(platform.cores_by_node()))
    return platform, table


@examples(300)
@given(mixed(ABOVE))
def test_easy_never_delays_the_head(drawn: tuple[Platform, JobTable]) -> None:
    """If no job overruns, the head starts no later than its shadow time, on any platform."""
    platform, table = drawn
    simulation = simulate(platform, table, "easy")
    start_s = list(simulation.recording.start_s)
    for head in range(len(table)):
        now_s = max([float(table.submit_s[head]), *start_s[:head]])
        if start_s[head] >= now_s:  # else it was never the head, but backfilled
            assert start_s[head] <= shadow_s(simulation, table, head, now_s)


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_a_backfilled_job_takes_no_reserved_core_of_a_shared_node(policy: str) -> None:
    """A job may use the cores of a node that its reservation leaves over, and no more of them.

    The second job has node 0 reserved from 4 s on, 4 of its 5 cores: until then 3 are free, but
    the third job, which runs longer, may have but one of them.
    """
    platform = Platform((NodeGroup(1, (Processor(5),)), NodeGroup(2, (Processor(2),))))
    table = jobs_of((0.0, 4.0, 2), (1.0, 5.0, 4), (1.0, 6.0, 4))
    table.placement[:2] = PLACEMENTS.index("one_node")
    start_s = simulate(platform, table, policy).recording.start_s
    assert start_s[1] == 4.0


@examples(100)
@given(mixed(MIXED))
def test_fcfs_starts_the_head_as_soon_as_it_fits(drawn: tuple[Platform, JobTable]) -> None:
    """Under fcfs jobs start in order, each at the first instant there is room, anywhere."""
    platform, table = drawn
    table.requested_s[:] = table.run_s  # so that the shadow time is when it truly fits
    simulation = simulate(platform, table, "fcfs")
    start_s = list(simulation.recording.start_s)
    for head in range(len(table)):
        now_s = max([float(table.submit_s[head]), *start_s[:head]])
        assert start_s[head] == shadow_s(simulation, table, head, now_s)


def prefix_starts(policy: str, platform: Platform, table: JobTable) -> list[float]:
    """Return when each job starts if those after it are never submitted."""
    return [
        starts(simulate(platform, table.take(slice(0, count)), policy))[count]
        for count in range(1, len(table) + 1)
    ]


@examples(60)
@given(workloads(5, EXACT))
def test_conservative_keeps_first_reservations(rows: list[Row]) -> None:
    """With exact requests, later submissions do not change the start of a job."""
    alone = prefix_starts("conservative", cluster_of(5), jobs_of(*rows))
    assert ours("conservative", 5, 1, rows) == alone


@examples(100)
@given(mixed(EXACT))
def test_conservative_keeps_first_reservations_anywhere(drawn: tuple[Platform, JobTable]) -> None:
    """With exact requests, later submissions do not delay a job, on any platform."""
    platform, table = drawn
    start_s = simulate(platform, table, "conservative").recording.start_s
    alone = prefix_starts("conservative", platform, table)
    assert all(mine <= bound for mine, bound in zip(start_s, alone, strict=True))


@examples(100)
@given(drawn=mixed(MIXED))
def test_easy_lets_every_job_run(drawn: tuple[Platform, JobTable]) -> None:
    """Whatever the platform, the placements and the requests, every job runs to its end."""
    platform, table = drawn
    simulation = simulate(platform, table, "easy")
    assert all(end_s == end_s for end_s in simulation.recording.end_s)
    assert simulation.recording.over == len(table)


@examples(30)
@given(policy=st.sampled_from(sorted(FIXED)), rows=workloads(5, MIXED))
def test_list_scheduling_takes_the_best_that_waits(policy: str, rows: list[Row]) -> None:
    """Under a fixed order, at every instant, only jobs behind all that still wait are passed."""
    from_ours = ours(policy, 5, 1, rows)
    key = FIXED[policy]

    def in_order(machine: Machine) -> None:
        def rank(job: Job) -> tuple[Any, int]:
            seen = ClientJob(job.row, job.submit_s, job.need, job.requested_s)
            return key(seen), job.row

        for job in sorted(machine.queue, key=rank):
            if job.need > machine.free():
                return
            machine.start(job)

    assert from_ours == reference(5, rows, in_order)
